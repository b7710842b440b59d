"""Keep the committed offsets of groups, and those of transactions that are still open."""

from collections.abc import Iterator, Mapping

from groupsdk.broker.groups.committed_offset import CommittedOffset


Topics = dict[str, dict[int, CommittedOffset]]


class OffsetStore:
    """What has been committed, by group, topic and partition (Kafka: OffsetMetadataManager).

    Only the replay of records and markers changes it.

    Attributes:
        position: how many records were replayed: their places in the log are compared by it.
    """

    __slots__ = ("_by_group", "_open", "_pending", "position")

    def __init__(self) -> None:
        """Create it without offsets."""
        self.position = 0
        self._by_group: dict[str, Topics] = {}
        self._pending: dict[int, dict[str, Topics]] = {}  # by producer id
        self._open: dict[str, set[int]] = {}  # producers with pending offsets, by group

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

    def place_of(self, group_id: str, topic: str) -> dict[int, CommittedOffset]:
        """Return where the partitions of a topic are kept, of which something is committed.

        To write to while a log is loaded; it is another one after `remove`.
        """
        return self._by_group[group_id][topic]

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

    def put(self, group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
        """Store what a record without a producer says."""
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        partitions[partition] = value

    def put_all(self, group_id: str, topic: str, values: Mapping[int, CommittedOffset]) -> None:
        """Store what records without a producer say of one topic."""
        topics = self._by_group.get(group_id)
        if topics is None:
            topics = self._by_group[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            topics[topic] = dict(values)
        else:
            partitions.update(values)

    def put_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: CommittedOffset
    ) -> None:
        """Hold what a record of a transaction says until the transaction ends."""
        topics = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        topics.setdefault(topic, {})[partition] = value
        self._open.setdefault(group_id, set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Forget a partition, pending offsets included, as a tombstone says."""
        _remove(self._by_group, group_id, topic, partition)
        for producer_id in tuple(self._open.get(group_id, ())):
            groups = self._pending[producer_id]
            _remove(groups, group_id, topic, partition)
            if group_id not in groups:
                self._close(group_id, producer_id)
            if not groups:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Store or drop what a transaction left pending.

        A value stays where its record has the later place in the log: compaction keeps that one.
        """
        for group_id, topics in self._pending.pop(producer_id, {}).items():
            self._close(group_id, producer_id)
            if not committed:
                continue
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    known = self.get(group_id, topic, partition)
                    if known is None or value.position > known.position:
                        self.put(group_id, topic, partition, value)

    def _close(self, group_id: str, producer_id: int) -> None:
        producers = self._open.get(group_id)
        if producers is not None:
            producers.discard(producer_id)
            if not producers:
                del self._open[group_id]


def _remove(groups: dict[str, Topics], group_id: str, topic: str, partition: int) -> None:
    topics = groups.get(group_id)
    partitions = None if topics is None else topics.get(topic)
    if topics is None or partitions is None:
        return
    partitions.pop(partition, None)
    if not partitions:
        del topics[topic]
    if not topics:
        del groups[group_id]
