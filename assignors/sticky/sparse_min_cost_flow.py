"""Find the cheapest of all balanced assignments of a block, as `min_cost_flow` does, in very large and sparse groups.

A cheapest flow by shortest paths with potentials, searched backwards, from members with room. Nodes are
members, and a made-up row of which each member without `level` partitions has one (see `Transport`). One more
of a row costs `move` where the member then has more than it owns, and `off_rack` where it is far; one less
brings the same back. A step leads from a member that gives to one that gets; its slack is what it costs, plus
the potential of the one, less that of the other; it is never negative.

Where racks do not matter the search starts from what members had before anything owned was moved: that is
the cheapest for the loads it has, as everything owned is with its owner, and mostly little is missing.
"""

from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, compress

from assignors.sticky.max_flow import Block
from assignors.sticky.min_cost_flow import Prices
from assignors.sticky.partition_rows import Counts
from assignors.sticky.sparse_holdings import NOBODY, Holdings
from assignors.sticky.sparse_partition_rows import SparsePartitionRows


_SPARE = -1
"""The node, and the row, that is made up."""

_SUPPLY = -2
"""Stands for a donor where what is given has no place yet."""

_ANY = 1 << 62
_SHORTEST = 3
"""How many members and rows are on the shortest path."""

_FEW_LEFT = 256
_MANY_TRIED = 64


