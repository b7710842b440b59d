"""The assignors that run in the coordinator: their contract, and Kafka's `uniform` and `range` (KIP-848)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import index as integer
from typing import Any, Final, Protocol
from uuid import UUID

from groupsdk.broker.coordinator.consumer.topics import Partitions, TopicInfo, signed_halves
from groupsdk.broker.coordinator.hash_order import (
    HashOrder,
    capacity_for,
    int_hash,
    text_hash,
    uuid_hash,
)
from groupsdk.errors import GroupSdkError
from groupsdk.utf16 import utf16_key


class AssignorError(GroupSdkError):
    """An assignor returned an invalid result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """One member of a group, as input to an assignor."""

    member_id: str
    instance_id: str | None
    """Its static id (KIP-345); None: a dynamic member."""
    rack_id: str | None
    """Its rack; None: unknown."""
    subscribed: frozenset[UUID]
    """The existing topics that the member subscribes to."""
    target: Partitions
    """The member's previous target assignment, in the order in which the assignor returned it."""
    client_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A group, as input to an assignor."""

    members: Mapping[str, MemberSpec]
    """Members by id, in the order in which Kafka's broker iterates them."""
    topics: Mapping[UUID, TopicInfo]
    """All existing topics to which at least one member subscribes."""
    is_homogeneous: bool
    """Whether all members subscribe to the same topics, including topics that do not exist."""
    lags: Mapping[UUID, Mapping[int, int]] = field(default_factory=dict)
    """The records behind the group's committed offsets, by topic and partition, where both ends are known; only for an
    assignor whose attribute `reads_reports` is true."""


class ServerAssignor(Protocol):
    """Assigns partitions to the members of a consumer group, in the coordinator.

    Runs on its own thread, for one group at a time, and is abandoned after `group.consumer.assignor.timeout.ms`.
    (Kafka: ConsumerGroupPartitionAssignor.)
    """

    @property
    def name(self) -> str:
        """The name by which members request it (the consumer's `group.remote.assignor`)."""

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Return the partitions of each member by member id; a missing member gets none.

        Args:
            group: the members and topics, as copies; a changed one is an error.

        Raises:
            Exception: any; the last target stays, and the next heartbeat that needs a new one fails.
        """


def copied(group: GroupSpec) -> GroupSpec:
    """Return a group with tables of its own, for an assignor that may change what it is given."""
    return GroupSpec(
        members={
            member_id: replace(member, target=dict(member.target))
            for member_id, member in group.members.items()
        },
        topics=dict(group.topics),
        is_homogeneous=group.is_homogeneous,
        lags={topic_id: dict(lags) for topic_id, lags in group.lags.items()},
    )


def checked(group: GroupSpec, result: Mapping[str, Partitions]) -> dict[str, Partitions]:
    """Validate an assignor's result. Return it in its order, without topics that have no partitions.

    Raises:
        AssignorError: the result is not of that type, has an unknown member, topic or partition, assigns a topic to a
            member that does not subscribe to it, or assigns a partition twice. Kafka checks only the type.
    """
    given: dict[UUID, set[int]] = {}
    made: dict[str, Partitions] = {}
    for member_id, partitions in _table(result, "a mapping of member ids to partitions").items():
        member = group.members.get(member_id)
        if member is None:
            raise AssignorError(
                f"the assignor returned partitions for the unknown member {member_id!r}"
            )
        made[member_id] = {}
        what = f"for {member_id} a mapping of topic ids to partition numbers"
        for topic_id, indexes in _table(partitions, what).items():
            if topic_id not in member.subscribed:
                text = f"the assignor assigned the topic {topic_id} to {member_id}, which is not subscribed to it"
                raise AssignorError(text)
            topic = group.topics[topic_id]
            taken = given.setdefault(topic_id, set())
            numbers = _numbers(topic.name, indexes)
            for index in numbers:
                if not 0 <= index < topic.partitions:
                    raise AssignorError(
                        f"the assignor assigned {topic.name}-{index}, which does not exist, to {member_id}"
                    )
                if index in taken:
                    raise AssignorError(
                        f"the assignor assigned {topic.name}-{index} to two members"
                    )
                taken.add(index)
            if numbers:
                made[member_id][topic_id] = numbers
    return made


def _table(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise AssignorError(f"the assignor must return {what}, not {type(value).__name__}")
    return value


def _numbers(topic: str, indexes: Any) -> tuple[int, ...]:
    """Return partition numbers as a tuple, read once: they may come from a generator."""
    is_iterable = isinstance(indexes, Iterable) and not isinstance(indexes, str | bytes)
    given = tuple(indexes) if is_iterable else (indexes,)
    if is_iterable and all(type(each) is int for each in given):
        return given
    if is_iterable and not any(isinstance(each, bool) for each in given):
        with suppress(TypeError):
            return tuple(map(integer, given))  # numpy's, for example
    raise AssignorError(
        f"the assignor must return the partitions of {topic} as integers, not"
        f" {given[:10] if is_iterable else indexes!r}"
    )


_KEPT_TAKERS: Final = 64


class RangeAssignor:
    """Assigns contiguous ranges of each topic, co-partitioned across topics (Kafka: RangeAssignor)."""

    name = "range"

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Assign each topic to its subscribers in contiguous ranges: static members first, then by member id."""
        ordered = sorted(
            group.members.values(),
            key=lambda each: (
                each.instance_id is None,
                utf16_key(each.instance_id or each.member_id),
            ),
        )
        given: dict[str, Partitions] = {each.member_id: {} for each in ordered}
        subscriptions = dict.fromkeys(each.subscribed for each in ordered)
        takers_of: dict[frozenset[frozenset[UUID]], list[str]] = {}
        for topic_id, topic in group.topics.items():
            having = frozenset(each for each in subscriptions if topic_id in each)
            if not having:
                continue
            takers = takers_of.get(having)
            if takers is None:
                takers = [each.member_id for each in ordered if each.subscribed in having]
                if len(takers_of) >= _KEPT_TAKERS:
                    takers_of.clear()
                takers_of[having] = takers
            least, more = divmod(topic.partitions, len(takers))
            start = 0
            for number, member_id in enumerate(takers if least else takers[:more]):
                end = start + least + (number < more)
                given[member_id][topic_id] = tuple(range(start, end))
                start = end
        orders = _Subscriptions(group)
        return {
            member_id: {each: parts[each] for each in orders.put(group.members[member_id], parts)}
            for member_id, parts in given.items()
        }


