"""Declare messages: what a field's annotation may say, and what the compiler reads out of it.

A struct is a frozen, slotted dataclass derived from `Struct`; a message derives from `Message` and names
its `Api`. One class serves all versions. A field's Python type gives its wire type, and `Annotated`
adds the rest::

    reason: Annotated[str | None, since(8), nullable(8), IGNORABLE] = None

=================== ===========================================================
Python type         wire type
=================== ===========================================================
`bool`              bool
`Int8` ... `Int64`  int8 ... int64
`UInt16`            uint16
`Float64`           float64
`str`               string, `str | None` where nullable in some version
`bytes`             bytes, `bytes | None` likewise
`UUID`              uuid
`bytes | None`      records, too: what they hold is read by those who need it
a `Struct`          struct in place, `| None` likewise; its default is the struct's own
`tuple[X, ...]`     array of any of these, `| None` likewise
=================== ===========================================================

A field that a version lacks is read as its default. On writing, Kafka's rule holds: an `IGNORABLE` field is
left out silently, any other one has to have its default there.
"""

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Generic, TypeVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.lazy_imports import override
from groupsdk.wire.primitives import TaggedField


class ApiKey(IntEnum):
    """Name the requests that are declared here by their number on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    STREAMS_GROUP_DESCRIBE = 89


@dataclass(frozen=True, slots=True)
class Api:
    """An API: its key and the versions declared here, `min_version` to `max_version`.

    Versions from `first_flexible` on have compact encodings and tagged fields (KIP-482); None for no version.
    """

    key: ApiKey
    min_version: int
    max_version: int
    first_flexible: int | None = None
    last_by_name: int | None = None
    """The newest version with topic names, if later ones have topic ids instead; None if there is no such difference."""

    @property
    def client_version(self) -> int:
        """The newest version that clients of this library send: they know topics by name."""
        return self.max_version if self.last_by_name is None else self.last_by_name

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has compact encodings and tagged fields."""
        return self.first_flexible is not None and version >= self.first_flexible

    def __contains__(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that have a field, `first` to `last`; None means the newest."""

    first: int
    last: int | None = None

    def __contains__(self, version: int) -> bool:
        return version >= self.first and (self.last is None or version <= self.last)

    @override
    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first}+"
        return f"{self.first}-{self.last}" if self.first != self.last else f"{self.first}"


@dataclass(frozen=True, slots=True)
class Nullable:
    """Mark the versions in which a field may be null."""

    versions: Versions


@dataclass(frozen=True, slots=True)
class Tagged:
    """Marks a field as a tagged one with the number `tag` (KIP-482)."""

    tag: int


class Ignorable:
    """Marks a field that is left out silently in versions that lack it; other fields must then have their default."""

    __slots__ = ()


IGNORABLE = Ignorable()


def since(first: int) -> Versions:
    """Mark a field as present from the version `first` on."""
    return Versions(first)


def until(last: int) -> Versions:
    """Mark a field as present up to the version `last`, inclusive."""
    return Versions(0, last)


def between(first: int, last: int) -> Versions:
    """Mark a field as present from the version `first` to `last`, both inclusive."""
    return Versions(first, last)


def nullable(first: int = 0, last: int | None = None) -> Nullable:
    """Mark a field as nullable from the version `first` to `last`; None for the newest."""
    return Nullable(Versions(first, last))


def tagged(tag: int) -> Tagged:
    """Mark a field as a tagged one with the number `tag`, in the versions that have it."""
    return Tagged(tag)


@dataclass(frozen=True, slots=True)
class Width:
    """The size of a number, by `code`, its format character of the module `struct`."""

    code: str

    @property
    def size(self) -> int:
        """The number of bytes."""
        return {"b": 1, "h": 2, "H": 2, "i": 4, "q": 8, "d": 8}[self.code]

    @property
    def number(self) -> type[int] | type[float]:
        """The Python type of the number."""
        return float if self.code == "d" else int


Int8 = Annotated[int, Width("b")]
Int16 = Annotated[int, Width("h")]
Int32 = Annotated[int, Width("i")]
Int64 = Annotated[int, Width("q")]
UInt16 = Annotated[int, Width("H")]
Float64 = Annotated[float, Width("d")]

NO_UUID = UUID(int=0)
"""Kafka's zero UUID: the default of every uuid field."""

NOT_ASKED = -0x80000000
"""The value of authorized operations that the client did not request."""


@dataclass(frozen=True, slots=True)
class Struct:
    """The base class of declared structs; keeps the tagged fields that a newer peer sent.

    `unknown_tagged_fields` is keyword-only, and is written back unchanged in flexible versions.
    """

    unknown_tagged_fields: tuple[TaggedField, ...] = field(default=(), kw_only=True, repr=False)


Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], Any]


