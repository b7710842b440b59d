"""Declare committed offsets in `__consumer_offsets`, and write and read them fast."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple
from uuid import UUID

from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    RecordVersions,
    write_key,
    write_value,
)
from groupsdk.wire.primitives import FieldError, compact_string_length
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Int32,
    Int64,
    between,
    since,
    tagged,
)


OFFSET_VERSION: Final = 4
"""The version that is written."""
EXPIRING_VERSION: Final = 1
"""The only version that carries when an offset expires, for requests with a retention time of their own."""

_KEY_TYPE_AND_LENGTH: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")
KEY_PARTITION: Final = struct.Struct(">i")
"""The end of a key."""
_OFFSET: Final = struct.Struct(">hqi")
_TIMESTAMP_AND_TAGS: Final = struct.Struct(">qb")
NO_TAGS: Final = b"\0"
TOPIC_ID_TAG: Final = bytes((1, 0, 16))
"""One tagged field, the number 0, of 16 bytes: they follow."""
_ID_BYTES: Final = 16
_TIMESTAMP: Final = struct.Struct(">q")
PLAIN_HEAD: Final = struct.Struct(">hqiBq")
"""A value without metadata up to its tagged fields: OFFSET_VERSION, offset, epoch, 1, timestamp."""
_PLAIN_VALUE: Final = struct.Struct(">hqiBqB")
_PLAIN_VALUE_WITH_ID: Final = struct.Struct(">hqiBq3s16s")
PLAIN_SIZES: Final = frozenset({_PLAIN_VALUE.size, _PLAIN_VALUE_WITH_ID.size})
"""The sizes of values without metadata: without and with a topic id."""
_OLDER_VERSION: Final = 3
_unpack_partition = KEY_PARTITION.unpack_from
_unpack_with_id = _PLAIN_VALUE_WITH_ID.unpack
_new_tuple = tuple.__new__  # as the named tuple does, in half the time
_FAILURES: Final = (struct.error, FieldError, UnicodeEncodeError, ValueError)


@dataclass(frozen=True, slots=True)
class LegacyOffsetCommitValue(CoordinatorValue):
    """The committed offset of a partition, as Kafka before 0.9 wrote it; see `OffsetCommitValue`."""

    api: ClassVar[Any] = RecordVersions(first_flexible=None)

    offset: Int64 = 0
    metadata: str = ""
    commit_timestamp: Int64 = 0


@dataclass(frozen=True, slots=True)
class LegacyOffsetCommitKey(CoordinatorKey):
    """The key of a committed offset, as Kafka before 0.9 wrote it; read, never written."""

    record_type: ClassVar[int] = 0
    value_class: ClassVar[type[CoordinatorValue]] = LegacyOffsetCommitValue

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@dataclass(frozen=True, slots=True)
class OffsetCommitValue(CoordinatorValue):
    """The committed offset of a partition.

    `offset` is that of the next record to read, `metadata` a string of the consumer's own that is stored with it.
    `topic_id` is `NO_UUID` if the client committed by name.
    """

    api: ClassVar[Any] = RecordVersions(4, first_flexible=4, written=OFFSET_VERSION)

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, since(3), IGNORABLE] = -1
    """The leader epoch of the last consumed record; -1 if unknown."""
    metadata: str = ""
    commit_timestamp: Int64 = 0
    """Milliseconds since 1970."""
    expire_timestamp: Annotated[Int64, between(1, 1), IGNORABLE] = -1
    """Milliseconds since 1970; -1 for the broker's `offsets.retention.minutes`."""
    topic_id: Annotated[UUID, since(4), tagged(0), IGNORABLE] = NO_UUID


@dataclass(frozen=True, slots=True)
class OffsetCommitKey(CoordinatorKey):
    """The key of a committed offset: a group and a partition."""

    record_type: ClassVar[int] = 1
    value_class: ClassVar[type[CoordinatorValue]] = OffsetCommitValue

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


