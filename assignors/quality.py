"""Measure a plan: validity, fairness, moves, and the distance to the optimum."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assignors.subscribers import subscribers_of
from groupsdk.assignment import Cluster, TopicPartition
from groupsdk.assignment.plan import Plan, find_problems, owners


_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Quality:
    """How good a plan is. All numbers count partitions.

    Attributes:
        problems: what makes the plan invalid, the first twenty; empty if it is valid.
        partitions: how many there are to share out.
        withheld: how many of them were not assigned.
        loads: by member.
        most: the greatest load.
        least_most: a bound: in no plan is the greatest load below this. Reached by a fair plan with equal
            subscriptions; with different ones it may be out of reach.
        fewest: the least load of a member that could have been given something.
        is_fairest: whether no plan has fairer loads: none whose greatest load is less, or as great with
            fewer members that bear it, and so on down. Exact for any subscriptions.
        moves: how many have an owner, among the members, and were given to another, or to nobody.
        least_moves: a bound: no plan whose greatest load is no greater than in this one moves fewer; and
            for one of the fairest, none of these does.
        spread: by how much the fullest and the emptiest of a topic's subscribers differ, on average over
            the topics.
        off_rack: how many are with a member in no rack of their replicas, where both are known.
        least_off_rack: a bound: so many have no subscriber in a rack of their replicas.
        with_racks: of how many the racks of the replicas and of the member are known.
    """

    problems: tuple[str, ...]
    partitions: int
    withheld: int
    loads: Mapping[str, int]
    most: int
    least_most: int
    fewest: int
    is_fairest: bool
    moves: int
    least_moves: int
    spread: float
    off_rack: int
    least_off_rack: int
    with_racks: int

    @property
    def is_valid(self) -> bool:
        return not self.problems

    @property
    def cross_rack(self) -> float:
        """Return the fraction, 0 to 1, of the partitions with known racks whose traffic crosses racks."""
        return self.off_rack / self.with_racks if self.with_racks else 0.0


def measure(plan: Plan, *, may_withhold: bool = False) -> Quality:
    """Measure a plan, which need not be valid.

    Ownership is read from the subscriptions. Takes time in proportion to partitions, claims, and the
    sum of all topics' subscribers. `may_withhold`: a partition that a member claims may be unassigned; see `find_problems`.
    """
    problems = []
    for problem in find_problems(plan, may_withhold=may_withhold):
        problems.append(problem)
        if len(problems) == _PROBLEMS:
            break
    assignable = plan.assignable()
    holders = {p: m for p, m in plan.holders().items() if m in plan.subscriptions}
    # each partition once, with one member, even if the plan assigns it to several
    loads = dict.fromkeys(plan.subscriptions, 0) | Counter(holders.values())
    owned = owners(plan)
    racks = _Racks(plan, holders)
    members = list(plan.subscriptions)
    by_topic = {
        topic: [members[number] for number in numbers]
        for topic, numbers in subscribers_of(assignable, plan.subscriptions, members).topics.items()
    }
    readers = {member_id for each in by_topic.values() for member_id in each}
    most = max(loads.values(), default=0)
    partitions = sum(assignable.values())
    is_fairest = _is_fairest(holders, by_topic, loads)
    is_even = is_fairest and all(len(each) == len(readers) for each in by_topic.values())
    return Quality(
        problems=tuple(problems),
        partitions=partitions,
        withheld=partitions - sum(p[0] in assignable for p in holders),
        loads=loads,
        most=most,
        least_most=_least_most(assignable, by_topic),
        fewest=min((loads[member_id] for member_id in readers), default=0),
        is_fairest=is_fairest,
        moves=sum(holders.get(partition) != owner for partition, owner in owned.items()),
        least_moves=_least_moves(
            owned, most, divmod(partitions, len(readers)) if is_even and readers else None
        ),
        spread=_spread(holders, by_topic),
        off_rack=racks.off,
        least_off_rack=racks.least_off(by_topic),
        with_racks=racks.known,
    )


def _least_most(assignable: Mapping[str, int], by_topic: Mapping[str, Sequence[str]]) -> int:
    """Return a lower bound of the greatest load, from all members and from each set of subscribers alone."""
    together: Counter[frozenset[str]] = Counter()
    for topic, members in by_topic.items():
        together[frozenset(members)] += assignable[topic]
    everyone = frozenset().union(*together)
    together[everyone] = max(together[everyone], sum(assignable.values()))
    return max(
        (-(-count // len(members)) for members, count in together.items() if members), default=0
    )


def _least_moves(
    owned: Mapping[TopicPartition, str], most: int, fair_share: tuple[int, int] | None
) -> int:
    """Return a lower bound of the moves: no member keeps more than the greatest load."""
    sizes = Counter(owned.values()).values()
    if fair_share is None:
        return len(owned) - sum(min(size, most) for size in sizes)
    share, over = fair_share
    full = sum(size > share for size in sizes)
    return len(owned) - sum(min(size, share) for size in sizes) - min(over, full)


def _is_fairest(
    holders: Mapping[TopicPartition, str],
    by_topic: Mapping[str, Sequence[str]],
    loads: Mapping[str, int],
) -> bool:
    """Return whether no chain of moves leads from a member to one that has at least two less.

    Such chains are what a plan that is not the fairest always has: loads of this kind (bases of a
    polymatroid) can be improved step by step if they can be improved at all.
    """
    held: dict[str, set[str]] = {}
    for (topic, _), member_id in holders.items():
        held.setdefault(member_id, set()).add(topic)
    reached: set[str] = set()
    topics: set[str] = set()
    # from the greatest load down: members reachable from greater loads have been visited
    for start in sorted(held, key=lambda member_id: -loads[member_id]):
        waiting = [] if start in reached else [start]
        reached.add(start)
        while waiting:
            for topic in held.get(waiting.pop(), set()) - topics:
                topics.add(topic)
                new = set(by_topic.get(topic, ())) - reached
                reached |= new
                waiting += new
                if any(loads[member_id] < loads[start] - 1 for member_id in new):
                    return False
    return True


def _spread(holders: Mapping[TopicPartition, str], by_topic: Mapping[str, Sequence[str]]) -> float:
    given: dict[str, Counter[str]] = {topic: Counter() for topic in by_topic}
    for (topic, _), member_id in holders.items():
        if topic in given:
            given[topic][member_id] += 1
    gaps = [
        max(counts.values(), default=0) - min(counts[member_id] for member_id in by_topic[topic])
        for topic, counts in given.items()
    ]
    return sum(gaps) / len(gaps) if gaps else 0.0


class _Racks:
    def __init__(self, plan: Plan, holders: Mapping[TopicPartition, str]) -> None:
        self._subscriptions = plan.subscriptions
        self._cluster = plan.cluster
        self.known = self.off = 0
        for partition, member_id in holders.items():
            rack = plan.subscriptions[member_id].rack_id
            replica_racks = racks_of(plan.cluster, partition)
            if rack and replica_racks:
                self.known += 1
                self.off += rack not in replica_racks

    def least_off(self, by_topic: Mapping[str, Sequence[str]]) -> int:
        """Count the partitions without a subscriber in their racks; a subscriber without a rack matches all."""
        off = 0
        for topic, members in by_topic.items():
            racks = {self._subscriptions[member_id].rack_id or None for member_id in members}
            if None not in racks:
                off += sum(
                    bool(each) and racks.isdisjoint(each)
                    for each in self._cluster.replica_racks.get(topic, ())
                )
        return off


def racks_of(cluster: Cluster, partition: TopicPartition) -> frozenset[str]:
    """Return the racks of a partition's replicas; empty if unknown."""
    known = cluster.replica_racks.get(partition.topic, ())
    if 0 <= partition.partition < len(known):
        return frozenset(known[partition.partition])
    return frozenset()
