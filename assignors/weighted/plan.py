"""Share out by weight: keep what can stay, place the rest longest first."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import fsum, inf

from assignors.sticky.bitsets import bitset
from assignors.weighted.lightest import AnyMember, SomeMembers, heaviest_load
from assignors.weighted.refine import Item, Refiner
from assignors.weighted.workload import Workload
from groupsdk.assignment import Partitions


class Nearness:
    """Members as bitsets, by rack. False where racks do not matter.

    Args:
        racks: by member; empty where racks do not matter.
        replica_racks: topic to the racks of each partition's replicas, where they are known.
        subscribers: topic to members.
    """

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
        """Return the subscribers in a rack of the partition's replicas; nobody where these are not known."""
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
        """Return whether a member is in another rack, where others are in the right one."""
        near = self.members(topic, partition)
        return near != 0 and not (near | self._nowhere) >> member & 1


_KEEP_UP_TO = (1.0, 0.9)
"""Of the goal, how much members keep in the attempts that follow on each other."""


@dataclass(slots=True)
class WeightedPlan:
    """One way to share out.

    Attributes:
        shed: by member: what it owned and does not keep. Members that keep everything are not in here.
        added: by member: what it gets.
        loads: by member.
        heaviest: the greatest load over capacity.
    """

    shed: dict[int, set[Item]]
    added: list[set[Item]]
    loads: Sequence[float]
    heaviest: float

    def move(self, item: Item, source: int, target: int) -> None:
        """Let a partition change hands."""
        if item in self.added[source]:
            self.added[source].remove(item)
        else:
            self.shed.setdefault(source, set()).add(item)
        if item in self.shed.get(target, ()):
            self.shed[target].remove(item)
        else:
            self.added[target].add(item)


