"""Explain why a message cannot be encoded: the field, the value, and a version that would work."""

import struct
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from groupsdk.errors import EncodeError
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.wire.schema import ArrayType, Field, Struct, Width, WireType, declared_fields


def explain_encode(
    declared: type[Struct], message: Any, version: int, cause: Exception
) -> EncodeError:
    """Build the error for a message that could not be encoded, naming the first field that is wrong.

    Runs only after a failure, so encoding itself checks nothing that `struct` checks anyway. The error has types and
    sizes of values, not the values: they may be secrets.

    Args:
        cause: the error, used if no field is found to be wrong.
    """
    name = f"{declared.__name__} v{version}"
    for problem in _struct_problems(declared, message, version):
        return EncodeError(f"{name}: {problem}")
    return EncodeError(f"{name}: {cause}")


def _struct_problems(declared: type[Struct], value: Any, version: int) -> Iterator[str]:
    for each in declared_fields(declared):
        content = getattr(value, each.name)
        if version in each.versions:
            null = each.is_nullable(version)
            yield from _value_problems(each.type, each.name, content, version, null=null)
        elif not each.ignorable and content != each.default:
            yield _absent(each)


def _absent(each: Field) -> str:
    return f"{each.name} is not in this version, only in {each.versions}; leave it at its default {each.default!r}"


def _value_problems(
    wire_type: WireType, place: str, value: Any, version: int, *, null: bool
) -> Iterator[str]:
    if value is None:
        if not null:
            yield f"{place} is None, which it may not be in this version"
        return
    match wire_type:
        case Width():
            yield from _number_problems(wire_type, place, value)
        case ArrayType(element):
            yield from _array_problems(element, place, value, version)
        case _ if wire_type in (bool, UUID):
            yield from _type_problems(place, value, wire_type)
        case _ if wire_type is bytes:
            yield from _type_problems(place, value, bytes)
        case _ if wire_type is str:
            yield from _text_problems(place, value)
        case _:
            yield from _element_problems(wire_type, place, value, version)


def _type_problems(place: str, value: Any, wanted: Any) -> Iterator[str]:
    if not isinstance(value, wanted):
        yield f"{place} must be {wanted.__name__}, not {type(value).__name__}"


def _number_problems(width: Width, place: str, value: Any) -> Iterator[str]:
    if not isinstance(value, (int, width.number)):
        yield f"{place} must be {width.number.__name__}, not {type(value).__name__}"
        return
    try:
        struct.pack(f">{width.code}", value)
    except struct.error:
        yield f"{place} is {value}, which does not fit {8 * width.size} bits"


def _text_problems(place: str, value: Any) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{place} must be str, not {type(value).__name__}"
        return
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        yield f"{place} has a character that UTF-8 cannot carry (a lone surrogate)"
        return
    if size > MAX_STRING_BYTES:
        yield f"{place} has {size} bytes in UTF-8, over the limit of {MAX_STRING_BYTES}"


def _array_problems(element: WireType, place: str, value: Any, version: int) -> Iterator[str]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        yield f"{place} must be a tuple, not {type(value).__name__}"
        return
    for index, item in enumerate(value):
        yield from _value_problems(element, f"{place}[{index}]", item, version, null=False)


def _element_problems(declared: Any, place: str, value: Any, version: int) -> Iterator[str]:
    if not isinstance(value, declared):
        yield f"{place} must be {declared.__name__}, not {type(value).__name__}"
        return
    for problem in _struct_problems(declared, value, version):
        yield f"{place}.{problem}"
