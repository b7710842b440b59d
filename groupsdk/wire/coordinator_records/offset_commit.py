"""Declare committed offsets in `__consumer_offsets`, and write and read them fast."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple
from uuid import UUID

from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    RecordVersions,
    write_key,
    write_value,
)
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
_FAILURES: Final = (struct.error, UnicodeEncodeError, ValueError)


@dataclass(frozen=True, slots=True)
class LegacyOffsetCommitValue(CoordinatorValue):
    """The committed offset of a partition, as old brokers wrote it."""

    api: ClassVar[Any] = RecordVersions(first_flexible=None)

    offset: Int64 = 0
    metadata: str = ""
    commit_timestamp: Int64 = 0


@dataclass(frozen=True, slots=True)
class LegacyOffsetCommitKey(CoordinatorKey):
    """Name a partition that a group committed, as old brokers wrote it; read, never written."""

    record_type: ClassVar[int] = 0
    value_class: ClassVar[type[CoordinatorValue]] = LegacyOffsetCommitValue

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@dataclass(frozen=True, slots=True)
class OffsetCommitValue(CoordinatorValue):
    """The committed offset of a partition."""

    api: ClassVar[Any] = RecordVersions(4, first_flexible=4, written=OFFSET_VERSION)

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, since(3), IGNORABLE] = -1
    """Of the last record that was consumed; -1: not known."""
    metadata: str = ""
    commit_timestamp: Int64 = 0
    """Milliseconds."""
    expire_timestamp: Annotated[Int64, between(1, 1), IGNORABLE] = -1
    """Milliseconds; -1: as the broker's `offsets.retention.minutes` says."""
    topic_id: Annotated[UUID, since(4), tagged(0), IGNORABLE] = NO_UUID


@dataclass(frozen=True, slots=True)
class OffsetCommitKey(CoordinatorKey):
    """Name a partition that a group committed."""

    record_type: ClassVar[int] = 1
    value_class: ClassVar[type[CoordinatorValue]] = OffsetCommitValue

    group: str = ""
    topic: str = ""
    partition: Int32 = 0


def write_offset_key(group: str, topic: str, partition: int) -> bytes:
    """Encode an `OffsetCommitKey`, in a quarter of the time of the declared one.

    Raises:
        EncodeError: a value does not fit its field.
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
    """Encode an `OffsetCommitValue` without a time of expiry, in a quarter of the time of the declared one.

    Raises:
        EncodeError: a value does not fit its field.
    """
    try:
        if not metadata and (topic_id is NO_UUID or not topic_id.int):
            return _PLAIN_VALUE.pack(OFFSET_VERSION, offset, leader_epoch, 1, commit_timestamp, 0)
        text = metadata.encode()
        size = len(text)
        if size < 127:
            length = bytes((size + 1,))
        elif size <= MAX_STRING_BYTES:
            # two or three bytes of seven bits each
            size += 1
            length = (
                bytes((size & 127 | 128, size >> 7))
                if size < 1 << 14
                else bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14))
            )
        else:
            raise ValueError(size)
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


def write_offset(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp: int,
    expire_timestamp: int = -1,
    topic_id: UUID = NO_UUID,
) -> tuple[bytes, bytes]:
    """Encode the record of a committed offset in the version that Kafka 4.1 would choose.

    Times are milliseconds; an `expire_timestamp` other than -1 makes it version 1, which carries
    neither leader epoch nor topic id.

    Raises:
        EncodeError: a value does not fit its field.
    """
    key = write_offset_key(group, topic, partition)
    if expire_timestamp != -1:
        value = OffsetCommitValue(
            offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id
        )
        return key, write_value(value, EXPIRING_VERSION)
    return key, write_offset_value(offset, leader_epoch, metadata, commit_timestamp, topic_id)


class StoredOffset(NamedTuple):
    """What the record of a committed offset says, its key and its value."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    topic_id: UUID = NO_UUID


def read_offset(key: bytes, value: bytes) -> StoredOffset | None:
    """Decode the record of a committed offset, in a quarter of the time of the declared one.

    Returns:
        None where it is anything but an offset as Kafka writes it since 2.1 (value version 3 or 4, without
        other tagged fields than the topic id): then the declared classes say what it is, or what is wrong with it.
    """
    place = read_offset_key(key)
    if place is None:
        return None
    found = _read_value(value)
    return None if found is None else _new_tuple(StoredOffset, (*place, *found))


def read_offset_key(key: bytes) -> tuple[str, str, int] | None:
    """Decode an `OffsetCommitKey`: group, topic and partition; None where it is anything else."""
    names = _named(key[: -KEY_PARTITION.size])
    if names is None:
        return None
    (partition,) = _unpack_partition(key, len(key) - KEY_PARTITION.size)
    return (*names, partition)


@lru_cache(maxsize=4096)
def _named(prefix: bytes) -> tuple[str, str] | None:
    """Read group and topic, which many records have in common; None: this is no key of an offset."""
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
    """Return a topic id by its bytes; the same object for the many records that have it in common."""
    return UUID(bytes=data)


def read_plain_offset(value: bytes) -> tuple[int, int, int, UUID] | None:
    """Read offset, epoch, timestamp and topic id of a value without metadata; None: it is another one."""
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


def write_offset_tombstone(group: str, topic: str, partition: int) -> tuple[bytes, None]:
    """Encode the record that removes a committed offset.

    Raises:
        EncodeError: a value does not fit its field.
    """
    return write_offset_key(group, topic, partition), None