def write_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Encode the `OffsetCommitKey` of a `group`, `topic` and `partition` number; four times as fast as `write_key`.

    Raises EncodeError if a value does not fit its field.
    """
    try:
        group_bytes, topic_bytes = group.encode(), topic.encode()
        return b"".join(
            (
                _KEY_TYPE_AND_LENGTH.pack(1, len(group_bytes)),
                group_bytes,
                _LENGTH.pack(len(topic_bytes)),
                topic_bytes,
                KEY_PARTITION.pack(partition),
            )
        )
    except _FAILURES:
        # fails again, and says why
        return write_key(OffsetCommitKey(group, topic, partition))


def write_offset_value(
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp: int,
    topic_id: UUID = NO_UUID,
) -> bytes:
    """Encode an `OffsetCommitValue` without an expiration time; four times as fast as `write_value`.

    Args:
        leader_epoch: the leader epoch of the last consumed record; -1 if unknown.
        topic_id: the topic's id, `NO_UUID` to leave it out.

    Raises:
        EncodeError: a value does not fit its field.
    """
    try:
        if not metadata and (topic_id is NO_UUID or not topic_id.int):
            return _PLAIN_VALUE.pack(OFFSET_VERSION, offset, leader_epoch, 1, commit_timestamp, 0)
        text = metadata.encode()
        size = len(text)
        length = bytes((size + 1,)) if size < 127 else compact_string_length(size)
        if topic_id is NO_UUID or not topic_id.int:
            end = _TIMESTAMP_AND_TAGS.pack(commit_timestamp, 0)
        else:
            end = _TIMESTAMP.pack(commit_timestamp) + TOPIC_ID_TAG + topic_id.bytes
        return _OFFSET.pack(OFFSET_VERSION, offset, leader_epoch) + length + text + end
    except _FAILURES:
        # fails again, and says why
        return write_value(
            OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, topic_id=topic_id),
            OFFSET_VERSION,
        )


class StoredOffset(NamedTuple):
    """A committed offset, from the key and value of its record; see `write_offset_key` and `write_offset_value`."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    topic_id: UUID = NO_UUID


def read_offset(key: bytes, value: bytes) -> StoredOffset | None:
    """Decode the key and value of a committed offset's record; four times as fast as the declared classes.

    Returns:
        None unless it is an offset as Kafka has written it since 2.1 (value version 3 or 4, without other tagged fields
        than the topic id). Decode anything else with the declared classes.
    """
    place = read_offset_key(key)
    if place is None:
        return None
    found = _read_value(value)
    return None if found is None else _new_tuple(StoredOffset, (*place, *found))


def read_offset_key(key: bytes) -> tuple[str, str, int] | None:
    """Decode an `OffsetCommitKey` into group, topic and partition. Return None if `key` is anything else."""
    names = offset_names(key[: -KEY_PARTITION.size])
    if names is None:
        return None
    (partition,) = _unpack_partition(key, len(key) - KEY_PARTITION.size)
    return (*names, partition)


@lru_cache(maxsize=4096)
def offset_names(prefix: bytes) -> tuple[str, str] | None:
    """Read group and topic from an offset's key without its partition; None: it is the key of another record."""
    try:
        record_type, size = _KEY_TYPE_AND_LENGTH.unpack_from(prefix)
        start = _KEY_TYPE_AND_LENGTH.size + size
        (topic_size,) = _LENGTH.unpack_from(prefix, start)
        topic = start + _LENGTH.size
        if record_type != 1 or size < 0 or topic_size < 0 or topic + topic_size != len(prefix):
            return None
        return prefix[_KEY_TYPE_AND_LENGTH.size : start].decode(), prefix[topic:].decode()
    except _FAILURES:
        return None


@lru_cache(maxsize=4096)
def topic_id_of(data: bytes) -> UUID:
    """Return the topic id of 16 bytes of `data`; equal ids are one object."""
    return UUID(bytes=data)


def read_plain_offset(value: bytes) -> tuple[int, int, int, UUID] | None:
    """Decode offset, leader epoch, timestamp and topic id of a value without metadata. Return None for any other value."""
    if len(value) == _PLAIN_VALUE.size:
        version, offset, epoch, size, timestamp, tags = _PLAIN_VALUE.unpack(value)
        if version == OFFSET_VERSION and size == 1 and not tags:
            return offset, epoch, timestamp, NO_UUID
    elif len(value) == _PLAIN_VALUE_WITH_ID.size:
        version, offset, epoch, size, timestamp, tag, data = _unpack_with_id(value)
        if version == OFFSET_VERSION and size == 1 and tag == TOPIC_ID_TAG:
            return offset, epoch, timestamp, topic_id_of(data)
    return None


def _read_value(value: bytes) -> tuple[int, int, str, int, UUID] | None:
    """Read offset, epoch, metadata, timestamp and topic id; None: the value has other fields."""
    topic_id = NO_UUID
    try:
        version, offset, epoch = _OFFSET.unpack_from(value)
        start = _OFFSET.size
        if version == OFFSET_VERSION:
            size = value[start] - 1
            start += 1
            tags = start + size + _TIMESTAMP.size
            if not 0 <= size < 127:
                return None
            if value[tags:] != b"\0":
                if value[tags:-_ID_BYTES] != TOPIC_ID_TAG:
                    return None
                topic_id = topic_id_of(value[-_ID_BYTES:])
        elif version == _OLDER_VERSION:
            (size,) = _LENGTH.unpack_from(value, start)
            start += _LENGTH.size
            if size < 0 or start + size + _TIMESTAMP.size != len(value):
                return None
        else:
            return None
        stop = start + size
        (timestamp,) = _TIMESTAMP.unpack_from(value, stop)
        return offset, epoch, value[start:stop].decode(), timestamp, topic_id
    except (*_FAILURES, IndexError):
        return None