class UniformAssignor:
    """Assigns balanced and sticky: equal partition counts with few moves (Kafka: UniformAssignor)."""

    name = "uniform"

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Balance the partitions; if all members have the same subscription, their counts differ by at most one."""
        if not group.topics:
            return {}
        if group.is_homogeneous:
            return _Homogeneous(group).assign()
        return _Heterogeneous(group).assign()


class _Subscriptions:
    """Iteration order of a subscription's topics: that of a Java HashSet of their names."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._known: dict[frozenset[UUID], dict[UUID, int]] = {}

    def ids(self, subscribed: frozenset[UUID]) -> dict[UUID, int]:
        """Return the topic ids of a subscription in order, each with its place."""
        found = self._known.get(subscribed)
        if found is None:
            ids = {self._group.topics[each].name: each for each in subscribed}
            names = HashOrder.of(text_hash, sorted(ids, key=utf16_key))
            found = self._known[subscribed] = {ids[name]: n for n, name in enumerate(names)}
        return found

    def put(self, member: MemberSpec, given: Partitions) -> HashOrder[UUID]:
        """Return the iteration order of a member's topic map, sized for its subscription."""
        order = HashOrder(uuid_hash, capacity_for(len(member.subscribed)))
        for topic_id in sorted(given, key=self.ids(member.subscribed).__getitem__):
            order.put(topic_id)
        return order


class _Share:
    """The partitions of a member, copied into new tables at the first change."""

    def __init__(self, target: Partitions) -> None:
        self._topics = HashOrder(uuid_hash)
        for topic_id in target:
            self._topics.put(topic_id)
        self._indexes = {each: HashOrder.of(int_hash, target[each]) for each in target}
        self._is_copy = False

    def topics(self) -> list[UUID]:
        return list(self._topics)

    def indexes(self, topic_id: UUID) -> list[int]:
        """Return the partitions of a topic in order."""
        return list(self._indexes[topic_id])

    def copied(self) -> None:
        """Copy the tables before a change."""
        if self._is_copy:
            return
        self._is_copy = True
        topics = HashOrder(uuid_hash, len(self._topics))
        for topic_id in self._topics:
            topics.put(topic_id)
            self._indexes[topic_id] = HashOrder.of(int_hash, self._indexes[topic_id])
        self._topics = topics

    def drop(self, topic_id: UUID) -> None:
        """Remove all partitions of a topic."""
        self.copied()
        self._topics.remove(topic_id)
        del self._indexes[topic_id]

    def remove(self, topic_id: UUID, index: int) -> None:
        self.copied()
        self._indexes[topic_id].remove(index)
        if not self._indexes[topic_id]:
            self.drop(topic_id)

    def add(self, topic_id: UUID, index: int, capacity: int = 16) -> None:
        """Add a partition; `capacity` sizes the set if the topic has none yet."""
        self.copied()
        self._topics.compute(topic_id)
        indexes = self._indexes.get(topic_id)
        if indexes is None:
            indexes = self._indexes[topic_id] = HashOrder(int_hash, capacity)
        indexes.put(index)

    def partitions(self) -> Partitions:
        return {topic: tuple(self._indexes[topic]) for topic in self._topics}


