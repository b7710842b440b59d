"""Find the member that would have the least load over capacity with one more partition."""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import log2

from assignors.sticky.bitsets import lowest


_LEVELS = 1024
"""The number of levels between no load and the limit, where members differ in what they may get."""

_LINEAR = 2 * _LEVELS


class LeastLoaded:
    """The search among members that may all get every partition: exact, in logarithmic time.

    There is a heap for each capacity: among equal capacities the least loaded member is best for any weight.
    """

    def __init__(
        self, loads: Sequence[float], capacities: Sequence[float], members: Sequence[int]
    ) -> None:
        self.loads = list(loads)
        by_capacity: dict[float, list[tuple[float, int]]] = {}
        for member in members:
            by_capacity.setdefault(capacities[member], []).append((loads[member], member))
        for heap in by_capacity.values():
            heapify(heap)
        self._heaps = sorted(by_capacity.items(), reverse=True)

    def add(self, weight: float) -> int:
        """Add a weight to the member that is least loaded with it, and return that member."""
        heap = self._heaps[0][1]
        if len(self._heaps) > 1:
            _, heap = min(
                self._heaps, key=lambda each: ((each[1][0][0] + weight) / each[0], each[1][0][1])
            )
        load, member = heap[0]
        self.loads[member] = load = load + weight
        heapreplace(heap, (load, member))
        return member


class LeastLoadedAmong:
    """The search among members that differ in what they may get: exact to a level of load, on bitsets."""

    def __init__(self, loads: Sequence[float], capacities: Sequence[float], limit: float) -> None:
        self.loads = list(loads)
        self._capacities = capacities
        self._width = limit / _LEVELS or 1.0
        classes: dict[float, int] = {}
        for member, capacity in enumerate(capacities):
            classes[capacity] = classes.get(capacity, 0) | 1 << member
        self._classes = sorted(classes.items(), reverse=True)
        self._level = [self._level_of(member) for member in range(len(capacities))]
        self._at: dict[int, int] = {}
        for member, level in enumerate(self._level):
            self._at[level] = self._at.get(level, 0) | 1 << member
        self._least_level = min(self._at, default=0)
        # where the search for some members ended last: as loads only grow, nobody of them is below
        self._lowest: dict[int, int] = {}

    def add(self, members: int, weight: float) -> int:
        """Add a weight to the least loaded of some members, and return that member."""
        best = -1
        least = 0.0
        for capacity, alike in self._classes:
            if alike & members:
                member = self._least_loaded(alike & members)
                load = (self.loads[member] + weight) / capacity
                if best < 0 or load < least:
                    best, least = member, load
        self._raise(best, weight)
        return best

    def give(self, member: int, weight: float) -> None:
        self._raise(member, weight)

    def load_with(self, members: int, weight: float) -> float:
        """Return the load over capacity that `add` would lead to."""
        return min(
            (self.loads[self._least_loaded(alike & members)] + weight) / capacity
            for capacity, alike in self._classes
            if alike & members
        )

    def _least_loaded(self, members: int) -> int:
        at = self._at
        level = self._lowest.get(members, self._least_level)
        while True:
            here = at.get(level, 0) & members
            if here:
                self._lowest[members] = level
                return lowest(here)
            level += 1

    def _level_of(self, member: int) -> int:
        level = self.loads[member] / self._capacities[member] / self._width
        # far over the limit the levels are parts of the load itself, so that there are not too many
        return int(level if level < _LINEAR else _LINEAR + _LEVELS * log2(level / _LINEAR))

    def _raise(self, member: int, weight: float) -> None:
        self.loads[member] += weight
        level = self._level_of(member)
        if level != self._level[member]:
            bit = 1 << member
            self._at[self._level[member]] ^= bit
            self._at[level] = self._at.get(level, 0) | bit
            self._level[member] = level


def heaviest_load(loads: Sequence[float], capacities: Sequence[float]) -> float:
    return max(map(float.__truediv__, map(float, loads), map(float, capacities)), default=0.0)
