"""Assign each member a contiguous range of every topic, like Kafka's RangeAssignor with racks (KIP-881)."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from assignors.base import StatelessAssignor, names_wrong_arguments
from assignors.subscribers import (
    Subscribers,
    checked,
    java_topic_order,
    member_order,
    partition_counts,
    subscribers_of,
)
from groupsdk.assignment import Assignment, Cluster, GroupAssignment, GroupSubscription
from groupsdk.utf16 import utf16_sorted


Shares = list[dict[str, Sequence[int]]]
"""The partitions of each member, by its number."""


class RangeAssignor(StatelessAssignor):
    """Assigns each topic independently, in contiguous runs of partitions (`RangeAssignor`).

    The members of a topic, static ones first, take runs whose lengths differ by at most one, the first ones
    the longer. Topics with the same members and as many partitions are co-partitioned: a member has the same
    partitions of each.

    Where members and replicas say their racks, and the replicas of some topic do not cover all racks alike,
    partitions go to members in a rack of theirs first, which may break the runs up; how many a member gets
    stays the same.

    The results are those of Kafka 4's class, with the members in the order that it gives them, and each
    member's topics and partitions too.
    """

    name = "range"

    @names_wrong_arguments
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign the group's partitions, as the leader; see `PartitionAssignor.assign`.

        Raises:
            TypeError: an argument is of a wrong type; the error names it.
            ValueError: a number of partitions is out of bounds.
        """
        members = checked(subscriptions)
        counts = partition_counts(cluster)
        group = subscribers_of(counts, members, member_order(members))
        racks = [members[member_id].rack_id or None for member_id in group.member_ids]
        if _needs_racks(cluster, counts, group, racks):
            shares = _with_racks(cluster, counts, group, racks)
        else:
            order = java_topic_order(counts, members) if group.topics else []
            shares = _plain(counts, group, order)
        return {
            member_id: Assignment(share)
            for member_id, share in zip(group.member_ids, shares, strict=True)
        }


def _plain(counts: Mapping[str, int], group: Subscribers, order: Sequence[str]) -> Shares:
    shares: Shares = [{} for _ in group.member_ids]
    cut: dict[tuple[int, int], list[Sequence[int]]] = {}
    numbers = tuple(range(max((counts[topic] for topic in order), default=0)))
    for topic in order:
        subscribers = group.topics[topic]
        count = counts[topic]
        shape = (count, len(subscribers))
        if shape not in cut:
            cut[shape] = _runs(numbers, *shape)
        if len(subscribers) == len(shares):
            for share, run in zip(shares, cut[shape], strict=False):
                share[topic] = run
        else:
            for number, run in zip(subscribers, cut[shape], strict=False):
                shares[number][topic] = run
    return shares


def _runs(numbers: Sequence[int], count: int, members: int) -> list[Sequence[int]]:
    """Split the first `count` numbers into runs; members without partitions get none."""
    base, extra = divmod(count, members)
    longer = extra * (base + 1)
    runs = [numbers[start : start + base + 1] for start in range(0, longer, base + 1)]
    if base:
        runs += [numbers[start : start + base] for start in range(longer, count, base)]
    return runs


def _needs_racks(
    cluster: Cluster, counts: Mapping[str, int], group: Subscribers, racks: Sequence[str | None]
) -> bool:
    if not any(racks) or not cluster.replica_racks:
        return False
    return any(
        _is_rack_aware(_replica_racks(cluster, topic, counts[topic]), subscribers, racks)
        for topic, subscribers in group.topics.items()
        if topic in cluster.replica_racks
    )


def _is_rack_aware(
    replica_racks: Sequence[Collection[str]],
    subscribers: Sequence[int],
    racks: Sequence[str | None],
) -> bool:
    """Return whether placing a topic by rack can gain anything (`useRackAwareAssignment`)."""
    seen = set().union(*replica_racks)
    if all(len(each) == len(seen) for each in replica_racks):
        return False
    return any(racks[number] in seen for number in subscribers)


def _replica_racks(cluster: Cluster, topic: str, count: int) -> Sequence[Collection[str]]:
    """Return the racks of each partition's replicas as sets, as many as the topic has partitions."""
    known = cluster.replica_racks.get(topic, ())[:count]
    return [*map(frozenset, known), *(frozenset[str](),) * (count - len(known))]


def _with_racks(
    cluster: Cluster, counts: Mapping[str, int], group: Subscribers, racks: Sequence[str | None]
) -> Shares:
    together: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for topic, subscribers in group.topics.items():
        together[id(subscribers), counts[topic]].append(topic)
    shares: Shares = [{} for _ in group.member_ids]
    taken: dict[str, list[tuple[dict[str, Sequence[int]], tuple[int, ...]]]] = {}
    for topics in together.values():
        subscribers = group.topics[topics[0]]
        count = counts[topics[0]]
        replica_racks = [_replica_racks(cluster, topic, count) for topic in topics]
        if len(topics) > 1:
            topic_range = match_together(count, [racks[n] for n in subscribers], replica_racks)
        else:
            topic_range = TopicRange(count, [racks[n] for n in subscribers])
            if _is_rack_aware(replica_racks[0], subscribers, racks):
                topic_range.match(replica_racks[0])
        runs = [
            (shares[number], tuple(run))
            for number, run in zip(subscribers, topic_range.fill(), strict=True)
            if run
        ]
        taken.update(dict.fromkeys(topics, runs))
    for topic in utf16_sorted(taken):
        for share, run in taken[topic]:
            share[topic] = run
    return shares


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
