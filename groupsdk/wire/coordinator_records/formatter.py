"""Print the records of a coordinator's log as Kafka's message formatters do (kafka-console-consumer.sh).

One JSON object for a record, without a newline; None for a record of another type, which prints nothing.
(Kafka 4: OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter.)
"""

from collections.abc import Set as AbstractSet
from typing import Final

from groupsdk.wire.coordinator_records import offsets_log, transaction_log
from groupsdk.wire.coordinator_records.declaration import (
    INT16,
    CoordinatorKey,
    KeyClasses,
    read_key,
    read_value,
)
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey
from groupsdk.wire.coordinator_records.json_form import Json, json_line, to_json
from groupsdk.wire.coordinator_records.offset_commit import LegacyOffsetCommitKey, OffsetCommitKey
from groupsdk.wire.coordinator_records.transaction_log import TransactionLogKey


_OFFSETS: Final = frozenset((LegacyOffsetCommitKey, OffsetCommitKey))
_GROUPS: Final = frozenset((GroupMetadataKey,))
_TRANSACTIONS: Final = frozenset((TransactionLogKey,))


def format_offset(key: bytes | None, value: bytes | None) -> str | None:
    """Format the key and value of a committed offset in `__consumer_offsets`; None for any other record.

    Raises:
        DecodeError: the bytes are corrupt, or of an unknown version.
    """
    return _format(offsets_log.KEYS, _OFFSETS, key, value)


def format_group_metadata(key: bytes | None, value: bytes | None) -> str | None:
    """Format the key and value of a classic group in `__consumer_offsets`; None for any other record.

    Subscriptions and assignments are shown as bytes.

    Raises:
        DecodeError: the bytes are corrupt, or of an unknown version.
    """
    return _format(offsets_log.KEYS, _GROUPS, key, value)


def format_transaction(key: bytes | None, value: bytes | None) -> str | None:
    """Format the key and value of a transactional id in `__transaction_state`; None for any other record.

    Raises:
        DecodeError: the bytes are corrupt, or of an unknown version.
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
            "value": _value(found, value),
        }
    )


def _value(key: CoordinatorKey, data: bytes | None) -> Json:
    value = read_value(key, data)
    if value is None or data is None:
        return None
    (version,) = INT16.unpack_from(data)
    return {"version": version, "data": to_json(value, version)}
