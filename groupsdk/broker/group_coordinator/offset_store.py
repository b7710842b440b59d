"""Keep the committed offsets of groups, and those of transactions that are still open."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from groupsdk.broker.group_coordinator.records import (
    CommittedOffset,
    OffsetCommitRecords,
    OffsetTombstone,
)
from groupsdk.broker.runtime.contract import ProducerStamp


class PendingOffset(NamedTuple):
    """An offset of an open transaction."""

    number: int
    """Grows with the place of the record in the log."""
    offset: CommittedOffset | None
    """None: a later record has committed another one, which the end of the transaction leaves as it is."""


V = TypeVar("V")
Topics = dict[str, dict[int, V]]


class OffsetStore:
    """What has been committed, by group, topic and partition (Kafka: OffsetMetadataManager).

    The replay of records and markers changes it, and nothing else.
    """

    __slots__ = ("_by_group", "_open", "_pending", "_pending_count")

    def __init__(self) -> None:
        """Create it without offsets."""
        self._by_group: dict[str, Topics[CommittedOffset]] = {}
        self._pending: dict[int, dict[str, Topics[PendingOffset]]] = {}  # by producer id
        self._open: dict[str, set[int]] = {}  # producers with pending offsets, by group
        self._pending_count = 0

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return what is committed for a partition."""
        topics = self._by_group.get(group_id)
        if topics is None:
            return None
        partitions = topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """Return all that a group has committed; not to be kept."""
        return self._by_group.get(group_id, {})

    def group_ids(self) -> tuple[str, ...]:
        """Name the groups that have committed something."""
        return tuple(self._by_group)

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Tell whether an open transaction may change what is committed for a partition."""
        for producer_id in self._open.get(group_id, ()):
            if partition in self._pending[producer_id][group_id].get(topic, ()):
                return True
        return False

    def has_open_transactions(self, group_id: str) -> bool:
        """Tell whether a group has offsets that wait for their transaction's end."""
        return group_id in self._open

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """List the partitions that a group has committed, or is about to by a transaction; each once."""
        committed = self._by_group.get(group_id, {})
        for topic, partitions in committed.items():
            for partition in partitions:
                yield topic, partition
        seen: set[tuple[str, int]] = set()
        for producer_id in self._open.get(group_id, ()):
            for topic, pending in self._pending[producer_id][group_id].items():
                for partition in pending:
                    place = topic, partition
                    if partition not in committed.get(topic, ()) and place not in seen:
                        seen.add(place)
                        yield place

    def all_group_ids(self) -> list[str]:
        """Name the groups that have committed something, or are about to by a transaction."""
        return [*self._by_group, *(each for each in self._open if each not in self._by_group)]

    # How it changes.

    def replay(self, record: OffsetCommitRecords, producer: ProducerStamp | None) -> None:
        """Store the offsets of one topic; those of a transaction wait until it ends.

        The later record in the log counts, whenever the transactions end: compaction keeps that one.
        """
        group_id, topic, offsets = record
        if producer is not None:
            self._hold(record, producer.producer_id)
            return
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = dict(offsets)
        else:
            partitions.update(offsets)
        if group_id in self._open:
            self._supersede(group_id, topic, offsets, self._pending_count + 1)

    def replay_tombstone(self, record: OffsetTombstone) -> None:
        """Forget a partition, pending offsets included."""
        group_id, topic, partition = record
        _remove(self._by_group, group_id, topic, partition)
        for producer_id in tuple(self._open.get(group_id, ())):
            groups = self._pending[producer_id]
            _remove(groups, group_id, topic, partition)
            if group_id not in groups:
                self._close(group_id, producer_id)
            if not groups:
                del self._pending[producer_id]

    def replay_marker(self, producer_id: int, *, committed: bool) -> None:
        """Store or drop what a transaction left pending."""
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            if not committed:
                continue
            for topic, partitions in topics.items():
                for partition, (number, offset) in partitions.items():
                    if offset is not None:
                        stored = self._by_group.setdefault(group_id, {}).setdefault(topic, {})
                        stored[partition] = offset
                        self._supersede(group_id, topic, (partition,), number)

    def _hold(self, record: OffsetCommitRecords, producer_id: int) -> None:
        group_id, topic, offsets = record
        topics = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        partitions = topics.setdefault(topic, {})
        for index, offset in offsets.items():
            self._pending_count += 1
            partitions[index] = PendingOffset(self._pending_count, offset)
        self._open.setdefault(group_id, set()).add(producer_id)

    def _supersede(self, group_id: str, topic: str, indexes: Iterable[int], before: int) -> None:
        """Note that a later record has committed partitions than the pending ones numbered below `before`."""
        for producer_id in self._open.get(group_id, ()):
            partitions = self._pending[producer_id][group_id].get(topic)
            if partitions is None:
                continue
            for index in indexes:
                pending = partitions.get(index)
                if pending is not None and pending.number < before:
                    partitions[index] = PendingOffset(pending.number, None)

    def _close(self, group_id: str, producer_id: int) -> None:
        producers = self._open.get(group_id)
        if producers is not None:
            producers.discard(producer_id)
            if not producers:
                del self._open[group_id]


def _remove(groups: dict[str, Topics[V]], group_id: str, topic: str, partition: int) -> None:
    topics = groups.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]
