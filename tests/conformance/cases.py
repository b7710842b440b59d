"""Fill every declared message in every version, in the same way on every run."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from typing_extensions import override

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

UNKNOWN_TAGS = (TaggedField(77, b"\x00\xff"), TaggedField(300, b""), TaggedField(70000, b"x" * 200))
"""Tagged fields that no message declares, with tags of one, two and three bytes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One message to encode in one version."""

    version: int
    name: str
    message: Message

    @property
    def key(self) -> str:
        """Name the case in the golden file."""
        return f"{type(self.message).__name__} {self.version} {self.name}"

    def question(self) -> dict[str, Any]:
        """Put the case the way the Java program reads it."""
        question = {
            "message": type(self.message).__name__,
            "version": self.version,
            "newest": self.message.api.max_version,
            "fields": to_json(self.message),
        }
        tags = {str(each.tag): each.data.hex() for each in self.message.unknown_tagged_fields}
        return question | {"tags": tags} if tags else question


class Filling:
    """Choose a value for every field; the subclasses differ in which."""

    elements = 2

    def __init__(self) -> None:
        self._count = 0

    def struct(self, declared: type[S], version: int) -> S:
        """Fill the fields that the version has."""
        values = {
            each.name: self.field(each, version)
            for each in declared_fields(declared)
            if self.wants(each, version)
        }
        return declared(**values)

    def wants(self, each: Field, version: int) -> bool:
        """Return whether to fill a field, or to leave it at its default."""
        return version in each.versions

    def field(self, each: Field, version: int) -> Any:
        """Choose the value of a field."""
        return self.value(each.type, version)

    def value(self, wire_type: WireType, version: int) -> Any:
        self._count += 1
        if isinstance(wire_type, Width):
            return wire_type.number(self.integer(wire_type))
        if isinstance(wire_type, ArrayType):
            return tuple(self.value(wire_type.element, version) for _ in range(self.elements))
        if wire_type is bool:
            return self._count % 2 == 1
        if wire_type is UUID:
            return UUID(int=0x0123_4567_89AB_CDEF << 64 | self._count)
        if wire_type is str:
            return self.text()
        if wire_type is bytes:
            return self.data()
        if issubclass(wire_type, Struct):
            return self.struct(wire_type, version)
        raise TypeError(f"no filling for {wire_type}")

    def integer(self, width: Width) -> int:
        return self._count % 128

    def text(self) -> str:
        return f"text-{self._count}"

    def data(self) -> bytes:
        return bytes((0, 255, self._count % 256))


class Nulls(Filling):
    """Every field null that may be, arrays of one element."""

    elements = 1

    @override
    def field(self, each: Field, version: int) -> Any:
        return None if each.is_nullable(version) else super().field(each, version)


class Empty(Filling):
    """Empty strings, bytes and arrays, zeros."""

    elements = 0

    @override
    def integer(self, width: Width) -> int:
        return 0

    @override
    def text(self) -> str:
        return ""

    @override
    def data(self) -> bytes:
        return b""


class Unicode(Filling):
    """Characters of one to four bytes in UTF-8, and the NUL."""

    @override
    def text(self) -> str:
        return f"aß語😀\0{self._count}"


class Largest(Filling):
    """The largest integers, and lengths around the step from one to two bytes."""

    @override
    def integer(self, width: Width) -> int:
        # a capital is an unsigned one's code
        return (1 << (8 * width.size - width.code.islower())) - 1

    @override
    def text(self) -> str:
        return "x" * (126 + self._count % 3)

    @override
    def data(self) -> bytes:
        return b"\xff" * (126 + self._count % 3)


class Smallest(Filling):
    """The smallest integers, and lengths around the step from two to three bytes."""

    elements = 1

    @override
    def integer(self, width: Width) -> int:
        return -(1 << (8 * width.size - 1)) if width.code.islower() else 0

    @override
    def text(self) -> str:
        return "x" * (16382 + self._count % 3)

    @override
    def data(self) -> bytes:
        return b"\0" * (16382 + self._count % 3)


class LongestText(Filling):
    """Strings as long as Kafka lets them be."""

    elements = 1

    @override
    def text(self) -> str:
        return "y" * 32767


class ManyElements(Filling):
    """Arrays whose count takes two bytes; the arrays in them have one element."""

    def __init__(self) -> None:
        super().__init__()
        self._inside = False

    @override
    def value(self, wire_type: WireType, version: int) -> Any:
        if not isinstance(wire_type, ArrayType):
            return super().value(wire_type, version)
        if self._inside:
            return (self.value(wire_type.element, version),)
        self._inside = True
        filled = tuple(self.value(wire_type.element, version) for _ in range(130))
        self._inside = False
        return filled

    @override
    def text(self) -> str:
        return str(self._count % 10)


class Foreign(Filling):
    """All fields set, also those that the version lacks: Kafka refuses, or drops them all."""

    @override
    def wants(self, each: Field, version: int) -> bool:
        return True


class ForeignIgnorable(Filling):
    """The ignorable fields set, also where the version lacks them: Kafka drops those."""

    @override
    def wants(self, each: Field, version: int) -> bool:
        return version in each.versions or each.ignorable


class ForeignNull(Filling):
    """Null where some version allows it: Kafka refuses it in the others, if they have the field."""

    @override
    def field(self, each: Field, version: int) -> Any:
        return None if each.nullable is not None else super().field(each, version)


FILLINGS: dict[str, type[Filling]] = {
    "typical": Filling,
    "nulls": Nulls,
    "empty": Empty,
    "unicode": Unicode,
    "largest": Largest,
    "smallest": Smallest,
    "longest": LongestText,
    "many": ManyElements,
    "foreign": Foreign,
    "foreign-ignorable": ForeignIgnorable,
    "foreign-null": ForeignNull,
}


def cases() -> Iterator[Case]:
    """Go through the cases of all messages."""
    for declared in messages():
        yield from cases_of(declared)


def cases_of(declared: type[Message]) -> Iterator[Case]:
    """Go through all versions and fillings of a message; beside these, the defaults and unknown tags."""
    for version in range(declared.api.min_version, declared.api.max_version + 1):
        yield Case(version, "defaults", declared())
        yield Case(version, "tags", declared(unknown_tagged_fields=UNKNOWN_TAGS))
        for name, filling in FILLINGS.items():
            yield Case(version, name, filling().struct(declared, version))


def to_json(value: Struct) -> dict[str, Any]:
    """Put a struct the way Kafka's JSON converters read it."""
    return {
        camel_case(each.name): _json_value(getattr(value, each.name))
        for each in declared_fields(type(value))
    }


def camel_case(name: str) -> str:
    """Turn Python's spelling of a field into that of Kafka's JSON."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case tuple():
            return [_json_value(item) for item in value]
        case Struct():
            return to_json(value)
        case _:
            return value