class Planner:
    """Makes plans for one workload.

    Args:
        work: what is to be shared out.
        tolerance: by how much the most loaded member may be over what is asked of a plan, as a part.
        rack_moves: how many partitions may leave an owner only for a member in a rack of theirs.
    """

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

    def hands(self) -> list[dict[str, tuple[int, ...]]]:
        """Share out, and return what each member gets: topics and partitions in order.

        The plan is the one that moves least among a few that are balanced well enough. One that keeps
        everything is good enough within the tolerance of the least load possible. Otherwise longest first
        is tried on everything: whatever comes within the tolerance of the better of the two is good enough,
        and with longest first itself something always does.
        """
        plan = self._choose()
        hands = []
        for member, owned in enumerate(self._work.ownership.owned):
            shed, added = plan.shed.get(member, ()), plan.added[member]
            if not owned or (not shed and not added):
                hands.append(_hand(owned, added))
                continue
            hand = {topic: set(numbers) for topic, numbers in owned.items()}
            for _, _, topic, partition in shed:
                hand[topic].discard(partition)
            for _, _, topic, partition in added:
                hand.setdefault(topic, set()).add(partition)
            hands.append(_hand(hand))
        return hands

    def _choose(self) -> WeightedPlan:
        goal = self._least * self._slack
        keeping = self._keep(inf, goal)
        if keeping.heaviest <= goal:
            return keeping
        fresh = None
        if self._longest_first() > goal:
            fresh = self._keep(0.0, 0.0)
            if fresh.heaviest > goal and not self._refine(fresh, goal):
                goal = fresh.heaviest * self._slack
                if keeping.heaviest <= goal:
                    return keeping
        attempts = (self._keep(goal * part, goal) for part in _KEEP_UP_TO)
        for plan in chain((keeping,), attempts):
            if plan.heaviest <= goal or self._refine(plan, goal):
                return plan
        return fresh or self._keep(0.0, 0.0)

    def _longest_first(self) -> float:
        """Return how loaded the most loaded member is where all is placed longest first.

        Without telling where that places what; infinite where that cannot be left out.
        """
        alike = self._work.alike
        if alike is None or self._near:
            return inf
        capacities = self._work.capacities
        anyone = AnyMember([0.0] * len(capacities), capacities, alike)
        for weight in sorted(chain.from_iterable(self._work.weights.values()), reverse=True):
            anyone.add(weight)
        return heaviest_load(anyone.loads, capacities)

    def _refine(self, plan: WeightedPlan, goal: float) -> bool:
        """Change a plan by single moves; returns whether it reaches the goal."""
        near = self._near

        def items(member: int) -> set[Item]:
            owned = set(self._items(self._work.ownership.owned[member]))
            return owned - plan.shed.get(member, set()) | plan.added[member]

        def may_get(member: int, item: Item) -> bool:
            _, _, topic, partition = item
            return bool(self._subscribers[topic] >> member & 1) and not (
                near and near.is_off_rack(topic, partition, member)
            )

        refiner = Refiner(plan.loads, self._work.capacities, goal, items, may_get)
        if not refiner.run():
            return False
        for item, source, target in refiner.moves:
            plan.move(item, source, target)
        return True

    def _keep(self, limit: float, goal: float) -> WeightedPlan:
        """Let members keep what they have up to a load, and place the rest.

        Args:
            limit: up to which load over capacity; 0 for nothing.
            goal: up to which load a partition may be placed for its rack; 0 for racks not to matter.
        """
        shed: dict[int, set[Item]] = {}
        loads = list(self._loads)
        for member, capacity in enumerate(self._work.capacities):
            if loads[member] > limit * capacity:
                shed[member] = set(self._shed(member, loads[member] - limit * capacity))
        owners = self._release(shed) if goal and self._rack_moves else {}
        for member, items in shed.items():
            # the exact sum, so that no order makes a difference
            loads[member] = fsum([self._loads[member], *(weight for _, weight, _, _ in items)])
        pool = sorted(chain(self._free, *shed.values()))
        added, final = self._place(loads, pool, owners, goal)
        heaviest = heaviest_load(final, self._work.capacities)
        return WeightedPlan(shed, [set(items) for items in added], final, heaviest)

    def _shed(self, member: int, excess: float) -> Iterator[Item]:
        """Yield the fewest partitions that make up for an excess, and of the last the lightest that does."""
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

    def _release(self, shed: dict[int, set[Item]]) -> dict[Item, int]:
        """Take partitions that are off rack, and need not be, from their owners; returns these."""
        gone = {item for items in shed.values() for item in items}
        found = sorted(
            (item[1:], item, member)
            for member, owned in enumerate(self._work.ownership.owned)
            for item in self._items(owned)
            if item not in gone and self._near.is_off_rack(item[2], item[3], member)
        )
        owners = {}
        for _, item, member in found[: self._rack_moves]:
            shed.setdefault(member, set()).add(item)
            owners[item] = member
        return owners

    def _place(
        self, loads: Sequence[float], pool: Iterable[Item], owners: Mapping[Item, int], goal: float
    ) -> tuple[list[list[Item]], Sequence[float]]:
        capacities = self._work.capacities
        added: list[list[Item]] = [[] for _ in capacities]
        alike = self._work.alike
        if alike is not None and not self._near:
            anyone = AnyMember(loads, capacities, alike)
            for item in pool:
                added[anyone.add(-item[1])].append(item)
            return added, anyone.loads
        some = SomeMembers(loads, capacities, self._least)
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


def _hand(
    owned: Mapping[str, Collection[int]], added: Iterable[Item] = ()
) -> dict[str, tuple[int, ...]]:
    """Put partitions in order; of the topics in `added` nothing is owned."""
    hand: dict[str, list[int]] = {}
    for _, _, topic, partition in added:
        hand.setdefault(topic, []).append(partition)
    return {
        topic: tuple(sorted(numbers))
        for topic, numbers in sorted({**owned, **hand}.items())
        if numbers
    }
