"""Apply the records of the log to groups and offsets."""

import logging
import struct

from groupsdk.broker.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from groupsdk.broker.groups.group_records import read_group
from groupsdk.broker.groups.offset_store import OffsetStore
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.turn import OffsetWrite
from groupsdk.broker.runtime.contract import CoordinatorRecord, ProducerStamp
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_offset,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


_log = logging.getLogger(__name__)
_new_tuple = tuple.__new__  # as the named tuple does, in half the time


class Replay:
    """Read records and apply them (Kafka: GroupCoordinatorShard.replay)."""

    __slots__ = ("_offsets", "_registry", "_skipped")

    def __init__(self, registry: GroupRegistry, offsets: OffsetStore) -> None:
        """Create it for the groups of a registry and their offsets."""
        self._registry = registry
        self._offsets = offsets
        self._skipped: set[int] = set()

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

    def _apply_any(self, record: CoordinatorRecord, producer: ProducerStamp | None) -> None:
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
            self._apply_group(key.group, read_value(key, record.value))
        else:
            self._skip(record.key)

    def apply_offset(self, write: OffsetWrite, producer: ProducerStamp | None) -> None:
        """Store an offset, or hold it for its transaction; a group that is not there comes to be."""
        group_id, topic, partition, value = write
        if value is None:
            self._offsets.remove(group_id, topic, partition)
            return
        if group_id not in self._registry.groups:
            self._registry.create(group_id, value.commit_timestamp_ms)
        if producer is None:
            self._offsets.put(group_id, topic, partition, value)
        else:
            self._offsets.put_pending(producer.producer_id, group_id, topic, partition, value)

    def _apply_group(self, group_id: str, value: object) -> None:
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
