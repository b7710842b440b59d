"""The assignor `lag`: fair counts with the fewest moves, and swaps where one member has much more left to read."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import fsum
from typing import ClassVar, Final

from assignors.base import names_wrong_arguments
from assignors.sticky.assignor import StickyAssignor
from assignors.sticky.bitsets import bitset
from assignors.sticky.ownership import Ownership, find_owners
from assignors.sticky.subscription_index import SubscriptionIndex
from assignors.sticky.user_data import Claim, ClaimReader, encode_claim
from assignors.subscribers import checked, partition_counts, subscribers_of
from assignors.weighted.local_search import Item, LocalSearch
from assignors.weighted.plan import Nearness
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    Lags,
    Partitions,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.errors import ConfigError
from groupsdk.utf16 import utf16_sorted


logger = logging.getLogger(__name__)

_PARTITIONS_PER_SWAP: Final = 20
_TRIED: Final = 8
"""How many members are asked in turn whether they may have a partition."""
_GREATEST_LAG: Final = 1e15

_Place = tuple[str, int]


class LagAssignor:
    """Assigns as `sticky` does, and swaps partitions of a member that has much more to read than the others.

    Counts come first: they are the fairest that there are, with the fewest moves, as `sticky` makes them. Without any lag
    known, that is all. Where the most loaded member's lag exceeds what is possible (the mean of the members, or the
    greatest lag of one partition) by more than `threshold`, it swaps partitions with others, until nobody
    exceeds it by more than `tolerance` or the rebalance's `most_swaps` are used up. A swap keeps the counts.

    It does not flap: swaps need a lag over the threshold, and must take at least half the threshold off it. Once all members are
    within the tolerance, nothing moves for as long as each lag changes by less than 15 % (with the defaults). Nothing is
    swapped in a rebalance in which partitions without an owner are placed, so a cooperative group settles in two rounds.

    It decides in rebalances, and starts none.

    Args:
        threshold: how far over what is possible the greatest lag must be, as a part of that: 0.05 to 100.
        tolerance: up to where swaps bring it: 0 to half the threshold.
        least_lag: how many records over what is possible it must be at least; 0 or more.
        most_swaps: in one rebalance, each of two partitions; None: one for 20 partitions, and at least one.

    Raises:
        ConfigError: an argument is out of bounds.
    """

    name: ClassVar[str] = "lag"
    version: ClassVar[int] = 0
    supported_protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset(
        {RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER}
    )
    reads_reports: ClassVar[bool] = True

    def __init__(
        self,
        *,
        threshold: float = 0.5,
        tolerance: float = 0.1,
        least_lag: int = 1_000,
        most_swaps: int | None = None,
    ) -> None:
        if not 0.05 <= threshold <= 100:
            raise ConfigError(f"threshold is {threshold!r}; it must be 0.05 to 100")
        if not 0 <= tolerance <= threshold / 2:
            raise ConfigError(
                f"tolerance is {tolerance!r}; it must be 0 to {threshold / 2:g}, half the threshold"
            )
        if least_lag < 0:
            raise ConfigError(f"least_lag is {least_lag!r}; it must be 0 or more")
        if most_swaps is not None and most_swaps < 0:
            raise ConfigError(f"most_swaps is {most_swaps!r}; it must be 0 or more, or None")
        self.__threshold = threshold
        self.__tolerance = tolerance
        self.__least_lag = least_lag
        self.__most_swaps = most_swaps
        self.__user_data: bytes | None = None

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return this member's last assignment and its generation, as `sticky` does; None before the first one."""
        return self.__user_data

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Store this member's assignment, to claim it in the next rebalance."""
        self.__user_data = encode_claim(assignment.partitions, generation_id)

    @names_wrong_arguments
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign the group's partitions, as the leader; see `PartitionAssignor.assign`.

        The lags are `Cluster.lags`. A partition whose lag is not known counts as the mean of those that are. In the
        cooperative protocol a partition that another member still claims is withheld.

        Raises:
            TypeError: an argument is of a wrong type; the error names it.
            ValueError: a number of partitions is out of bounds.
        """
        members = checked(subscriptions)
        reader = ClaimReader()
        claims = {member_id: _claim(each, reader, member_id) for member_id, each in members.items()}
        holdings = StickyAssignor().assign_claims(
            cluster,
            members,
            {member_id: claim.partitions for member_id, claim in claims.items()},
            {member_id: claim.generation_id for member_id, claim in claims.items()},
        )
        work = _Work.of(cluster, members, claims, holdings)
        if work is not None:
            self.__level(work)
            holdings = dict(zip(work.member_ids, map(_by_topic, work.holdings), strict=True))
        return {
            member_id: Assignment(mine) for member_id, mine in _withheld(holdings, members).items()
        }

    def __level(self, work: "_Work") -> None:
        """Swap what has no owner yet as is best, and else, if that is worth it, a few of what members own."""
        goal = work.possible * (1 + self.__tolerance)
        free = work.free()
        if free:
            work.deal(free)
            work.swap(goal, len(free), free)
            return
        greatest = max(work.loads)
        over = greatest - work.possible
        if over <= max(self.__threshold * work.possible, self.__least_lag):
            return
        budget = self.__most_swaps
        if budget is None:
            budget = max(1, sum(map(len, work.holdings)) // _PARTITIONS_PER_SWAP)
        before = [set(each) for each in work.holdings]
        swaps = work.swap(goal, budget, None)
        if greatest - max(work.loads) < self.__threshold / 2 * work.possible:
            work.holdings[:] = before
        elif swaps:
            logger.info(
                "swapping %d pairs of partitions: the greatest lag of a member was %d, and becomes %d",
                *(swaps, greatest, max(work.loads)),
            )


@dataclass(slots=True)
class _Work:
    """The members' partitions and lags, by the members' numbers."""

    member_ids: Sequence[str]
    holdings: list[set[_Place]]
    lags: Mapping[_Place, float]
    loads: list[float]
    possible: float
    """The least that the most loaded member can have: the mean, or the greatest lag of one partition."""
    near: Nearness
    ownership: Ownership

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        members: Mapping[str, Subscription],
        claims: Mapping[str, Claim],
        holdings: Mapping[str, Partitions],
    ) -> "_Work | None":
        """Return the work; None without any lag."""
        member_ids = utf16_sorted(members)
        group = subscribers_of(partition_counts(cluster), members, member_ids)
        places = [
            {(topic, number) for topic, numbers in holdings[each].items() for number in numbers}
            for each in member_ids
        ]
        lags = _known_lags(cluster.lags, places)
        if not any(lags.values()):
            return None
        loads = [_total(lags, each) for each in places]
        counts = {topic: cluster.partition_counts[topic] for topic in group.topics}
        subscribed = {id(each.topics): counts.keys() & each.topics for each in members.values()}
        index = SubscriptionIndex([subscribed[id(members[m].topics)] for m in member_ids], counts)
        ownership = find_owners(
            [claims[each].partitions for each in member_ids],
            [claims[each].generation_id for each in member_ids],
            index,
            counts,
        )
        subscribers = {topic: bitset(each) for topic, each in group.topics.items()}
        racks = [members[each].rack_id or None for each in member_ids]
        near = Nearness(racks if any(racks) else (), _racks(cluster, counts), subscribers)
        possible = max(fsum(loads) / len(loads), max(lags.values()))
        return cls(member_ids, places, lags, loads, possible, near, ownership)

    def free(self) -> frozenset[_Place]:
        """Return the partitions that nobody owned."""
        return frozenset(
            (topic, number) for topic, numbers in self.ownership.free.items() for number in numbers
        )

    def deal(self, places: frozenset[_Place]) -> None:
        """Deal these partitions to the members that have some of them: as many to each, the greatest lag to the least loaded.

        Where somebody may not read what comes next, all stays.
        """
        kept = [each - places for each in self.holdings]
        slots = [len(each & places) for each in self.holdings]
        light = [
            (_total(self.lags, mine), member) for member, mine in enumerate(kept) if slots[member]
        ]
        heapify(light)
        for topic, number in sorted(places & self.lags.keys(), key=self._heaviest_first):
            item = (0, -self.lags[topic, number], topic, number)
            passed: list[tuple[float, int]] = []
            while light and len(passed) < _TRIED and not self.near.may_get(light[0][1], item):
                passed.append(heappop(light))
            if not light or len(passed) == _TRIED:
                return
            load, member = heappop(light)
            kept[member].add((topic, number))
            slots[member] -= 1
            if slots[member]:
                heappush(light, (load + self.lags[topic, number], member))
            for each in passed:
                heappush(light, each)
        self.holdings = kept
        self.loads = [_total(self.lags, each) for each in kept]

    def _heaviest_first(self, place: _Place) -> tuple[float, _Place]:
        return -self.lags[place], place

    def swap(self, goal: float, most: int, among: frozenset[_Place] | None) -> int:
        """Swap at most so many pairs, of these partitions alone if they are given. Return how many."""

        def items(member: int) -> Iterator[Item]:
            for topic, number in self.holdings[member]:
                if among is None or (topic, number) in among:
                    yield 0, -self.lags[topic, number], topic, number

        capacities = [1.0] * len(self.loads)
        search = LocalSearch(
            self.loads, capacities, goal, items, self.near.may_get, swaps_only=True
        )
        search.run()
        moves = search.moves[: 2 * most]
        for (_, _, topic, number), source, target in moves:
            self.holdings[source].discard((topic, number))
            self.holdings[target].add((topic, number))
        self.loads = [_total(self.lags, each) for each in self.holdings]
        return len(moves) // 2


def _claim(subscription: Subscription, reader: ClaimReader, member_id: str) -> Claim:
    """Return what a member owns: what it says, or else, in the eager protocol, its last assignment."""
    if subscription.owned_partitions:
        return Claim(subscription.owned_partitions, subscription.generation_id)
    return reader.read(subscription.user_data, member_id)


def _known_lags(lags: Lags, holdings: Sequence[set[_Place]]) -> dict[_Place, float]:
    """Return the lag of each partition, that of the mean where it is not known."""
    known: dict[_Place, float] = {}
    unknown: list[_Place] = []
    for place in (place for each in holdings for place in each):
        lag = lags.get(place[0], {}).get(place[1])
        if lag is None:
            unknown.append(place)
        else:
            known[place] = min(max(float(lag), 0.0), _GREATEST_LAG)
    mean = fsum(known.values()) / len(known) if known else 0.0
    return known | dict.fromkeys(unknown, mean)


def _total(lags: Mapping[_Place, float], places: Collection[_Place]) -> float:
    # the exact sum, so that no order makes a difference
    return fsum(map(lags.__getitem__, places))


def _racks(cluster: Cluster, counts: Mapping[str, int]) -> dict[str, list[frozenset[str]]]:
    return {
        topic: [*map(frozenset, racks)]
        for topic, racks in cluster.replica_racks.items()
        if topic in counts and len(racks) == counts[topic]
    }


def _by_topic(places: Collection[_Place]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def _withheld(
    holdings: Mapping[str, Partitions], members: Mapping[str, Subscription]
) -> Mapping[str, Partitions]:
    """Leave out what another member claims in the cooperative protocol: it has to be revoked first (KIP-429).

    A member keeps what it claims with a later generation than all others.
    """
    claimed: dict[_Place, list[tuple[int, str]]] = {}
    for member_id, each in members.items():
        for topic, numbers in each.owned_partitions.items():
            for number in set(numbers):
                claimed.setdefault((topic, number), []).append((each.generation_id, member_id))
    if not claimed:
        return holdings
    owners = {place: _latest(claims) for place, claims in claimed.items()}
    given = {}
    for member_id, mine in holdings.items():
        kept = {
            topic: tuple(
                number for number in numbers if owners.get((topic, number), member_id) == member_id
            )
            for topic, numbers in mine.items()
        }
        given[member_id] = {topic: numbers for topic, numbers in kept.items() if numbers}
    return given


def _latest(claims: Sequence[tuple[int, str]]) -> str | None:
    """Return who claims with the latest generation; None where several do."""
    latest = max(generation for generation, _ in claims)
    found = [member_id for generation, member_id in claims if generation == latest]
    return found[0] if len(found) == 1 else None
