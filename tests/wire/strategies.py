"""Derive hypothesis strategies from the declarations of messages."""

from typing import Any, TypeVar

from hypothesis import strategies as st

from groupsdk.wire.api import messages
from groupsdk.wire.primitives import TaggedField
from groupsdk.wire.schema import (
    ArrayType,
    Field,
    Message,
    Struct,
    Width,
    WireType,
    declared_fields,
)


S = TypeVar("S", bound=Struct)

MESSAGES: list[type[Message]] = list(messages())


def texts() -> st.SearchStrategy[str]:
    """Strings that UTF-8 can carry, long enough for a length of two bytes now and then."""
    plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    return plain | st.just("ä" * 70)


def unknown_tags(known: set[int]) -> st.SearchStrategy[tuple[TaggedField, ...]]:
    """Tagged fields that a struct does not declare, in the order of the wire."""
    numbers = st.integers(0, 2**31 - 1).filter(lambda tag: tag not in known)
    fields = st.builds(TaggedField, numbers, st.binary(max_size=8))
    unique = st.lists(fields, max_size=3, unique_by=lambda field: field.tag)
    return unique.map(lambda found: tuple(sorted(found, key=lambda field: field.tag)))


def values(wire_type: WireType, version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(wire_type, Width):
        if wire_type.number is float:
            return st.floats(allow_nan=False)
        if wire_type.code == "H":
            return st.integers(0, 2**16 - 1)
        top = 1 << (8 * wire_type.size - 1)
        return st.integers(-top, top - 1)
    if isinstance(wire_type, ArrayType):
        element = values(wire_type.element, version, flexible=flexible)
        return st.lists(element, max_size=3).map(tuple)
    if wire_type is bool:
        return st.booleans()
    if wire_type is str:
        return texts()
    if wire_type is bytes:
        return st.binary(max_size=12) | st.just(b"\xff" * 130)
    if issubclass(wire_type, Struct):
        return structs(wire_type, version, flexible=flexible)
    return st.uuids()


def field_values(each: Field, version: int, *, flexible: bool) -> st.SearchStrategy[Any]:
    """Values of a field, null included where it may be."""
    plain = values(each.type, version, flexible=flexible)
    return st.none() | plain if each.is_nullable(version) else plain


def structs(declared: type[S], version: int, *, flexible: bool) -> st.SearchStrategy[S]:
    """Structs whose fields that the version lacks are at their defaults."""
    known = [each for each in declared_fields(declared) if version in each.versions]
    fields = {each.name: field_values(each, version, flexible=flexible) for each in known}
    if flexible:
        fields["unknown_tagged_fields"] = unknown_tags(
            {each.tag for each in known if each.tag is not None}
        )
    return st.builds(declared, **fields)


@st.composite
def versioned_messages(draw: st.DrawFn) -> tuple[int, Message]:
    """A version and a message of any class that it can carry."""
    declared = draw(st.sampled_from(MESSAGES))
    version = draw(st.integers(declared.api.min_version, declared.api.max_version))
    flexible = declared.api.is_flexible(version)
    message: Message = draw(structs(declared, version, flexible=flexible))
    return version, message
