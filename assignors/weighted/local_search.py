"""Reduce loads that exceed a goal by local search: moves and swaps of single partitions."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush


_CANDIDATES = 8
"""The number of least loaded members tried in each step."""

_SWAPS = 64
"""The number of a member's partitions tried for a swap with another member."""

_STEPS_PER_MEMBER = 4

_LEAST_GAIN = 1 / 16
"""The part of an excess that a swap which does not make up for all of it has to take off."""

Item = tuple[int, float, str, int]
"""A partition as it is sorted: bit length of the number of members that may get it, negated weight, topic, partition.

Partitions with fewer possible members come first, then the heavier ones.
"""

_Weighed = tuple[float, Item]


class LocalSearch:
    """Moves partitions until no member's load exceeds the goal.

    The work is bounded: a few steps for each member, and a few members tried in each step.

    Args:
        swaps_only: whether members keep the number of their partitions.
    """

    def __init__(
        self,
        loads: Sequence[float],
        capacities: Sequence[float],
        goal: float,
        items: Callable[[int], Iterable[Item]],
        may_get: Callable[[int, Item], bool],
        *,
        swaps_only: bool = False,
    ) -> None:
        self._swaps_only = swaps_only
        self._loads = list(loads)
        self._capacities = capacities
        self._limits = [goal * capacity for capacity in capacities]
        self._items = items
        self._may_get = may_get
        self._sorted: dict[int, list[_Weighed]] = {}
        self.moves: list[tuple[Item, int, int]] = []
        """The moves, in order: partition, source, target."""

    def run(self) -> bool:
        """Search; return whether the goal is reached."""
        members = range(len(self._loads))
        # nobody comes to be over the goal in here, so those that are now are all there is to do
        over = sorted((m for m in members if self._excess(m) > 0), key=self._rank, reverse=True)
        light = [(self._rank(member), member) for member in members]
        heapify(light)
        steps = _STEPS_PER_MEMBER * len(members)
        for worst in over:
            while self._excess(worst) > 0:
                steps -= 1
                if steps < 0 or not self._relieve_by_one_of(light, worst):
                    return False
        return True

    def _relieve_by_one_of(self, light: list[tuple[float, int]], worst: int) -> bool:
        """Try the least loaded members, and update their entries in the heap."""
        tried = [heappop(light)[1] for _ in range(min(_CANDIDATES, len(light)))]
        found = any(self._relieve(worst, other) for other in tried if other != worst)
        for member in tried:
            heappush(light, (self._rank(member), member))
        return found

    def _rank(self, member: int) -> float:
        return self._excess(member) / self._capacities[member]

    def _excess(self, member: int) -> float:
        return self._loads[member] - self._limits[member]

    def _relieve(self, worst: int, other: int) -> bool:
        """Take one step between two members, if one keeps the other within its limit."""
        excess, room = self._excess(worst), -self._excess(other)
        if room <= 0:
            return False
        if self._swaps_only:
            return self._swap(worst, other, excess, room) or self._swap_some(
                worst, other, excess, room
            )
        mine = self._of(worst)
        # what alone makes up for the excess, the lightest first; or else a swap; or else the most that fits
        at = bisect_left(mine, (excess,))
        for weighed in mine[at : at + _CANDIDATES]:
            if weighed[0] > room:
                break
            if self._may_get(other, weighed[1]):
                self._move(weighed, worst, other)
                return True
        if self._swap(worst, other, excess, room):
            return True
        for weighed in reversed(mine[: bisect_left(mine, (room,))][-_CANDIDATES:]):
            if self._may_get(other, weighed[1]):
                self._move(weighed, worst, other)
                return True
        return False

    def _swap(self, worst: int, other: int, excess: float, room: float) -> bool:
        mine, theirs = self._of(worst), self._of(other)
        for weighed in mine[bisect_left(mine, (excess,)) :][:_SWAPS]:
            # what comes back must leave the one without excess, and the other within its room
            at = bisect_left(theirs, (weighed[0] - room,))
            if at == len(theirs) or theirs[at][0] > weighed[0] - excess:
                continue
            back = theirs[at]
            if self._may_get(other, weighed[1]) and self._may_get(worst, back[1]):
                self._move(weighed, worst, other)
                self._move(back, other, worst)
                return True
        return False

    def _swap_some(self, worst: int, other: int, excess: float, room: float) -> bool:
        """Swap for less than the excess: the heaviest partition for the lightest that fits."""
        mine, theirs = self._of(worst), self._of(other)
        for weighed in reversed(mine[: bisect_left(mine, (excess + room,))][-_SWAPS:]):
            if not self._may_get(other, weighed[1]):
                continue
            at = bisect_left(theirs, (weighed[0] - room,))
            for back in theirs[at : at + _CANDIDATES]:
                if weighed[0] - back[0] < excess * _LEAST_GAIN:
                    break
                if self._may_get(worst, back[1]):
                    self._move(weighed, worst, other)
                    self._move(back, other, worst)
                    return True
        return False

    def _of(self, member: int) -> list[_Weighed]:
        if member not in self._sorted:
            self._sorted[member] = sorted((-item[1], item) for item in self._items(member))
        return self._sorted[member]

    def _move(self, weighed: _Weighed, source: int, target: int) -> None:
        mine = self._of(source)
        del mine[bisect_left(mine, weighed)]
        insort(self._of(target), weighed)
        self._loads[source] -= weighed[0]
        self._loads[target] += weighed[0]
        self.moves.append((weighed[1], source, target))
