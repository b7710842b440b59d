"""Find the cheapest of all balanced assignments of a block, as `cheapest` does, along lists of readers.

A cheapest flow by shortest paths with potentials. Nodes are members, rows, and a made-up row of which each
member without `level` partitions has one (see `Transport`). One more of a row costs `move` where the member
then has more than it owns, and `off_rack` where it is far; one less brings the same back. The slack of a step
is its cost, plus the potential where it starts, less the one where it ends; it is never negative.

Where racks do not matter the search starts from what members had before anything owned was moved: that is
the cheapest for the loads it has, as everything owned is with its owner, and mostly little is missing.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from assignors.sticky.blocks import Block
from assignors.sticky.links import Holdings, Links
from assignors.sticky.transport import Prices


_SPARE_ROW = -1
"""The node of the made-up row; members are from 0, and row n is node -2 - n."""

_ANY = 1 << 62


def _node(row: int) -> int:
    return -2 - row


_row = _node  # its own inverse


class LinkFlow:
    """Moves what has no place in a block to where there is room, as cheaply as can be.

    Args:
        links: who may have what.
        holdings: of all members; of those of the block, `extra` and `lost` are made anew.
        block: the block.
        sizes: of the rows that lie in the block.
        prices: what a partition costs.
        before: by member: what to start from, above what it owns; without, everything that is not with its
            owner, or far from it, is to be placed.
    """

    __slots__ = (
        "_excess",
        "_holdings",
        "_inside",
        "_links",
        "_potential",
        "_prices",
        "_shares",
        "_source",
        "_supply",
        "_with_spare",
        "_without_spare",
    )

    def __init__(
        self,
        links: Links,
        holdings: Holdings,
        block: Block,
        sizes: Mapping[int, int],
        prices: Prices,
        before: Sequence[Mapping[int, int]] | None,
    ) -> None:
        self._links = links
        self._holdings = holdings
        self._prices = prices
        self._inside = set(block.members)
        self._supply = dict(sizes)
        loads = {
            member: self._begin(member, before[member] if before else {})
            for member in block.members
        }
        self._supply = {row: left for row, left in self._supply.items() if left}
        # One share of a row for each way, so that a topic is spread.
        self._shares = {
            row: -(-left // len(links.readers[row])) for row, left in self._supply.items()
        }
        # Whoever has most is first to have one more.
        order = sorted(block.members, key=lambda member: (-loads[member], member))
        self._without_spare = dict.fromkeys(order[: block.longer])
        self._with_spare = set(order[block.longer :])
        self._excess = {
            member: load + (member in self._with_spare) - block.level
            for member, load in loads.items()
        }
        # With something above what is owned, giving it away brings `move` back: then rows begin lower.
        lower = -prices.move if before else 0
        self._potential: dict[int, int] = {_node(row): lower for row in sizes} if lower else {}
        self._source = 0

    def run(self) -> None:
        """Place everything.

        Raises:
            RuntimeError: there is no room for something; the block is none.
        """
        while self._supply or any(excess > 0 for excess in self._excess.values()):
            self._raise(self._search())
            self._augment()

    def _begin(self, member: int, before: Mapping[int, int]) -> int:
        """Put a member to its start; returns its load."""
        holdings, supply = self._holdings, self._supply
        extra = {row: count for row, count in before.items() if row in supply}
        lost: dict[int, int] = {}
        load = sum(extra.values())
        for row, count in extra.items():
            supply[row] -= count
        for row, count in holdings.owned(member).items():
            if row in supply and member not in self._links.far[row]:
                supply[row] -= count
                load += count
            else:
                lost[row] = count
        holdings.extra[member], holdings.lost[member] = extra, lost
        return load

    # ---- steps ---------------------------------------------------------------------------------------

    def _ends(self, node: int, among: set[int]) -> Iterator[tuple[int, int]]:
        """Yield the steps from a node to rows or some members: where they end, and the slack of each."""
        known = self._potential
        here = known.get(node, 0)
        if node >= 0:
            for row, cost in self._downs(node):
                yield _node(row), here + cost - known.get(_node(row), 0)
            if node in self._with_spare:
                yield _SPARE_ROW, here - known.get(_SPARE_ROW, 0)
        elif node == _SPARE_ROW:
            for member in list(self._without_spare):
                if member in among:
                    yield member, here - known.get(member, 0)
        else:
            row = _row(node)
            far, lost = self._links.far[row], self._holdings.lost
            move, off_rack = self._prices.move, self._prices.off_rack
            for member in among.intersection(self._links.readers[row]):
                cost = 0 if row in lost[member] else move
                if member in far:
                    cost += off_rack
                yield member, here + cost - known.get(member, 0)

    def _downs(self, member: int) -> Iterator[tuple[int, int]]:
        """Yield the rows that a member has, and what giving one away costs."""
        holdings, far = self._holdings, self._links.far
        extra = holdings.extra[member]
        for row in holdings.held(member):
            back = self._prices.move if row in extra else 0
            if member in far[row]:
                back += self._prices.off_rack
            yield row, -back

    def _limit(self, start: int, end: int) -> int:
        """Return how many can take a step at its present price."""
        if _SPARE_ROW in (start, end):
            return 1
        holdings = self._holdings
        if start >= 0:
            row = _row(end)
            return holdings.extra[start].get(row) or holdings.left(start, row)
        return holdings.lost[end].get(_row(start), _ANY)

    def _take_step(self, start: int, end: int, amount: int) -> None:
        if start == _SPARE_ROW:
            del self._without_spare[end]
            self._with_spare.add(end)
        elif end == _SPARE_ROW:
            self._with_spare.discard(start)
            self._without_spare[start] = None
        elif start >= 0:
            self._holdings.take(start, _row(end), amount)
        else:
            self._holdings.add(end, _row(start), amount)

    # ---- search --------------------------------------------------------------------------------------

    def _sources(self) -> list[int]:
        over = [member for member, excess in self._excess.items() if excess > 0]
        return [*over, *map(_node, self._supply)]

    def _search(self) -> dict[int, int]:
        """Find what the nearest member with room is nearer than; returns by how much potentials change.

        The change is how far a node is, by slack, less how far that member is.
        """
        excess, known = self._excess, self._potential
        distances: dict[int, int] = {}
        least: dict[int, int] = {
            node: self._source - known.get(node, 0) for node in self._sources()
        }
        # Of nodes that are equally far members come first, so that one with room ends the search.
        heap = [(distance, -node) for node, distance in least.items()]
        heapify(heap)
        unseen = set(self._inside)
        while heap:
            distance, negative = heappop(heap)
            node = -negative
            if node in distances:
                continue
            if node >= 0 and excess[node] < 0:
                self._source -= distance
                return {each: at - distance for each, at in distances.items() if at < distance}
            distances[node] = distance
            unseen.discard(node)
            for end, slack in self._ends(node, unseen):
                further = distance + slack
                if further < least.get(end, _ANY):
                    least[end] = further
                    heappush(heap, (further, -end))
        raise RuntimeError("no room for all partitions of a block")

    def _raise(self, changes: Mapping[int, int]) -> None:
        known = self._potential
        for node, change in changes.items():
            known[node] = known.get(node, 0) + change

    def _augment(self) -> None:
        """Move along steps without slack until no member with room is reached any more."""
        ways: dict[int, Iterator[int]] = {}
        dead: set[int] = set()
        on_path: set[int] = set()
        for source in self._sources():
            if self._potential.get(source, 0) != self._source:
                continue
            while source not in dead and self._left(source) > 0:
                on_path.clear()
                self._follow(source, ways, dead, on_path)

    def _left(self, source: int) -> int:
        return self._excess[source] if source >= 0 else self._supply.get(_row(source), 0)

    def _follow(
        self, source: int, ways: dict[int, Iterator[int]], dead: set[int], on_path: set[int]
    ) -> None:
        """Move along one path from a source, or find that there is none: then it is dead."""
        path = [source]
        on_path.add(source)
        while path:
            node = path[-1]
            if node >= 0 and self._excess[node] < 0:
                self._move(path)
                return
            if node not in ways:
                ways[node] = self._free(node, dead, on_path)
            following = next(ways[node], None)
            if following is None:
                dead.add(node)
                on_path.discard(path.pop())
            else:
                path.append(following)
                on_path.add(following)

    def _free(self, node: int, dead: set[int], on_path: set[int]) -> Iterator[int]:
        """Yield the ends of steps without slack, each again for as long as it is of use."""
        for end, slack in self._ends(node, self._inside):
            if slack:
                continue
            while end not in dead and end not in on_path and self._is_free(node, end):
                yield end

    def _is_free(self, start: int, end: int) -> bool:
        """Return whether a step is still there, and without slack."""
        cost = self._cost(start, end)
        known = self._potential
        return cost is not None and known.get(start, 0) + cost == known.get(end, 0)

    def _cost(self, start: int, end: int) -> int | None:
        """Return what a step costs at present; None where it cannot be taken."""
        if start == _SPARE_ROW:
            return 0 if end in self._without_spare else None
        if end == _SPARE_ROW:
            return 0 if start in self._with_spare else None
        holdings, far, prices = self._holdings, self._links.far, self._prices
        if start >= 0:
            row = _row(end)
            if holdings.left(start, row) <= 0:
                return None
            back = prices.move if row in holdings.extra[start] else 0
            return -back - (prices.off_rack if start in far[row] else 0)
        row = _row(start)
        cost = 0 if row in holdings.lost[end] else prices.move
        return cost + (prices.off_rack if end in far[row] else 0)

    def _move(self, path: Sequence[int]) -> None:
        source, sink = path[0], path[-1]
        amount = min(self._left(source), -self._excess[sink])
        if source < 0:
            amount = min(amount, self._shares[_row(source)])
        amount = min([amount, *map(self._limit, path, path[1:])])
        for start, end in pairwise(path):
            self._take_step(start, end, amount)
        self._excess[sink] += amount
        if source >= 0:
            self._excess[source] -= amount
        else:
            row = _row(source)
            self._supply[row] -= amount
            if not self._supply[row]:
                del self._supply[row]
