"""Encode and decode the records of groups and their offsets (Kafka: GroupCoordinatorRecordHelpers)."""

import logging
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from groupsdk.broker.coordinator.runtime.contract import CoordinatorRecord, Record
from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from groupsdk.wire.coordinator_records.declaration import write_value
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey
from groupsdk.wire.coordinator_records.offset_commit import (
    EXPIRING_VERSION,
    KEY_PARTITION,
    NO_TAGS,
    OFFSET_VERSION,
    PLAIN_HEAD,
    PLAIN_SIZES,
    TOPIC_ID_TAG,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    offset_names,
    read_offset,
    read_plain_offset,
    write_offset_key,
    write_offset_value,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.schema import NO_UUID


logger = logging.getLogger(__name__)
_new_tuple = tuple.__new__  # what NamedTuple's __new__ does, in half the time
_pack_partition = struct.Struct(">i").pack
_PARTITION_BYTES: Final = 4
_MAX_CACHED: Final = 256

_REPLAYED_KEYS: Final = (
    GroupMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupRegularExpressionKey,
)


NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1


class CommittedOffset(NamedTuple):
    """The committed offset of one partition (Kafka: OffsetAndMetadata)."""

    offset: int
    """The offset of the next record to consume; -1: none is committed."""
    leader_epoch: int = NO_EPOCH
    """The leader epoch of the last consumed record; -1: unknown."""
    metadata: str = ""
    """The client's metadata."""
    commit_timestamp_ms: int = NO_TIMESTAMP
    """The time of the commit, in milliseconds since 1970."""
    expire_timestamp_ms: int = NO_TIMESTAMP
    """-1: it expires by the broker's retention; only OffsetCommit versions 2 to 4 could set a time."""
    topic_id: UUID = NO_UUID
    """The id of the topic at the time of the commit; a topic recreated under the same name has another one."""


class OffsetCommitRecords(NamedTuple):
    """The offsets that a group commits for one topic: one record of the log for each partition.

    One value for all partitions, as a consumer may commit hundreds of them every few seconds.
    """

    group_id: str
    topic: str
    offsets: Mapping[int, CommittedOffset]
    """By partition; at least one."""

    def encoded(self) -> list[Pair]:
        group_id, topic, offsets = self
        shared_id = next(iter(offsets.values())).topic_id
        pack, tags = PLAIN_HEAD.pack, NO_TAGS
        if shared_id is not NO_UUID:
            tags = TOPIC_ID_TAG + shared_id.bytes
        values = [
            pack(OFFSET_VERSION, offset, epoch, 1, timestamp_ms) + tags
            if not metadata and expires_ms == NO_TIMESTAMP and topic_id is shared_id
            else _offset_value(offset, epoch, metadata, timestamp_ms, expires_ms, topic_id)
            for offset, epoch, metadata, timestamp_ms, expires_ms, topic_id in offsets.values()
        ]
        if len(values) == 1:  # most commits have one partition
            (partition,) = offsets
            return [(_key(group_id, topic, partition), values[0])]
        prefix = write_offset_key(group_id, topic, 0)[:-_PARTITION_BYTES]
        partitions = tuple(offsets)
        keys = (_keys if len(partitions) <= _MAX_CACHED else _keys.__wrapped__)(prefix, partitions)
        return list(zip(keys, values, strict=True))


class OffsetTombstone(NamedTuple):
    """The removal of a partition's offset, pending offsets of transactions included."""

    group_id: str
    topic: str
    partition: int

    def encoded(self) -> Sequence[Pair]:
        return ((write_offset_key(self.group_id, self.topic, self.partition), None),)


class RecordDecoder:
    """Decodes records of `__consumer_offsets` (Kafka: GroupCoordinatorRecordSerde).

    Unsupported record types are skipped, with one warning for each type per decoder.
    """

    __slots__ = ("_skipped",)

    def __init__(self) -> None:
        self._skipped: set[int] = set()

    def decode(self, records: Sequence[Pair]) -> Iterator[Record]:
        """Decode keys and values.

        A log mostly repeats commits for the same topics. Offsets up to the next tombstone are yielded as one value for
        each group and topic, after the records of other kinds, which are independent of them.
        """
        commits: dict[bytes, OffsetCommitRecords] = {}
        columns: dict[bytes, dict[int, CommittedOffset]] = {}
        new = _new_tuple
        partition_of = KEY_PARTITION.unpack_from
        for key, value in records:
            if value is not None and len(value) in PLAIN_SIZES:
                place, plain = key[:-4], read_plain_offset(value)
                column = columns.get(place)
                if plain is not None and column is None and (names := offset_names(place)):
                    column = columns[place] = {}
                    commits[place] = new(OffsetCommitRecords, (*names, column))
                if plain is not None and column is not None:
                    offset, epoch, committed_ms, topic_id = plain
                    column[partition_of(key, len(key) - 4)[0]] = new(
                        CommittedOffset, (offset, epoch, "", committed_ms, NO_TIMESTAMP, topic_id)
                    )
                    continue
            try:
                record = self._decode(key, value)
            except DecodeError:
                yield from commits.values()
                raise
            if type(record) is OffsetCommitRecords:
                place = _place_of(key, record)
                known = columns.setdefault(place, record.offsets)  # type: ignore[arg-type] # made in _decode
                if known is record.offsets:
                    commits[place] = record
                else:
                    known.update(record.offsets)
                continue
            if value is None:
                yield from commits.values()
                commits, columns = {}, {}
            if record is not None:
                yield record
        yield from commits.values()

    def _decode(self, key: bytes, value: bytes | None) -> Record | None:
        if value is not None:
            found = read_offset(key, value)
            if found is not None:
                group_id, topic, partition, offset, epoch, metadata, committed_ms, topic_id = found
                stored: CommittedOffset = _new_tuple(
                    CommittedOffset,
                    (offset, epoch, metadata, committed_ms, NO_TIMESTAMP, topic_id),
                )
                return _new_tuple(OffsetCommitRecords, (group_id, topic, {partition: stored}))
        return self._decode_declared(key, value)

    def _decode_declared(self, data: bytes, value_data: bytes | None) -> Record | None:
        key = read_key(data)
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            value = read_value(key, value_data)
            if value is None:
                return OffsetTombstone(key.group, key.topic, key.partition)
            if isinstance(value, OffsetCommitValue):
                stored = CommittedOffset(
                    offset=value.offset,
                    leader_epoch=value.leader_epoch,
                    metadata=value.metadata,
                    commit_timestamp_ms=value.commit_timestamp,
                    expire_timestamp_ms=value.expire_timestamp,
                    topic_id=value.topic_id,
                )
            else:
                assert isinstance(value, LegacyOffsetCommitValue)
                stored = CommittedOffset(
                    offset=value.offset,
                    metadata=value.metadata,
                    commit_timestamp_ms=value.commit_timestamp,
                )
            return OffsetCommitRecords(key.group, key.topic, {key.partition: stored})
        if isinstance(key, _REPLAYED_KEYS):
            return CoordinatorRecord(key, read_value(key, value_data))
        record_type = struct.unpack_from(">h", data)[0]
        if record_type not in self._skipped:
            self._skipped.add(record_type)
            logger.warning("skipping records of unsupported type %d", record_type)
        return None


def decoded(records: Iterable[Pair]) -> list[Record]:
    """Decode keys and values of `__consumer_offsets` at once; see `RecordDecoder.decode`."""
    return list(RecordDecoder().decode(list(records)))


_key = lru_cache(maxsize=4096)(write_offset_key)


@lru_cache(maxsize=128)
def _keys(prefix: bytes, partitions: tuple[int, ...]) -> list[bytes]:
    """Encode the keys of a topic's records; a consumer commits the same partitions until it has others."""
    pack = _pack_partition
    return [prefix + pack(partition) for partition in partitions]


def _offset_value(
    offset: int, epoch: int, metadata: str, timestamp_ms: int, expires_ms: int, topic_id: UUID
) -> bytes:
    if expires_ms == NO_TIMESTAMP:
        return write_offset_value(offset, epoch, metadata, timestamp_ms, topic_id)
    value = OffsetCommitValue(offset, epoch, metadata, timestamp_ms, expires_ms)
    return write_value(value, EXPIRING_VERSION)


def _place_of(key: bytes, record: OffsetCommitRecords) -> bytes:
    """Return the common prefix of the keys of a group and topic, in the current version."""
    if key[1] == OffsetCommitKey.record_type:
        return key[:-_PARTITION_BYTES]
    return write_offset_key(record.group_id, record.topic, 0)[:-_PARTITION_BYTES]