class SparseMinCostFlow:
    """Moves what has no place in a block to where there is room, as cheaply as can be.

    Args:
        rows: who may have what.
        holdings: of all members; of those of the block, `extra` and `lost` are rebuilt.
        block: the block.
        inside: the rows that lie in the block; None if that is all rows.
        prices: what a partition costs.
        before: by member: what to start from, above what it owns; without, everything that is not with its
            owner, or far from it, is to be placed.
    """

    __slots__ = (
        "_bound",
        "_done",
        "_excess",
        "_have_racks",
        "_holdings",
        "_left",
        "_near",
        "_near_rows",
        "_over",
        "_potential",
        "_prices",
        "_rows",
        "_seen",
        "_share",
        "_sink_potential",
        "_supply",
        "_supply_price",
        "_with_spare",
        "_without_spare",
    )

    def __init__(
        self,
        rows: SparsePartitionRows,
        holdings: Holdings,
        block: Block,
        inside: Collection[int] | None,
        prices: Prices,
        before: Sequence[Counts] | None,
    ) -> None:
        self._rows = rows
        self._holdings = holdings
        self._prices = prices
        self._have_racks = rows.have_racks
        sizes = rows.rows.sizes
        everything = range(len(sizes)) if inside is None else sorted(inside)
        supply = {row: sizes[row] for row in everything}
        loads = self._begin(block.members, before, supply)
        self._supply = {row: left for row, left in supply.items() if left}
        # At most a share of a row for each way, so that a topic is spread.
        self._share = {
            row: max(1, left // len(block.members)) for row, left in self._supply.items()
        }
        # Whoever has most is first to have one more.
        order = sorted(block.members, key=lambda member: (-loads[member], member))
        self._without_spare = dict.fromkeys(order[: block.longer])
        self._with_spare = dict.fromkeys(order[block.longer :])
        self._excess = {
            member: load + (member in self._with_spare) - block.level
            for member, load in loads.items()
        }
        # By member: whether it has more than it has room for; nobody comes last.
        self._over = bytearray(len(holdings.loads) + 1)
        for member, excess in self._excess.items():
            self._over[member] = excess > 0
        self._potential = dict.fromkeys([*block.members, _SPARE], 0)
        self._sink_potential = 0
        # Of the present search.
        self._left = sum(excess for excess in self._excess.values() if excess > 0)
        # Who reads what those have too much of, and do not own, once there are few.
        self._near = bytearray(len(self._over))
        self._near_rows: dict[int, set[int]] = {}
        self._seen: set[int] = set()
        self._done: set[tuple[int, int]] = set()

    def run(self) -> None:
        """Place everything.

        Raises:
            RuntimeError: there is no room for something; the block is none.
        """
        while self._is_something_left():
            self._raise()
            while self._augment():
                # What moves opens other steps, mostly enough of them.
                pass

    def _begin(
        self, members: Sequence[int], before: Sequence[Counts] | None, supply: Counts
    ) -> Counts:
        """Put members to their start, and take what they have from what is to be placed; returns loads."""
        holdings, loads = self._holdings, {}
        all_extra: list[Counts] = []
        all_lost: list[Counts] = []
        for member in members:
            extra: Counts = {}
            lost: Counts = {}
            if before:
                extra = {row: count for row, count in before[member].items() if row in supply}
            load = sum(extra.values())
            for row, count in extra.items():
                supply[row] -= count
            for row, count in holdings.owned(member).items():
                if row in supply and not (self._have_racks and self._rows.is_off_rack(row, member)):
                    supply[row] -= count
                    load += count
                else:
                    lost[row] = count
            loads[member] = load
            all_extra.append(extra)
            all_lost.append(lost)
        holdings.show_owned()
        holdings.reset(members, all_extra, all_lost)
        return loads

    # ---- search --------------------------------------------------------------------------------------

    def _raise(self) -> None:
        """Raise potentials until a path without slack leads from what has no place to a member with room.

        By how much is how far the nearest source is, by slack, less how far the node itself is.
        """
        known, excess = self._potential, self._excess
        least = {
            member: known[member] - self._sink_potential
            for member, over in excess.items()
            if over < 0
        }
        heap = [(distance, member) for member, distance in least.items()]
        heapify(heap)
        distances: dict[int, int] = {}
        # By row: what it takes to get some of it, at least.
        nearness: dict[int, int] = {}
        nearest = _ANY
        while heap and heap[0][0] < nearest:
            distance, node = heappop(heap)
            if node in distances:
                continue
            distances[node] = distance
            here = distance - known[node]
            if node != _SPARE:
                nearest = min([nearest, *self._sources(node, here)])
            for price, donor in self._steps(node, here, nearness):
                further = price + known.get(donor, _ANY)
                if further < nearest and further < least.get(donor, _ANY):
                    least[donor] = further
                    heappush(heap, (further, donor))
        if nearest == _ANY:
            raise RuntimeError("no room for all partitions of a block")
        for node, distance in distances.items():
            if distance < nearest:
                known[node] += nearest - distance
        self._sink_potential += nearest

    def _sources(self, member: int, here: int) -> Iterator[int]:
        """Yield how far what has no place is from there, by way of a member."""
        if self._excess[member] > 0:
            yield here
        if self._supply:
            for row in filter(self._supply.__contains__, self._rows.read_by(member)):
                yield here + self._price(row, member)

    def _steps(self, member: int, here: int, nearness: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Yield the steps to a node: how far it is by each but for the potential where it starts, and that.

        Args:
            member: where the steps end, or the made-up row.
            here: how far that is, less its potential.
            nearness: by row: what it takes to get some of it, at least, as far as that is known.
        """
        if member == _SPARE:
            yield from ((here, each) for each in self._with_spare)
            return
        holdings, move = self._holdings, self._prices.move
        holder, is_extra, lost = holdings.holder, holdings.is_extra, holdings.lost[member]
        if member in self._without_spare:
            yield here, _SPARE
        rows = self._rows.read_by(member)
        for row in rows:
            donor = holder[row]
            if donor != NOBODY:
                price = here if row in lost else here + move
                yield price - move if is_extra[row] else price, donor
        for row in holdings.wide(rows):
            price = here + self._price(row, member)
            if nearness.get(row, _ANY) > price:
                nearness[row] = price
                for donor in holdings.holders(row):
                    if holdings.left(donor, row) > 0:
                        yield price - self._price_back(row, donor), donor

    # ---- moving --------------------------------------------------------------------------------------

    def _augment(self) -> bool:
        """Move along steps without slack; returns whether to try again."""
        excess, known = self._excess, self._potential
        # What leads nowhere, or is on the present path.
        self._seen.clear()
        self._done.clear()
        ways: dict[int, Iterator[tuple[int, int]]] = {}
        moved = False
        for sink in [member for member, over in excess.items() if over < 0]:
            if known[sink] == self._sink_potential and sink not in self._seen:
                found, is_lost = self._fill(sink, ways, tries=_MANY_TRIED if moved else _ANY)
                moved |= found
                if is_lost:
                    break
        return moved and self._is_something_left()

    def _fill(
        self, sink: int, ways: dict[int, Iterator[tuple[int, int]]], *, tries: int
    ) -> tuple[bool, bool]:
        """Move to a member with room what can be, as much as it has room for.

        Returns:
            Whether anything was moved, and whether so many nodes led nowhere that it is sooner begun again:
            some led to what was on the way to something else then.
        """
        excess, seen = self._excess, self._seen
        seen.add(sink)
        path, via = [sink], list[int]()
        moved = False
        while path and excess[sink] < 0 and tries:
            node = path[-1]
            if node not in ways:
                ways[node] = self._free_steps(node)
            row, donor = next(ways[node], (_SPARE, _SPARE))
            if donor == _SPARE:
                path.pop()
                del via[-1:]
                tries -= 1
                continue
            via.append(row)
            if donor != _SUPPLY:
                path.append(donor)
                if excess[donor] <= 0:
                    seen.add(donor)
                    continue
            self._move(path, via)
            moved = True
            tries = _MANY_TRIED
            if len(path) + len(via) > _SHORTEST:
                # All on the way may be of use again, from the beginning.
                seen.difference_update(path[1:])
                for each in path:
                    ways.pop(each, None)
            del path[1:], via[:]
        return moved, not tries

    def _is_something_left(self) -> bool:
        return bool(self._supply) or self._left > 0

    def _free_steps(self, member: int) -> Iterator[tuple[int, int]]:
        """Yield steps without slack to a member, the row and who gives of it; first those that end a path."""
        return chain(
            self._from(self._over, member),
            self._from_supply(member),
            self._of_wide_rows(member),
            self._from_near(member),
            self._from_anybody(member),
        )

    def _from(self, donors: bytearray, member: int) -> Iterator[tuple[int, int]]:
        """Yield the steps from some members, of rows that are not wide."""
        holder, rows, seen = self._holdings.holder, self._rows.read_by(member), self._seen
        for row in compress(rows, map(donors.__getitem__, map(holder.__getitem__, rows))):
            donor = holder[row]
            if donor not in seen and self._is_free(row, donor, member):
                yield row, donor

    def _from_supply(self, member: int) -> Iterator[tuple[int, int]]:
        if self._supply:
            for row in filter(self._supply.__contains__, self._rows.read_by(member)):
                if self._price(row, member) == self._potential[member]:
                    yield row, _SUPPLY

    def _of_wide_rows(self, member: int) -> Iterator[tuple[int, int]]:
        """Yield steps of wide rows, and of the made-up one; what leads on is left to who comes first."""
        seen, done, here = self._seen, self._done, self._potential[member]
        further: list[tuple[int, int]] = []
        for row in self._holdings.wide(self._rows.read_by(member)):
            needed = here - self._price(row, member)
            if (row, needed) in done:
                continue
            done.add((row, needed))
            for donor in self._holdings.holders(row):
                if donor not in seen and self._is_free(row, donor, member):
                    if self._excess[donor] > 0:
                        yield row, donor
                    else:
                        further.append((row, donor))
        known = self._potential
        if member in self._without_spare and known[_SPARE] == here and (_SPARE, here) not in done:
            done.add((_SPARE, here))
            further += [(_SPARE, donor) for donor in self._with_spare if known[donor] == here]
        for row, donor in further:
            if donor not in seen and self._is_free(row, donor, member):
                yield row, donor

    def _from_near(self, member: int) -> Iterator[tuple[int, int]]:
        """Yield the steps from members that are a step away from one that has too much.

        The last of many partitions would take long to find by chance.
        """
        if self._left > _FEW_LEFT:
            return
        if not self._near_rows:
            self._find_near()
        holder = self._holdings.holder
        for row, donor in self._from(self._near, member):
            # Nobody gets too much, so that less and less of them are near.
            if any(self._over[holder[each]] for each in self._near_rows[donor]):
                yield row, donor
            else:
                self._near[donor] = 0

    def _find_near(self) -> None:
        """Find who reads what members have too much of, and do not own: that goes round for nothing."""
        rows: set[int] = set()
        for member in compress(range(len(self._over)), self._over):
            rows.update(self._holdings.extra[member])
        for member in self._excess:
            if found := rows.intersection(self._rows.read_by(member)):
                self._near_rows[member] = found
                self._near[member] = 1

    def _from_anybody(self, member: int) -> Iterator[tuple[int, int]]:
        known, seen, move = self._potential, self._seen, self._prices.move
        holdings, rows, here = self._holdings, self._rows.read_by(member), known[member]
        holder, is_extra, lost = holdings.holder, holdings.is_extra, holdings.lost[member]
        # What is not owned goes round for nothing, and so is found sooner than what is.
        for row in compress(rows, map(is_extra.__getitem__, rows)):
            if holder[row] not in seen and self._is_free(row, holder[row], member):
                yield row, holder[row]
        for row in rows:
            donor = holder[row]
            if donor == NOBODY or is_extra[row] or donor in seen:
                continue
            if here == known.get(donor, _ANY) + (0 if row in lost else move):
                yield row, donor

    def _price(self, row: int, member: int) -> int:
        """Return what it costs at present that a member gets one of a row."""
        price = 0 if row in self._holdings.lost[member] else self._prices.move
        if self._have_racks and self._rows.is_off_rack(row, member):
            price += self._prices.off_rack
        return price

    def _price_back(self, row: int, member: int) -> int:
        """Return what it brings back at present that a member gives one of a row."""
        price = self._prices.move if row in self._holdings.extra[member] else 0
        if self._have_racks and self._rows.is_off_rack(row, member):
            price += self._prices.off_rack
        return price

    def _is_free(self, row: int, donor: int, receiver: int) -> bool:
        """Return whether there is a step, and without slack, at present."""
        known = self._potential
        if donor not in known:
            return False
        if row == _SPARE:
            return receiver in self._without_spare and donor in self._with_spare
        return (
            known[donor] + self._price(row, receiver) - self._price_back(row, donor)
            == known[receiver]
            and self._holdings.left(donor, row) > 0
        )

    def _move(self, path: Sequence[int], via: Sequence[int]) -> None:
        """Move along a path, as much as goes: `path[i]` gets of row `via[i]` from the one after it."""
        holdings, excess = self._holdings, self._excess
        sink, source = path[0], path[-1]
        amount = -excess[sink]
        for receiver, row in zip(path, via, strict=False):
            amount = min(amount, 1 if row == _SPARE else holdings.lost[receiver].get(row, _ANY))
        for donor, row in zip(path[1:], via, strict=False):
            if row != _SPARE:
                amount = min(amount, holdings.extra[donor].get(row) or holdings.left(donor, row))
        if len(via) == len(path):
            row = via[-1]
            amount = min(amount, self._share[row], self._supply[row])
            self._supply[row] -= amount
            if not self._supply[row]:
                del self._supply[row]
        else:
            amount = min(amount, excess[source])
            excess[source] -= amount
            self._left -= amount
            self._over[source] = excess[source] > 0
        excess[sink] += amount
        for donor, row in zip(path[1:], via, strict=False):
            if row == _SPARE:
                del self._with_spare[donor]
                self._without_spare[donor] = None
            else:
                holdings.take(donor, row, amount)
        for receiver, row in zip(path, via, strict=False):
            if row == _SPARE:
                del self._without_spare[receiver]
                self._with_spare[receiver] = None
            else:
                holdings.add(receiver, row, amount)