class Codecs:
    """The compiled functions of one message class, by version; each is compiled on its first use.

    Thread-safe: at worst, two threads compile the same version.
    """

    __slots__ = ("decoders", "encoders")

    def __init__(self) -> None:
        self.encoders: dict[int, Encode] = {}
        self.decoders: dict[int, Decode] = {}


class Message(Struct):
    """The base class of requests and responses."""

    # no dataclasses themselves, as they add no field: making one costs most of the time of an import
    __slots__ = ()

    api: ClassVar[Api]
    codecs: ClassVar[Codecs]

    @override
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.codecs = Codecs()


class Response(Message):
    """The base class of responses."""

    __slots__ = ()


R = TypeVar("R", bound=Response)


class Request(Message, Generic[R]):
    """The base class of requests; has the class of the response, for the type checker and at run time."""

    __slots__ = ()

    response_class: ClassVar[type[Response]]


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array on the wire, of elements of one type."""

    element: "WireType"


WireType = Width | type[bool] | type[str] | type[bytes] | type[UUID] | type[Struct] | ArrayType


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct as the compiler sees it.

    Attributes:
        nullable: the versions in which it may be null; None for no version.
        ignorable: whether it is left out silently in versions that lack it, whatever its value.
        default: the value in versions that lack it.
    """

    name: str
    type: WireType
    versions: Versions
    nullable: Versions | None
    ignorable: bool
    tag: int | None
    default: Any

    def is_nullable(self, version: int) -> bool:
        """Return whether the field may be null in a version that has it."""
        return self.nullable is not None and version in self.nullable


_declared: dict[type[Struct], tuple[Field, ...]] = {}


def declared_fields(struct: type[Struct]) -> tuple[Field, ...]:
    """Return the fields of a struct, in wire order.

    Raises TypeError if an annotation is not a type of the wire.
    """
    found = _declared.get(struct)
    if found is None:
        found = _declared[struct] = _read_declaration(struct)
    return found


def field_versions(struct: type[Struct], name: str) -> Versions:
    """Return the versions that have a field. Raises KeyError if the struct has no such field."""
    return {each.name: each.versions for each in declared_fields(struct)}[name]


def _read_declaration(struct: type[Struct]) -> tuple[Field, ...]:
    hints = typing.get_type_hints(struct, include_extras=True)
    return tuple(
        _field(f"{struct.__name__}.{each.name}", each.name, hints[each.name], each.default)
        for each in fields(struct)
        if each.name != "unknown_tagged_fields"
    )


def _field(place: str, name: str, hint: Any, default: Any) -> Field:
    hint, marks = _unwrap(hint)
    wire_type, optional = _wire_type(place, hint, marks)
    null = next((mark.versions for mark in marks if isinstance(mark, Nullable)), None)
    if default is MISSING:
        raise TypeError(f"{place}: a field must have Kafka's default")
    if optional != (null is not None):
        raise TypeError(f"{place}: `| None` and nullable() must be used together")
    return Field(
        name=name,
        type=wire_type,
        versions=next((mark for mark in marks if isinstance(mark, Versions)), Versions(0)),
        nullable=null,
        ignorable=IGNORABLE in marks,
        tag=next((mark.tag for mark in marks if isinstance(mark, Tagged)), None),
        default=default,
    )


def _unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if typing.get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def _wire_type(place: str, hint: Any, marks: tuple[Any, ...]) -> tuple[WireType, bool]:
    optional = False
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        choices = [choice for choice in typing.get_args(hint) if choice is not types.NoneType]
        if len(choices) != 1:
            raise TypeError(f"{place}: the only supported union is `X | None`")
        optional = True
        hint, inner = _unwrap(choices[0])
        marks += inner
    return _plain_type(place, hint, marks), optional


def _plain_type(place: str, hint: Any, marks: tuple[Any, ...]) -> WireType:
    if hint in (int, float):
        for mark in marks:
            if isinstance(mark, Width) and mark.number is hint:
                return mark
        raise TypeError(f"{place}: a number must have a size: Int8, Int16, Int32, Int64 or Float64")
    if typing.get_origin(hint) is tuple:
        element, ellipsis = typing.get_args(hint)
        if ellipsis is not Ellipsis:
            raise TypeError(f"{place}: an array must be a tuple[X, ...]")
        return ArrayType(_plain_type(place, *_unwrap(element)))
    if hint in (bool, str, bytes, UUID) or (isinstance(hint, type) and issubclass(hint, Struct)):
        plain: WireType = hint
        return plain
    raise TypeError(f"{place}: the type {hint!r} is not supported")
