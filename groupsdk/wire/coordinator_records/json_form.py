"""Turn records into the JSON that Kafka's tools print (Kafka: the generated JsonConverter classes)."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from typing import Any, Final
from uuid import UUID

from groupsdk.wire.schema import ArrayType, Field, Struct, WireType, declared_fields


Json = None | bool | int | str | list[Any] | dict[str, Any]

_ESCAPE: Final = re.compile(r"\\(?:u00([0-9a-f]{2})|.)")


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
        return urlsafe_b64encode(content.bytes).decode().rstrip("=")
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
