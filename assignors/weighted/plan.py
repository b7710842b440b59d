"""Plan assignments by weight: owners keep what they can, the rest is placed longest first (LPT)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import fsum, inf

from assignors.sticky.bitsets import bitset
from assignors.weighted.least_loaded import LeastLoaded, LeastLoadedAmong, heaviest_load
from assignors.weighted.local_search import Item, LocalSearch
from assignors.weighted.workload import Workload
from groupsdk.assignment import Partitions


class Nearness:
    """The members near each partition, as bitsets. False if racks do not matter."""

    def __init__(
        self,
        racks: Sequence[str | None],
        replica_racks: Mapping[str, Sequence[frozenset[str]]],
        subscribers: Mapping[str, int],
    ) -> None:
        self._replica_racks = replica_racks
        self._subscribers = subscribers
        self._in_rack: dict[str, int] = {}
        self._nowhere = 0
        for member, rack in enumerate(racks):
            if rack is None:
                self._nowhere |= 1 << member
            else:
                self._in_rack[rack] = self._in_rack.get(rack, 0) | 1 << member
        self._known: dict[frozenset[str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._in_rack)

    def members(self, topic: str, partition: int) -> int:
        """Return the subscribers in a rack of the partition's replicas; 0 if the racks are not known."""
        if not self._in_rack or topic not in self._replica_racks:
            return 0
        racks = self._replica_racks[topic][partition]
        near = self._known.get(racks)
        if near is None:
            near = 0
            for rack in racks:
                near |= self._in_rack.get(rack, 0)
            self._known[racks] = near
        return near & self._subscribers[topic]

    def is_off_rack(self, topic: str, partition: int, member: int) -> bool:
        """Return whether a member is in none of the replicas' racks, though another subscriber is."""
        near = self.members(topic, partition)
        return near != 0 and not (near | self._nowhere) >> member & 1

    def may_get(self, member: int, item: Item) -> bool:
        """Return whether a member reads the topic, and is in a rack of the partition's replicas if somebody is."""
        _, _, topic, partition = item
        return bool(self._subscribers[topic] >> member & 1) and not (
            self._in_rack and self.is_off_rack(topic, partition, member)
        )


_KEEP_UP_TO = (1.0, 0.9)
"""The loads, as parts of the goal, up to which members keep partitions in successive attempts."""


@dataclass(slots=True)
class WeightedPlan:
    """A balanced plan: changes against the current owners.

    Attributes:
        released: by member, the partitions that it owned and does not keep; members that keep all are left out.
        heaviest: the greatest load over capacity.
    """

    released: dict[int, set[Item]]
    added: list[set[Item]]
    loads: Sequence[float]
    heaviest: float

    def move(self, item: Item, source: int, target: int) -> None:
        """Move a partition from one member to another; `loads` and `heaviest` are not changed."""
        if item in self.added[source]:
            self.added[source].remove(item)
        else:
            self.released.setdefault(source, set()).add(item)
        if item in self.released.get(target, ()):
            self.released[target].remove(item)
        else:
            self.added[target].add(item)


