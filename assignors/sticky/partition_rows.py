"""Rows of the problem: equivalent partitions grouped together, and the members that may own them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

from assignors.sticky.subscription_index import SubscriptionIndex
from groupsdk.assignment import Partitions


Counts = dict[int, int]
"""Row to number of partitions, always above 0."""


_NOBODY = 0


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Groups of equivalent partitions: same subscribers, and replicas in the same racks.

    Attributes:
        sizes: by row: number of partitions.
        readers: by row: the set of members subscribed.
        far: by row: the readers whose rack has no replica.
        row_of_topic: the row of each topic whose partitions are all in one row.
        rows_of_topic: for other topics, the row of each partition.
        far_racks: by row: the racks without a replica, as far as readers are in them; empty where racks do not matter.
        member_racks: by member; None if unknown; empty where racks do not matter.
    """

    sizes: list[int]
    readers: list[int]
    far: list[int]
    row_of_topic: dict[str, int]
    rows_of_topic: dict[str, list[int]]
    far_racks: Sequence[Set[str]] = ()
    member_racks: Sequence[str | None] = ()

    @property
    def have_racks(self) -> bool:
        """Whether any partition is off rack for any member."""
        return any(self.far)

    def count(self, partitions: Partitions) -> Counts:
        if not self.rows_of_topic and all(partitions.values()):
            return self._count_whole(partitions)
        if not self.row_of_topic:
            divided = self.rows_of_topic
            return dict(
                Counter([divided[topic][n] for topic, those in partitions.items() for n in those])
            )
        counts: Counts = {}
        for topic, numbers in partitions.items():
            rows = self.rows_of_topic.get(topic)
            if rows is not None:
                for number in numbers:
                    row = rows[number]
                    counts[row] = counts.get(row, 0) + 1
            elif numbers:
                row = self.row_of_topic[topic]
                counts[row] = counts.get(row, 0) + len(numbers)
        return counts

    def _count_whole(self, partitions: Partitions) -> Counts:
        """Count when every topic is in one row and has partitions; avoids counting them one by one."""
        found = list(map(self.row_of_topic.__getitem__, partitions))
        if len(self.row_of_topic) == len(self.sizes):
            return dict(zip(found, map(len, partitions.values()), strict=True))
        size = sum(map(len, partitions.values()))
        if found and found.count(found[0]) == len(found):
            return {found[0]: size}
        counts = dict(Counter(found))
        if size > len(found):
            for row, numbers in zip(found, partitions.values(), strict=True):
                if len(numbers) > 1:
                    counts[row] += len(numbers) - 1
        return counts

    def split(
        self, partitions: Partitions, only: Collection[int] | None = None
    ) -> dict[int, dict[str, Sequence[int]]]:
        if not self.rows_of_topic and only is not None and len(only) == 1:
            (row,) = only
            row_of = self.row_of_topic
            return {row: {t: numbers for t, numbers in partitions.items() if row_of[t] == row}}
        parts: dict[int, dict[str, Sequence[int]]] = {}
        for topic, numbers in partitions.items():
            rows = self.rows_of_topic.get(topic)
            if rows is None:
                row = self.row_of_topic[topic]
                if numbers and (only is None or row in only):
                    parts.setdefault(row, {})[topic] = numbers
            elif len(numbers) == 1:
                row = rows[numbers[0]]
                if row in parts:
                    parts[row][topic] = numbers
                elif only is None or row in only:
                    parts[row] = {topic: numbers}
            else:
                by_row: dict[int, list[int]] = {}
                for number in numbers:
                    by_row.setdefault(rows[number], []).append(number)
                for row, those in by_row.items():
                    parts.setdefault(row, {})[topic] = those
        return parts


def make_partition_rows(
    subscription_index: SubscriptionIndex,
    counts: Mapping[str, int],
    member_racks: Sequence[str | None],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
) -> PartitionRows:
    """Group the partitions of all topics.

    Takes time linear in the subscriptions, plus moving members * rows / 8 bytes of memory.
    """
    row_of_topic, readers = subscription_index.rows()
    sizes = [0] * len(readers)
    in_rack: dict[str, int] = {}
    for member, rack in enumerate(member_racks):
        if rack:
            in_rack[rack] = in_rack.get(rack, 0) | 1 << member
    if not in_rack or not replica_racks:
        for topic, row in row_of_topic.items():
            sizes[row] += counts[topic]
        return PartitionRows(sizes, readers, [0] * len(readers), row_of_topic, {})

    racks = _Racks(in_rack)
    numbers: dict[tuple[int, int], int] = {}
    sizes = []
    far_racks: list[Set[str]] = []
    whole: dict[str, int] = {}
    divided: dict[str, list[int]] = {}
    for topic in subscription_index.topics:
        audience = readers[row_of_topic[topic]]
        far = racks.far(replica_racks.get(topic, ()), counts[topic])
        rows_of_far: dict[int, int] = {}
        for each, size in Counter(far).items():
            key = (audience, racks.members[each] & audience)
            row = rows_of_far[each] = numbers.setdefault(key, len(numbers))
            if row == len(sizes):
                sizes.append(0)
                far_racks.append(racks.names[each])
            sizes[row] += size
        used = set(rows_of_far.values())
        if len(used) == 1:
            whole[topic] = used.pop()
        else:
            divided[topic] = list(map(rows_of_far.__getitem__, far))
    return PartitionRows(
        sizes,
        [key[0] for key in numbers],
        [key[1] for key in numbers],
        whole,
        divided,
        far_racks,
        member_racks,
    )


class _Racks:
    """Finds the members that are off rack for a partition.

    `members` are sets of members, to which results are indexes, because small integers count faster; `names` the racks that they are in.
    """

    def __init__(self, in_rack: Mapping[str, int]) -> None:
        self._in_rack = in_rack
        self._everyone = sum(in_rack.values())
        self._known: dict[Collection[str], int] = {}
        self._places: dict[int, int] = {0: _NOBODY}
        self.members = [0]
        self.names: list[Set[str]] = [frozenset()]

    def far(self, replicas: Sequence[Collection[str]], count: int) -> list[int]:
        """Return, by partition, the index of its off-rack members; the empty set if replica racks are unknown."""
        replicas = replicas[:count]
        if not set(map(type, replicas)) <= {tuple, frozenset}:
            replicas = [frozenset(racks) for racks in replicas]
        for racks in set(replicas) - self._known.keys():
            members = self._find(racks)
            place = self._known[racks] = self._places.setdefault(members, len(self.members))
            if place == len(self.members):
                self.members.append(members)
                self.names.append(self._in_rack.keys() - racks)
        found = list(map(self._known.__getitem__, replicas))
        return found + [_NOBODY] * (count - len(found))

    def _find(self, racks: Collection[str]) -> int:
        names = {rack for rack in racks if rack}
        if not names:
            return 0
        near = sum(self._in_rack.get(rack, 0) for rack in names)
        return self._everyone & ~near
