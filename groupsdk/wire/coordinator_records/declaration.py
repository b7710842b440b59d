"""Declare the records of a coordinator's log: a key with its type, a value with its version.

They are declared and compiled as messages are (see `groupsdk.wire.schema`). On the wire a key is its
record type and its fields, never flexible; a value is its version and its fields; a value of null is a
tombstone. (Kafka: CoordinatorRecordSerde and the JSON files of kafka-group-coordinator.)
"""

import struct
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.compiler import decoder, encoder, encoder_in_steps
from groupsdk.wire.schema import Message


INT16: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True)
class RecordVersions:
    """The versions of a value, `min_version` to `max_version`; the compiler uses it in place of `Api`.

    Versions from `first_flexible` on have compact encodings and tagged fields (KIP-482), None for no version.
    """

    max_version: int = 0
    first_flexible: int | None = 0
    written: int = 0
    """The version that Kafka 4.1 writes; older brokers could not read the newest one."""
    min_version: int = 0

    def is_flexible(self, version: int) -> bool:
        """Return whether a version has compact encodings and tagged fields."""
        return self.first_flexible is not None and version >= self.first_flexible

    def __contains__(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


KEY_VERSIONS: Final = RecordVersions(first_flexible=None)


class CoordinatorValue(Message):
    """Base of the values of a coordinator's records."""

    __slots__ = ()

    # a RecordVersions, where a message has an Api: records are nothing that is asked of a broker
    api: ClassVar[Any] = RecordVersions()


class CoordinatorKey(Message):
    """Base of the keys of a coordinator's records."""

    __slots__ = ()

    api: ClassVar[Any] = KEY_VERSIONS
    record_type: ClassVar[int]
    value_class: ClassVar[type[CoordinatorValue]]


KeyClasses = Mapping[int, type[CoordinatorKey]]
"""The keys of one log by their record type."""


def write_key(key: CoordinatorKey) -> bytes:
    """Encode a key, its record type first. Raises EncodeError if a value does not fit its field."""
    return INT16.pack(key.record_type) + encoder(type(key), 0)(key)


def write_value(value: CoordinatorValue, version: int | None = None) -> bytes:
    """Encode a value, its version first.

    Args:
        version: to write; None: the one that Kafka 4.1 writes.

    Raises:
        EncodeError: the version is not declared, or it cannot carry the value.
    """
    if version is None:
        version = value.api.written
    return INT16.pack(version) + encoder(type(value), version)(value)


def write(
    key: CoordinatorKey, value: CoordinatorValue | None, version: int | None = None
) -> tuple[bytes, bytes | None]:
    """Encode a record. Return its key and value.

    Args:
        value: a value of `key.value_class`; None for a tombstone.
        version: the version of the value; None for the one that Kafka 4.1 writes.

    Raises:
        EncodeError: the value is of another class, or a field does not fit its type.
    """
    if value is None:
        return write_key(key), None
    if not isinstance(value, key.value_class):
        raise EncodeError(
            f"the value of {type(key).__name__} is a {key.value_class.__name__}, not a"
            f" {type(value).__name__}"
        )
    return write_key(key), write_value(value, version)


def write_in_steps(
    key: CoordinatorKey, value: CoordinatorValue | None
) -> Generator[None, None, tuple[bytes, bytes | None]]:
    """Encode a record as `write` does, in steps of a few milliseconds."""
    if value is None:
        return write(key, value)
    version = value.api.written
    place = type(value), version
    encode = _encoders_in_steps.get(place)
    if encode is None:
        encode = _encoders_in_steps[place] = encoder_in_steps(*place)
    pieces = yield from encode(value)
    return write_key(key), b"".join((INT16.pack(version), *pieces))


_encoders_in_steps: dict[tuple[type[CoordinatorValue], int], Any] = {}


def read_key(classes: KeyClasses, data: bytes) -> CoordinatorKey | None:
    """Decode a key.

    Returns:
        None if the record type is unknown: skip the record. Only a newer broker writes such a record, and one that an older
        broker need not understand.

    Raises:
        DecodeError: the bytes are not a key, or not one of their record type.
    """
    record_type = read_prefix(data, "key")
    found = classes.get(record_type)
    if found is None:
        return None
    key: CoordinatorKey = decoder(found, 0)(data, INT16.size)
    return key


def read_value(key: CoordinatorKey, data: bytes | None) -> CoordinatorValue | None:
    """Decode the value of a record. Return None for a tombstone.

    Args:
        data: the bytes of the value; None for a tombstone.

    Raises:
        DecodeError: the bytes are not a value of this key, or their version is unknown: a broker must not skip them.
    """
    if data is None:
        return None
    version = read_prefix(data, "value")
    declared = key.value_class
    if version not in declared.api:
        raise DecodeError(
            f"{declared.__name__} has version {version}; 0 to {declared.api.max_version} are known"
        )
    value: CoordinatorValue = decoder(declared, version)(data, INT16.size)
    return value


def read_prefix(data: bytes, what: str) -> int:
    """Return the first two bytes of `data` as a number: the record type of a key, or the version of a value.

    Args:
        what: "key" or "value", for the error.

    Raises:
        DecodeError: there are fewer than two bytes.
    """
    if len(data) < INT16.size:
        raise DecodeError(f"{len(data)} bytes is too short for the {what} of a coordinator record")
    prefix: int = INT16.unpack_from(data)[0]
    return prefix