class Planner:
    """Makes plans for one workload."""

    def __init__(self, work: Workload, tolerance: float, rack_moves: int) -> None:
        self._work = work
        self._rack_moves = rack_moves
        self._slack = 1.0 + tolerance
        self._least = work.least_load()
        known: dict[int, tuple[int, int]] = {}
        for members in work.subscribers.values():
            if id(members) not in known:
                known[id(members)] = (len(members).bit_length(), bitset(members))
        self._sizes = {topic: known[id(m)][0] for topic, m in work.subscribers.items()}
        self._subscribers = {topic: known[id(m)][1] for topic, m in work.subscribers.items()}
        self._near = Nearness(work.racks, work.replica_racks, self._subscribers)
        self._loads = [self._load(owned) for owned in work.ownership.owned]
        self._free = sorted(self._items(work.ownership.free))
        self._sorted: dict[int, list[Item]] = {}

    def assignments(self) -> list[dict[str, tuple[int, ...]]]:
        """Return what each member gets: topics and partitions in order.

        The plan is the one that moves least among a few that are balanced well enough. One that keeps
        everything is good enough within the tolerance of the least load possible. Otherwise longest first
        is tried on everything: whatever comes within the tolerance of the better of the two is good enough,
        and with longest first itself something always does.
        """
        plan = self._choose()
        result = []
        for member, owned in enumerate(self._work.ownership.owned):
            released, added = plan.released.get(member, ()), plan.added[member]
            if not owned or (not released and not added):
                result.append(_in_order(owned, added))
                continue
            mine = {topic: set(numbers) for topic, numbers in owned.items()}
            for _, _, topic, partition in released:
                mine[topic].discard(partition)
            for _, _, topic, partition in added:
                mine.setdefault(topic, set()).add(partition)
            result.append(_in_order(mine))
        return result

    def _choose(self) -> WeightedPlan:
        goal = self._least * self._slack
        keeping = self._keep(inf, goal)
        if keeping.heaviest <= goal:
            return keeping
        fresh = None
        if self._longest_first() > goal:
            fresh = self._keep(0.0, 0.0)
            if fresh.heaviest > goal and not self._improve(fresh, goal):
                goal = fresh.heaviest * self._slack
                if keeping.heaviest <= goal:
                    return keeping
        attempts = (self._keep(goal * part, goal) for part in _KEEP_UP_TO)
        for plan in chain((keeping,), attempts):
            if plan.heaviest <= goal or self._improve(plan, goal):
                return plan
        return fresh or self._keep(0.0, 0.0)

    def _longest_first(self) -> float:
        """Return the greatest load if every partition is placed from scratch, longest first.

        Only the load is computed, not the plan. Infinite if members differ in what they may get.
        """
        alike = self._work.alike
        if alike is None or self._near:
            return inf
        capacities = self._work.capacities
        anyone = LeastLoaded([0.0] * len(capacities), capacities, alike)
        for weight in sorted(chain.from_iterable(self._work.weights.values()), reverse=True):
            anyone.add(weight)
        return heaviest_load(anyone.loads, capacities)

    def _improve(self, plan: WeightedPlan, goal: float) -> bool:
        """Improve a plan by local search; return whether it reaches the goal."""

        def items(member: int) -> set[Item]:
            owned = set(self._items(self._work.ownership.owned[member]))
            return owned - plan.released.get(member, set()) | plan.added[member]

        search = LocalSearch(plan.loads, self._work.capacities, goal, items, self._near.may_get)
        if not search.run():
            return False
        for item, source, target in search.moves:
            plan.move(item, source, target)
        return True

    def _keep(self, limit: float, goal: float) -> WeightedPlan:
        """Plan with members that keep partitions up to a load; place the others."""
        released: dict[int, set[Item]] = {}
        loads = list(self._loads)
        for member, capacity in enumerate(self._work.capacities):
            if loads[member] > limit * capacity:
                released[member] = set(self._released(member, loads[member] - limit * capacity))
        owners = self._release_off_rack(released) if goal and self._rack_moves else {}
        for member, items in released.items():
            # the exact sum, so that no order makes a difference
            loads[member] = fsum([self._loads[member], *(weight for _, weight, _, _ in items)])
        pool = sorted(chain(self._free, *released.values()))
        added, final = self._place(loads, pool, owners, goal)
        heaviest = heaviest_load(final, self._work.capacities)
        return WeightedPlan(released, [set(items) for items in added], final, heaviest)

    def _released(self, member: int, excess: float) -> Iterator[Item]:
        """Yield the fewest partitions that make up for an excess, the last one as light as possible."""
        items = self._sorted.get(member)
        if items is None:
            owned = self._work.ownership.owned[member]
            items = self._sorted[member] = sorted(
                self._items(owned), key=lambda item: (item[1], item[2:])
            )
        if excess >= self._loads[member]:
            yield from items
            return
        for item, following in zip(items, [*items[1:], None], strict=True):
            # the heaviest first; as long as the next one would do, too, it is the better choice
            if following is None or -following[1] < excess:
                yield item
                excess += item[1]
                if excess <= 0:
                    return

    def _release_off_rack(self, released: dict[int, set[Item]]) -> dict[Item, int]:
        """Release partitions whose owners are off rack though others are near; return the owners."""
        gone = {item for items in released.values() for item in items}
        found = sorted(
            (item[1:], item, member)
            for member, owned in enumerate(self._work.ownership.owned)
            for item in self._items(owned)
            if item not in gone and self._near.is_off_rack(item[2], item[3], member)
        )
        owners = {}
        for _, item, member in found[: self._rack_moves]:
            released.setdefault(member, set()).add(item)
            owners[item] = member
        return owners

    def _place(
        self, loads: Sequence[float], pool: Iterable[Item], owners: Mapping[Item, int], goal: float
    ) -> tuple[list[list[Item]], Sequence[float]]:
        capacities = self._work.capacities
        added: list[list[Item]] = [[] for _ in capacities]
        alike = self._work.alike
        if alike is not None and not self._near:
            anyone = LeastLoaded(loads, capacities, alike)
            for item in pool:
                added[anyone.add(-item[1])].append(item)
            return added, anyone.loads
        some = LeastLoadedAmong(loads, capacities, self._least)
        for item in pool:
            _, below_zero, topic, partition = item
            weight = -below_zero
            near = self._near.members(topic, partition) if goal else 0
            owner = owners.get(item)
            if near and some.load_with(near, weight) <= goal:
                member = some.add(near, weight)
            elif owner is not None:
                member = owner
                some.give(owner, weight)
            else:
                member = some.add(self._subscribers[topic], weight)
            added[member].append(item)
        return added, some.loads

    def _load(self, owned: Partitions) -> float:
        weights = self._work.weights
        return fsum(
            chain.from_iterable(
                map(weights[topic].__getitem__, numbers) for topic, numbers in owned.items()
            )
        )

    def _items(self, partitions: Partitions) -> Iterator[Item]:
        for topic, numbers in partitions.items():
            of_topic, size = self._work.weights[topic], self._sizes[topic]
            for partition in numbers:
                yield size, -of_topic[partition], topic, partition


def _in_order(
    owned: Mapping[str, Collection[int]], added: Iterable[Item] = ()
) -> dict[str, tuple[int, ...]]:
    """Return partitions in order; no topic is in both arguments."""
    mine: dict[str, list[int]] = {}
    for _, _, topic, partition in added:
        mine.setdefault(topic, []).append(partition)
    return {
        topic: tuple(sorted(numbers))
        for topic, numbers in sorted({**owned, **mine}.items())
        if numbers
    }
