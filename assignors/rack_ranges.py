"""Assign one topic, or several co-partitioned ones, by rack within the quotas of range (KIP-881)."""

from collections.abc import Collection, Iterable, Iterator, Sequence


class TopicRange:
    """The state of one topic during assignment (`RangeAssignor.TopicAssignmentState`).

    Members are numbered within the topic, from 0, in Kafka's order; one without a rack matches every partition.
    """

    def __init__(self, count: int, racks: Sequence[str | None]) -> None:
        self._racks = racks
        self._base, self._extras = divmod(count, len(racks))
        self._free = [True] * count
        self._given: list[list[int]] = [[] for _ in racks]

    @property
    def member_count(self) -> int:
        return len(self._racks)

    def room(self, member: int) -> int:
        """Return how many more partitions a member may get; once 0 it stays 0, as extras never increase."""
        return max(0, self._base + (self._extras > 0) - len(self._given[member]))

    def give(self, member: int, partitions: Iterable[int]) -> None:
        """Assign one or more free partitions to a member; exceeding the base quota uses up an extra."""
        for partition in partitions:
            self._given[member].append(partition)
            self._free[partition] = False
        if len(self._given[member]) > self._base:
            self._extras -= 1

    def match(self, replica_racks: Sequence[Collection[str]]) -> None:
        """Assign each member in turn the first free partitions with a replica in its rack."""
        in_rack: dict[str, list[int]] = {}
        for partition, racks in enumerate(replica_racks):
            for rack in racks:
                in_rack.setdefault(rack, []).append(partition)
        # assigned partitions stay assigned, so one pass over each list serves all members of a rack
        walks = {rack: iter(partitions) for rack, partitions in in_rack.items()}
        anywhere = iter(range(len(self._free)))
        for member, member_rack in enumerate(self._racks):
            walk = anywhere if member_rack is None else walks.get(member_rack)
            if walk is not None:
                self._give_next(member, walk)

    def fill(self) -> list[list[int]]:
        """Assign each member in turn the first free partitions; return each member's partitions, ascending."""
        walk = iter(range(len(self._free)))
        for member in range(len(self._racks)):
            self._give_next(member, walk)
        return [sorted(each) for each in self._given]

    def _give_next(self, member: int, walk: Iterator[int]) -> None:
        room = self.room(member)
        found: list[int] = []
        if room:
            for partition in walk:
                if self._free[partition]:
                    found.append(partition)
                    if len(found) == room:
                        break
        if found:
            self.give(member, found)


def match_together(
    count: int,
    racks: Sequence[str | None],
    replica_racks: Sequence[Sequence[Collection[str]]],
) -> TopicRange:
    """Match co-partitioned topics: a partition goes to a member in a rack of its replicas in every topic.

    All topics share one state, as each partition goes to the same member in all of them.
    """
    state = TopicRange(count, racks)
    waiting: dict[str | None, list[int]] = {}
    for member in reversed(range(len(racks))):
        waiting.setdefault(racks[member], []).append(member)
    for partition in range(count):
        common = set(replica_racks[0][partition]).intersection(
            *(each[partition] for each in replica_racks[1:])
        )
        first = min(
            (_first(state, waiting[r]) for r in (None, *common) if r in waiting), default=len(racks)
        )
        if first < len(racks):
            state.give(first, (partition,))
    return state


def _first(state: TopicRange, waiting: list[int]) -> int:
    """Return the first member with room, or the number of members if none has; room never comes back."""
    while waiting and not state.room(waiting[-1]):
        waiting.pop()
    return waiting[-1] if waiting else state.member_count
