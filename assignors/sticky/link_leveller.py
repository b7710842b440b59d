"""Level loads as `levelling` does, along lists of readers: a maximum flow in time that subscriptions decide."""

from collections.abc import Iterable, Iterator, Sequence

from assignors.sticky.bits import bitset
from assignors.sticky.links import Holdings, Links


_SHORTEST_FIRST = 8
_DEEP_SEARCHES = 16


class LinkLeveller:
    """Moves partitions from members that have too many, through others, to members that have few.

    Attributes:
        loads: by member: how many partitions it has.
        before: what members had above what they own before anything owned was moved; None where nothing was.

    Args:
        links: who may have what.
        holdings: changed.
    """

    __slots__ = ("_holdings", "_inside", "_links", "_reserved", "_top", "before", "loads")

    def __init__(self, links: Links, holdings: Holdings) -> None:
        self._links = links
        self._holdings = holdings
        self.loads = holdings.loads
        self.before: list[dict[int, int]] | None = None
        self._inside: set[int] = set()
        self._reserved = True
        self._top = 0

    def level(self, members: Sequence[int], top: int) -> int:
        """Move what some members have above `top` to members that have less, as much as can be.

        Returns:
            As `Leveller.level`: the set of members that what is still above `top` could be moved to.
        """
        loads = self.loads
        over = [member for member in members if loads[member] > top]
        if not over:
            return 0
        self._inside, self._top = set(members), top
        if any(loads[member] < top for member in members):
            # First only what its holder does not own: moving that costs nobody anything.
            self._reserved = True
            self._flow(over)
            if not over:
                return 0
        self._reserved = False
        if self.before is None:
            self.before = list(map(dict, self._holdings.extra))
        return bitset(self._flow(over))

    def _flow(self, over: list[int]) -> Iterable[int]:
        """Augment until nothing can be moved; returns the members reached from those that are still over."""
        searches = 0
        while over:
            # As in `Leveller`: shortest paths first, then deep searches for long chains, then shortest again.
            if _SHORTEST_FIRST <= searches < _SHORTEST_FIRST + _DEEP_SEARCHES:
                self._search_deep(over)
            else:
                rows, depths, last = self._layers(over)
                if not last:
                    return depths
                self._augment(over, rows, depths, last)
            over[:] = [member for member in over if self.loads[member] > self._top]
            searches += 1
        return ()

    def _giveable(self, member: int) -> Iterable[int]:
        holdings = self._holdings
        return holdings.extra[member] if self._reserved else holdings.held(member)

    def _spare(self, member: int, row: int) -> int:
        if self._reserved:
            return self._holdings.extra[member].get(row, 0)
        return self._holdings.left(member, row)

    def _layers(self, over: Sequence[int]) -> tuple[dict[int, int], dict[int, int], int]:
        """Search in breadth; returns rows and members with their depths, and that of members with room.

        That depth is 0 where there is none with room: then the members are all that can be reached.
        """
        readers, loads, top = self._links.readers, self.loads, self._top
        rows: dict[int, int] = {}
        depths = dict.fromkeys(over, 0)
        unseen = self._inside.difference(over)
        frontier = over
        depth = 0
        while frontier and unseen:
            found: list[int] = []
            for member in frontier:
                for row in self._giveable(member):
                    if row in rows:
                        continue
                    rows[row] = depth
                    new = unseen.intersection(readers[row])
                    if new:
                        unseen -= new
                        found += new
            depth += 1
            depths.update(dict.fromkeys(found, depth))
            if any(loads[member] < top for member in found):
                return rows, depths, depth
            frontier = found
        return rows, depths, 0

    def _augment(
        self, over: Sequence[int], rows: dict[int, int], depths: dict[int, int], last: int
    ) -> None:
        """Search in depth from each member that is over, one layer down with each step."""
        ways: dict[int, list[int]] = {}
        ends: dict[int, list[int]] = {}
        for source in over:
            path, via = [source], list[int]()
            while self.loads[source] > self._top:
                member, depth = path[-1], len(via)
                if member not in ways:
                    ways[member] = [row for row in self._giveable(member) if rows.get(row) == depth]
                row, following = self._next(member, depth, last, ways, ends, depths)
                if row < 0:
                    if not via:
                        break
                    path.pop()
                    ends[via.pop()].pop()
                    continue
                path.append(following)
                via.append(row)
                if depth + 1 == last:
                    self._move(path, via)
                    # Back to the first step that has nothing left to move.
                    self._cut(path, via)

    def _next(
        self,
        member: int,
        depth: int,
        last: int,
        ways: dict[int, list[int]],
        ends: dict[int, list[int]],
        depths: dict[int, int],
    ) -> tuple[int, int]:
        """Find a row that the member can give of, and who could take it; -1 where there is none."""
        rows = ways[member]
        while rows:
            row = rows[-1]
            if self._spare(member, row) > 0:
                if row not in ends:
                    ends[row] = [
                        each for each in self._links.readers[row] if depths.get(each) == depth + 1
                    ]
                takers = ends[row]
                while takers:
                    taker = takers[-1]
                    if depth + 1 < last or self.loads[taker] < self._top:
                        return row, taker
                    takers.pop()
            rows.pop()
        return -1, -1

    def _search_deep(self, over: Sequence[int]) -> None:
        """Search in depth without layers, each member visited once."""
        unseen = self._inside.difference(over)
        for source in over:
            path, via = [source], list[int]()
            steps = [self._steps(source, unseen)]
            while steps and self.loads[source] > self._top:
                step = next(steps[-1], None)
                if step is None:
                    steps.pop()
                    path.pop()
                    del via[-1:]
                    continue
                row, following = step
                path.append(following)
                via.append(row)
                if self.loads[following] < self._top:
                    self._move(path, via)
                    if self.loads[following] < self._top:
                        unseen.add(following)
                    self._cut(path, via)
                    del steps[len(path) :]
                else:
                    steps.append(self._steps(following, unseen))

    def _steps(self, member: int, unseen: set[int]) -> Iterator[tuple[int, int]]:
        """Yield rows that a member can give of, each with a member that has not been seen; it has then."""
        loads = self.loads
        for row in list(self._giveable(member)):
            audience = self._links.readers[row]
            while self._spare(member, row) > 0 and (new := unseen.intersection(audience)):
                following = min(new, key=lambda each: (loads[each], each))
                unseen.discard(following)
                yield row, following

    def _move(self, path: Sequence[int], via: Sequence[int]) -> None:
        source, sink = path[0], path[-1]
        amount = min(self.loads[source] - self._top, self._top - self.loads[sink])
        amount = min(amount, *map(self._spare, path, via))
        holdings = self._holdings
        for giver, taker, row in zip(path, path[1:], via, strict=False):
            holdings.take(giver, row, amount)
            holdings.add(taker, row, amount)
        self.loads[source] -= amount
        self.loads[sink] += amount

    def _cut(self, path: list[int], via: list[int]) -> None:
        """Go back to the first member of a path that has nothing left to give, or before its end."""
        for step, row in enumerate(via):
            if self._spare(path[step], row) <= 0 or step + 1 == len(via):
                del path[step + 1 :], via[step:]
                return
