"""Print the records of a coordinator's log as Kafka's message formatters do (kafka-console-consumer.sh).

One JSON object for a record, without a newline; None for a record of another type, which prints nothing.
(Kafka 4: OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter; the JSON itself is
that of the generated JsonConverter classes.)
"""

import json
import re
from base64 import b64encode
from collections.abc import Set as AbstractSet
from typing import Any, Final
from uuid import UUID

from groupsdk.wire.coordinator_records import offsets_log, transaction_log
from groupsdk.wire.coordinator_records.declaration import (
    INT16,
    CoordinatorKey,
    KeyClasses,
    read_key,
    read_value,
)
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey
from groupsdk.wire.coordinator_records.offset_commit import LegacyOffsetCommitKey, OffsetCommitKey
from groupsdk.wire.coordinator_records.transaction_log import TransactionLogKey
from groupsdk.wire.primitives import kafka_uuid
from groupsdk.wire.schema import ArrayType, Field, Struct, WireType, declared_fields


Json = None | bool | int | str | list[Any] | dict[str, Any]


_ESCAPE: Final = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")
_OFFSETS: Final = frozenset((LegacyOffsetCommitKey, OffsetCommitKey))
_GROUPS: Final = frozenset((GroupMetadataKey,))
_TRANSACTIONS: Final = frozenset((TransactionLogKey,))


def format_offset(key: bytes | None, value: bytes | None) -> str | None:
    """Format the key and value of a committed offset in `__consumer_offsets`; None for any other record.

    Raises DecodeError if the bytes are corrupt, or of an unknown version.
    """
    return _format(offsets_log.KEYS, _OFFSETS, key, value)


def format_group_metadata(key: bytes | None, value: bytes | None) -> str | None:
    """Format the key and value of a classic group in `__consumer_offsets`; None for any other record.

    Subscriptions and assignments are shown as bytes. Raises DecodeError if the bytes are corrupt, or of an unknown
    version.
    """
    return _format(offsets_log.KEYS, _GROUPS, key, value)


def format_transaction(key: bytes | None, value: bytes | None) -> str | None:
    """Format the key and value of a transactional id in `__transaction_state`; None for any other record.

    Raises DecodeError if the bytes are corrupt, or of an unknown version.
    """
    return _format(transaction_log.KEYS, _TRANSACTIONS, key, value)


def _format(
    classes: KeyClasses,
    wanted: AbstractSet[type[CoordinatorKey]],
    key: bytes | None,
    value: bytes | None,
) -> str | None:
    if key is None:
        return None
    found = read_key(classes, key)
    if found is None or type(found) not in wanted:
        return None
    return json_line(
        {
            "key": {"type": found.record_type, "data": to_json(found, 0)},
            "value": _value_of(found, value),
        }
    )


def _value_of(key: CoordinatorKey, data: bytes | None) -> Json:
    value = read_value(key, data)
    if value is None or data is None:
        return None
    (version,) = INT16.unpack_from(data)
    return {"version": version, "data": to_json(value, version)}


def to_json(value: Struct, version: int) -> dict[str, Json]:
    """Return a struct as JSON, with the fields of a version, as Kafka's generated JSON converters do.

    Bytes are in base64, a UUID in 22 characters of URL-safe base64. A tagged field is left out if it has its default."""
    return {
        camel(each.name): _value(each.type, content, version)
        for each in declared_fields(type(value))
        if version in each.versions and _is_shown(each, content := getattr(value, each.name))
    }


def _is_shown(each: Field, content: Any) -> bool:
    return each.tag is None or content is None or content != each.default


def _value(wire_type: WireType, content: Any, version: int) -> Json:
    if content is None:
        return None
    if isinstance(wire_type, ArrayType):
        return [_value(wire_type.element, item, version) for item in content]
    if isinstance(content, Struct):
        return to_json(content, version)
    if isinstance(content, bytes):
        return b64encode(content).decode()
    if isinstance(content, UUID):
        return kafka_uuid(content)
    plain: Json = content
    return plain


def camel(name: str) -> str:
    """Return the name of a field in Kafka's camel case."""
    first, *others = name.split("_")
    return first + "".join(each.title() for each in others)


def json_line(value: Json) -> str:
    """Return the text of a JSON value as Jackson writes it by default: no spaces, only necessary escapes."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _ESCAPE.sub(_as_jackson, text)


def _as_jackson(escape: re.Match[str]) -> str:
    digits = escape[1]
    return escape[0] if digits is None else f"\\u00{digits.upper()}"