class _Homogeneous:
    """Assigns when all members subscribe to the same topics (Kafka: UniformHomogeneousAssignmentBuilder)."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        subscribed = next(iter(group.members.values())).subscribed
        ids = HashOrder.of(uuid_hash, _Subscriptions(group).ids(subscribed))
        self._topics = [group.topics[each] for each in ids]
        total = sum(topic.partitions for topic in self._topics)
        self._quota, self._extra = divmod(total, len(group.members))
        self._shares: dict[str, _Share] = {}
        self._room: dict[str, int] = {}
        self._had: defaultdict[UUID, set[int]] = defaultdict(set)
        self._freed: list[tuple[UUID, int]] = []

    def assign(self) -> dict[str, Partitions]:
        """Keep partitions up to each member's quota, then assign the rest."""
        members = list(self._group.members.values())
        for number, member in enumerate(members):
            self._keep(member, len(members) - number)
        self._deal()
        return {member_id: share.partitions() for member_id, share in self._shares.items()}

    def _keep(self, member: MemberSpec, members_left: int) -> None:
        """Let a member keep its partitions up to its quota; `members_left` includes it."""
        share = self._shares[member.member_id] = _Share(member.target)
        room = self._quota + (self._extra > 0)
        for topic_id in share.topics():
            if topic_id not in member.subscribed:
                share.drop(topic_id)
                continue
            had, partitions = self._had[topic_id], self._group.topics[topic_id].partitions
            for index in share.indexes(topic_id):
                if index in had or index >= partitions:
                    share.remove(topic_id, index)  # not from Kafka itself, but a log may have it
                    continue
                had.add(index)
                if room > 0:
                    room -= 1
                else:
                    share.remove(topic_id, index)
                    self._freed.append((topic_id, index))
        if self._extra > 0:
            if room == 0 or members_left <= self._extra:
                self._extra -= 1
            else:
                room -= 1
        if room > 0:
            self._room[member.member_id] = room

    def _deal(self) -> None:
        """Assign the partitions that had no owner first, then the revoked ones."""
        places = [
            (topic.topic_id, index)
            for topic in self._topics
            for index in range(topic.partitions)
            if index not in self._had[topic.topic_id]
        ]
        rest = iter([*places, *self._freed])
        for member_id, room in self._room.items():
            self._shares[member_id].copied()
            for place in islice(rest, room):
                self._shares[member_id].add(*place)


