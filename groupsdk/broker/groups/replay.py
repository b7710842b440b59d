"""Apply the records of the log to groups and offsets."""

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final

from groupsdk.broker.consumer_groups.group import GroupKey, GroupRecord
from groupsdk.broker.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from groupsdk.broker.groups.group_records import read_group
from groupsdk.broker.groups.offset_store import OffsetStore
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.turn import CommitWrite, OffsetWrite
from groupsdk.broker.runtime.contract import CoordinatorRecord, ProducerStamp
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import (
    KEY_PARTITION,
    OFFSET_VERSION,
    PLAIN_VALUE,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_offset,
    read_offset_key,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


_log = logging.getLogger(__name__)
_MAX_PLACES: Final = 50_000
_new_tuple = tuple.__new__  # as the named tuple does, in half the time


class Replay:
    """Read records and apply them (Kafka: GroupCoordinatorShard.replay)."""

    __slots__ = ("_offsets", "_places", "_registry", "_replay_consumer_group", "_skipped")

    def __init__(
        self,
        registry: GroupRegistry,
        offsets: OffsetStore,
        replay_consumer_group: Callable[[GroupRecord], None] | None = None,
    ) -> None:
        """Create it for the groups of a registry and their offsets; records of consumer groups are handed on."""
        self._replay_consumer_group = replay_consumer_group
        self._registry = registry
        self._offsets = offsets
        self._skipped: set[int] = set()
        # of groups and topics that were seen while loading, as keys begin: where their partitions are
        self._places: dict[bytes, dict[int, CommittedOffset]] = {}

    def apply_all(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Apply records of no transaction one after the other, while loading.

        A log mostly says again and again what is committed for the same topics. Where group and topic were seen,
        a value goes right to its place, which stays the same until something is removed.

        Raises:
            DecodeError: a record of a known type cannot be read.
        """
        places, store, new = self._places, self._offsets, _new_tuple
        unpack, plain_size = PLAIN_VALUE.unpack, PLAIN_VALUE.size
        partition_of = KEY_PARTITION.unpack_from
        position = store.position
        try:
            for record in records:
                position += 1
                key, value = record
                place = places.get(key[:-4])
                if place is not None and value is not None and len(value) == plain_size:
                    version, offset, epoch, size, committed_ms, tags = unpack(value)
                    if version == OFFSET_VERSION and size == 1 and not tags:
                        place[partition_of(key, len(key) - 4)[0]] = new(
                            CommittedOffset,
                            (offset, epoch, "", committed_ms, NO_TIMESTAMP, position),
                        )
                        continue
                store.position = position
                self.apply(new(CoordinatorRecord, record), None)
                if value is not None and place is None:
                    self._note_place(key)
        finally:
            store.position = position

    def loaded(self) -> None:
        """Forget where what is committed is kept: from now on it changes by requests, too."""
        self._places = {}

    def apply(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        """Apply a record; one of a type that is not known here is passed over, with a warning.

        Raises:
            DecodeError: a record of a known type cannot be read.
        """
        if record.value is not None:
            found = read_offset(record.key, record.value)
            if found is not None:
                group_id, topic, partition, offset, epoch, metadata, committed_ms = found
                stored: CommittedOffset = _new_tuple(
                    CommittedOffset,
                    (offset, epoch, metadata, committed_ms, NO_TIMESTAMP, self._offsets.position),
                )
                if producer is None and group_id in self._registry.groups:
                    self._offsets.put(group_id, topic, partition, stored)
                else:
                    self.apply_offset(OffsetWrite(group_id, topic, partition, stored), producer)
                return
        self._apply_any(record, producer)

    def _note_place(self, key: bytes) -> None:
        names = read_offset_key(key)
        if names is not None:
            group_id, topic, _ = names
            if len(self._places) >= _MAX_PLACES:
                self._places.clear()
            self._places[key[:-4]] = self._offsets.place_of(group_id, topic)

    def _apply_any(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
        if record.value is None:
            # the group may be gone with it, or what it has committed, and then come again elsewhere
            self._places.clear()
        key = read_key(record.key)
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            value = read_value(key, record.value)
            stored = None
            if isinstance(value, OffsetCommitValue):
                stored = CommittedOffset(
                    value.offset,
                    value.leader_epoch,
                    value.metadata,
                    value.commit_timestamp,
                    value.expire_timestamp,
                    self._offsets.position,
                )
            elif isinstance(value, LegacyOffsetCommitValue):
                stored = CommittedOffset(
                    value.offset,
                    metadata=value.metadata,
                    commit_timestamp_ms=value.commit_timestamp,
                    position=self._offsets.position,
                )
            self.apply_offset(OffsetWrite(key.group, key.topic, key.partition, stored), producer)
        elif isinstance(key, GroupMetadataKey):
            self.apply_group(key.group, read_value(key, record.value))
        elif isinstance(key, GroupKey) and self._replay_consumer_group is not None:
            value = None if record.value is None else read_value(key, record.value)
            self._replay_consumer_group(GroupRecord(key, value))
        else:
            self._skip(record.key)

    def apply_offset(self, write: OffsetWrite, producer: ProducerStamp | None) -> None:
        """Store an offset, or hold it for its transaction; a group that is not there comes to be."""
        group_id, topic, partition, value = write
        if value is None:
            self._offsets.remove(group_id, topic, partition)
            return
        registry = self._registry
        if group_id not in registry.groups and group_id not in registry.consumer_groups:
            registry.create(group_id, value.commit_timestamp_ms)
        if producer is None:
            self._offsets.put(group_id, topic, partition, value)
        else:
            self._offsets.put_pending(producer.producer_id, group_id, topic, partition, value)

    def apply_commit(self, write: CommitWrite, producer: ProducerStamp | None) -> None:
        """Store what a commit says of a topic, or hold it for its transaction, as `apply_offset` does."""
        group_id, topic, values = write
        registry = self._registry
        if group_id not in registry.groups and group_id not in registry.consumer_groups:
            registry.create(group_id, next(iter(values.values())).commit_timestamp_ms)
        if producer is None:
            self._offsets.put_all(group_id, topic, values)
        else:
            for partition, value in values.items():
                self._offsets.put_pending(producer.producer_id, group_id, topic, partition, value)

    def apply_group(self, group_id: str, value: object) -> None:
        """Make a classic group of its record; None removes it."""
        self._registry.remove(group_id)
        if isinstance(value, GroupMetadataValue):
            self._registry.groups[group_id] = read_group(group_id, value)

    def _skip(self, key: bytes) -> None:
        record_type = struct.unpack_from(">h", key)[0]
        if record_type not in self._skipped:
            self._skipped.add(record_type)
            _log.warning(
                "passing over records of type %d, which this coordinator does not keep", record_type
            )