class _Heterogeneous:
    """Assigns when members subscribe to different topics (Kafka: UniformHeterogeneousAssignmentBuilder).

    Members are numbers here; ties in load are broken by their order.
    """

    _MOST_ROUNDS = 16

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = list(group.members.values())
        self._takers: dict[UUID, list[int]] = {topic_id: [] for topic_id in group.topics}
        for number, member in enumerate(self._members):
            for topic_id in member.subscribed:
                self._takers[topic_id].append(number)
        self._owners = {topic.topic_id: [-1] * topic.partitions for topic in group.topics.values()}
        self._loads = [0] * len(self._members)
        self._shares: list[_Share] = []

    def assign(self) -> dict[str, Partitions]:
        """Keep partitions still subscribed to, assign the rest, then balance topic by topic."""
        for number, member in enumerate(self._members):
            self._keep(number, member)
        subscribed = [
            topic for topic in self._group.topics.values() if self._takers[topic.topic_id]
        ]
        topics = [each.topic_id for each in sorted(subscribed, key=self._rank)]
        for topic_id in topics:
            loads = _Loads(self._takers[topic_id], self._loads)
            for index, owner in enumerate(self._owners[topic_id]):
                if owner < 0:
                    self._give(topic_id, index, loads.least())
        self._balance([topic for topic in topics if len(self._takers[topic]) > 1])
        return {
            member.member_id: share.partitions()
            for member, share in zip(self._members, self._shares, strict=True)
        }

    def _keep(self, number: int, member: MemberSpec) -> None:
        share = _Share(member.target)
        self._shares.append(share)
        for topic_id in share.topics():
            if topic_id not in member.subscribed:
                share.drop(topic_id)
                continue
            owners = self._owners[topic_id]
            for index in share.indexes(topic_id):
                if index >= len(owners) or owners[index] >= 0:
                    share.remove(topic_id, index)  # not from Kafka itself, but a log may have it
                    continue
                owners[index] = number
                self._loads[number] += 1

    def _rank(self, topic: TopicInfo) -> tuple[float, int, tuple[int, int]]:
        """Return the sort key of a topic: most partitions per subscriber first, then fewest subscribers, then by id.

        Kafka compares ids by their signed 64-bit halves."""
        takers = len(self._takers[topic.topic_id])
        return -topic.partitions / takers, takers, signed_halves(topic.topic_id)

    def _give(self, topic_id: UUID, index: int, number: int) -> None:
        owners = self._owners[topic_id]
        before = owners[index]
        if before >= 0:
            self._loads[before] -= 1
            self._shares[before].remove(topic_id, index)
        owners[index] = number
        self._loads[number] += 1
        fair = -(-len(owners) // len(self._takers[topic_id]))
        self._shares[number].add(topic_id, index, capacity_for(fair))

    def _balance(self, topics: list[UUID]) -> None:
        """Balance the topics in turn until a full round changes nothing."""
        last = None
        for _ in range(self._MOST_ROUNDS):
            for topic_id in topics:
                if topic_id == last:
                    return
                if self._balance_topic(topic_id) or last is None:
                    last = topic_id

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Move partitions from the most to the least loaded subscribers; return whether any moved."""
        loads = _Loads(self._takers[topic_id], self._loads)
        if loads.spread() <= 1:
            return False
        # a partition that was moved here must not move again
        held: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owners[topic_id]):
            held.setdefault(owner, []).append(index)
        moved = False
        while (giver := loads.most(held)) is not None:
            index = held[giver].pop()
            taker = loads.least()
            if loads.is_level():
                break
            self._give(topic_id, index, taker)
            moved = True
        return moved


class _Loads:
    """The subscribers of a topic by load, as two ranges, while the loads change.

    All members of a range have the same load. The lower range gets partitions in turn and grows once all of it is as
    loaded as the next member; the upper range gives them in turn, from its end, and grows downwards in the same way."""

    def __init__(self, members: list[int], loads: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda each: (loads[each], each))
        self._low_end = 0
        self._low_next = 0
        self._low_load = loads[self._members[0]] - 1
        self._high_start = self._high_end = len(members)
        self._high_next = len(members) - 1
        self._high_load = loads[self._members[-1]] + 1

    def spread(self) -> int:
        """Return the difference between the highest and the lowest load."""
        return self._loads[self._members[-1]] - self._loads[self._members[0]]

    def is_level(self) -> bool:
        """Return whether no move between the ranges would improve the balance."""
        return self._high_load - self._low_load <= 1

    def least(self) -> int:
        """Return the member to give the next partition to."""
        if self._low_next >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._members) and self._has(self._low_end, self._low_load):
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._members[self._low_next - 1]

    def most(self, held: Mapping[int, list[int]]) -> int | None:
        """Return the member to take the next partition from, among those with some in `held`; None if none is."""
        if self.is_level():
            return None
        while (place := self._next_high()) >= 0:
            member = self._members[place]
            if held.get(member):
                return member
            # remove it from the end of the range
            self._high_end -= 1
            self._members[place] = self._members[self._high_end]
            self._members[self._high_end] = member
        return None

    def _next_high(self) -> int:
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_load = self._loads[self._members[self._high_start - 1]]
            else:
                self._high_load -= 1
            while self._high_start > 0 and self._has(self._high_start - 1, self._high_load):
                self._high_start -= 1
            self._high_next = self._high_end - 1
        place = self._high_next
        if place >= 0:
            self._high_next -= 1
        return place

    def _has(self, place: int, load: int) -> bool:
        return self._loads[self._members[place]] == load


BUILT_IN: Mapping[str, type[RangeAssignor | UniformAssignor]] = {
    "uniform": UniformAssignor,
    "range": RangeAssignor,
}
"""Kafka's own assignors, by name."""
