"""Find the cheapest of all balanced assignments of a block, as `min_cost_flow` does, in very large and sparse groups.

A min-cost flow by the primal-dual method, in the residual graph, searched backwards from members with room. Nodes
are members, rows, and the spare, of which each member without `level` partitions has one (see `Transport`). An edge
leads from a member to a row of which it gives one, or from a row to a member that gets one. One more of a row costs
`move` where the member then has more than it owns, and `off_rack` where it is far; one less brings the same back. The
reduced cost of an edge (cost + potential(tail) - potential(head)) is never negative.

A round is one search, by reduced cost and then by edges, and one blocking flow along the layers that it found. Its
work is N + L: N subscriptions, holdings, members and rows, and L the lengths of the paths. Rounds of P partitions:

- Without racks the distance of sources never falls, and the sum of distances over all partitions placed is at most
  the final cost, at most P. With a_d partitions placed at distance d, the sum of d * a_d is at most P.
- Of the rounds for one distance each has longer paths, in edges. What is left after k of them decomposes into paths of
  k edges or more that each move partitions of their own, at some k / 2 rows: at most 2 P / k of them. So d takes no more
  than O(sqrt P) rounds, and no more than a_d.
- Together that is O(P ** 0.75) rounds, and O(N * P ** 0.75) work, besides paths.
- With racks a distance is a pair: i of the criterion that comes first, j of the other. The sum of i over all placed
  is at most P again. While i stays, j rises, and the sum of j over what is placed changes the cost by j, which is
  between 0 and P at all times. So each sign of j has a sum of P at most, and each i takes O(P ** 0.75) rounds, as above.
  Those with i up to P ** (1 / 8) and all others, of which each round places one of P ** (7 / 8) at most, are together
  O(P ** (7 / 8)) rounds.

Where racks do not matter the search starts from what members had before anything owned was moved: that is
the cheapest for the loads it has, as everything owned is with its owner, and mostly little is missing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import compress

from assignors.sticky.max_flow import Block
from assignors.sticky.min_cost_flow import Prices
from assignors.sticky.partition_rows import Counts
from assignors.sticky.sparse_holdings import Holdings
from assignors.sticky.sparse_partition_rows import SparsePartitionRows


_SPARE = 1 << 62
"""The node of the spare. A member's node is its number, that of a row the complement `~row`."""

_ANY = 1 << 62
_DEAD = -1
_APART = 3
"""Steps without slack lead one layer on, or back."""

_NONE = -(1 << 62)


class SparseMinCostFlow:
    """Moves what has no place in a block to where there is room, as cheaply as can be; without `inside` all rows lie in the block."""

    __slots__ = (
        "_alive",
        "_excess",
        "_have_racks",
        "_holdings",
        "_hops",
        "_last_hop",
        "_left",
        "_members",
        "_open_members",
        "_open_rows",
        "_over",
        "_potential",
        "_prices",
        "_rows",
        "_share",
        "_sink_potential",
        "_sources",
        "_supply",
        "_to_sources",
        "_wide",
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
        # What members have above what they own can be had back for what it cost: no step has a negative slack.
        self._potential = dict.fromkeys([*block.members, _SPARE], 0)
        self._members = bytearray(len(holdings.loads) + 1)
        for member in block.members:
            self._members[member] = 1
        self._wide = bytearray(len(sizes))
        for row in holdings.wide(everything):
            self._wide[row] = 1
            self._potential[~row] = -prices.move if before else 0
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
        self._sources = sum(self._over)
        self._left = sum(excess for excess in self._excess.values() if excess > 0)
        self._sink_potential = 0
        # Of the present search: by node, how many steps it is from a member with room; members by that, too.
        self._hops: dict[int, int] = {}
        self._last_hop = 0
        self._alive: list[bytearray] = []
        # By member: its rows that lead to sources, if those are the layer beyond it.
        self._to_sources: dict[int, list[int]] = {}
        # Members, and wide rows, a step from which can still be of use.
        self._open_members = bytearray()
        self._open_rows = bytearray()

    def run(self) -> None:
        """Place everything. Raises RuntimeError if there is no room for something, so that the block is not one."""
        while self._supply or self._left > 0:
            self._search()
            self._augment()

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

    def _search(self) -> None:
        """Reach what has no place, or its holder, from members with room; raises potentials as far as that takes."""
        known = self._potential
        # Nodes are reached in the order of slack, and then of steps: a key is both in one number.
        one = 2 * len(known) + 2
        least = {
            member: (known[member] - self._sink_potential) * one
            for member, over in self._excess.items()
            if over < 0
        }
        reached, nearest = self._reach(least, one)
        for node in reached:
            distance = least[node] // one
            if distance < nearest:
                known[node] += nearest - distance
        self._sink_potential += nearest
        self._hops = {node: least[node] % one for node in reached}
        self._last_hop = max(self._hops.values())
        self._alive = [bytearray(len(self._members)) for _ in range(_APART)]
        for node, hop in self._hops.items():
            # beyond the last layer nothing was found: only sources are of use in it
            if 0 <= node < _SPARE and (hop < self._last_hop or self._over[node]):
                self._alive[hop % _APART][node] = 1

    def _reach(self, least: dict[int, int], one: int) -> tuple[list[int], int]:
        """Search from members with room; returns the nodes reached, and how far by slack the nearest source is."""
        found: dict[int, list[int]] = {}
        for member, key in least.items():
            found.setdefault(key, []).append(member)
        keys = sorted(found)
        nearest = _ANY
        missing = self._sources + len(self._supply)
        reached: list[int] = []
        self._open_members, self._open_rows = bytearray(self._members), bytearray(self._wide)
        # All that is as near as the nearest moves together.
        while keys and keys[0] // one <= nearest:
            key = heappop(keys)
            layer = [node for node in found.pop(key) if least[node] == key]
            reached += layer
            ending = sum(map(self._is_source, layer))
            if ending:
                nearest = key // one
                missing -= ending
                if not missing:
                    # what is further leads to no other source
                    break
            elif nearest == _ANY and (sources := self._sources_beyond(layer)):
                # Nothing else comes before them.
                least.update(dict.fromkeys(sources, key + 1))
                return reached + sources, key // one
            for further, other in self._nearer(layer, key, least, one):
                least[other] = further
                if further not in found:
                    found[further] = []
                    heappush(keys, further)
                found[further].append(other)
        if nearest == _ANY:
            raise RuntimeError("no room for all partitions of a block")
        return reached, nearest

    def _nearer(
        self, layer: Sequence[int], key: int, least: Mapping[int, int], one: int
    ) -> Iterator[tuple[int, int]]:
        """Yield what comes nearer by a step from a layer with this key, and the key it then has."""
        for node in layer:
            if self._is_source(node):
                continue
            for slack, other in self._steps(node, least, key + 1, one):
                further = key + slack * one + 1
                if further < least.get(other, _ANY):
                    yield further, other

    def _sources_beyond(self, layer: Sequence[int]) -> list[int]:
        """Return the members that have too much and can give it to some of a layer without slack."""
        holder, over, found = self._holdings.holder, self._over, dict[int, None]()
        self._to_sources = {}
        if self._supply:
            return []
        for node in layer:
            if not 0 <= node < _SPARE:
                continue
            rows = self._to_sources[node] = list(self._rows_without_slack(node, over))
            found.update(dict.fromkeys(map(holder.__getitem__, rows)))
            if len(found) == self._sources:
                break
        if not found:
            self._to_sources = {}
        return list(found)

    def _is_source(self, node: int) -> bool:
        return ~node in self._supply if node < 0 else self._excess.get(node, 0) > 0

    def _steps(
        self, node: int, least: Mapping[int, int], base: int, one: int
    ) -> Iterable[tuple[int, int]]:
        """Return the steps to a node, the slack and where each starts; those to a member as `_steps_to_member` does."""
        known, here = self._potential, self._potential[node]
        if node == _SPARE:
            return [(known[member] - here, member) for member in self._with_spare]
        if node < 0:
            return [
                (known[donor] - self._price_back(~node, donor) - here, donor)
                for donor in self._holdings.holders(~node)
                if donor in known and self._holdings.left(donor, ~node) > 0
            ]
        return self._steps_to_member(node, least, base, one)

    def _steps_to_member(
        self, node: int, least: Mapping[int, int], base: int, one: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the steps to a member; who is reached without slack is not looked at again.

        Of other members only those come that are nearer, by `base + slack * one`, than they are in `least`.
        """
        known, here = self._potential, self._potential[node]
        if node in self._without_spare:
            yield known[_SPARE] - here, _SPARE
        rows, holder = self._rows.read_by(node), self._holdings.holder
        if self._supply:
            for row in filter(self._supply.__contains__, rows):
                yield self._price(row, node) - here, ~row
        lost, is_extra, move = self._holdings.lost[node], self._holdings.is_extra, self._prices.move
        held = map(self._open_members.__getitem__, map(holder.__getitem__, rows))
        for row in compress(rows, held):
            donor = holder[row]
            if self._have_racks:
                slack = self._slack(row, donor, node)
            else:
                slack = known[donor] - here + (row not in lost and move) - (is_extra[row] and move)
            if not slack:
                self._open_members[donor] = 0
            # most members are found by many others of a layer
            if base + slack * one < least.get(donor, _ANY):
                yield slack, donor
        for row in compress(rows, map(self._open_rows.__getitem__, rows)):
            slack = known[~row] + self._price(row, node) - here
            if not slack:
                self._open_rows[row] = 0
            yield slack, ~row

    def _rows_without_slack(self, member: int, donors: bytearray) -> Iterator[int]:
        """Yield rows that are not wide and that some members can give to one at no more than the potentials say."""
        holder, rows = self._holdings.holder, self._rows.read_by(member)
        held = compress(rows, map(donors.__getitem__, map(holder.__getitem__, rows)))
        if self._have_racks:
            return (row for row in held if not self._slack(row, holder[row], member))
        known, move, here = self._potential, self._prices.move, self._potential[member]
        is_extra, lost = self._holdings.is_extra, self._holdings.lost[member]
        return (
            row
            for row in held
            if known[holder[row]] == here + (is_extra[row] and move) - (row not in lost and move)
        )

    def _slack(self, row: int, donor: int, receiver: int) -> int:
        """Return the slack of giving the partition of a row that is not wide to another member."""
        return (
            self._potential[donor]
            - self._price_back(row, donor)
            + self._price(row, receiver)
            - self._potential[receiver]
        )

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

    # ---- moving --------------------------------------------------------------------------------------

    def _augment(self) -> None:
        """Move along the layers of the search until no path is left; all members with room take turns."""
        excess, hops = self._excess, self._hops
        ways: dict[int, Iterator[tuple[int, int]]] = {}
        waiting = [node for node, hop in hops.items() if not hop and excess[node] < 0]
        while waiting:
            waiting = [sink for sink in waiting if self._fill(sink, ways) and excess[sink] < 0]

    def _fill(self, sink: int, ways: dict[int, Iterator[tuple[int, int]]]) -> bool:
        """Move along one path to a member with room; returns whether there was one."""
        path, via = [sink], list[int]()
        while path:
            node = path[-1]
            if node not in ways:
                ways[node] = self._free_steps(node)
            row, before = next(ways[node], (_NONE, _NONE))
            if before == _NONE:
                # Nothing is left beyond it.
                hop, self._hops[node] = self._hops[node], _DEAD
                if 0 <= node < _SPARE:
                    self._alive[hop % _APART][node] = 0
                path.pop()
                del via[-1:]
                continue
            path.append(before)
            via.append(row)
            if self._is_source(before):
                members = [each for each in path if 0 <= each < _SPARE]
                self._move(members, [each for each in via if each != _NONE])
                return True
        return False

    def _free_steps(self, node: int) -> Iterator[tuple[int, int]]:
        """Yield the steps without slack to a node, what is given and where it starts, one layer on.

        Each comes again until nothing more can be had that way.
        """
        layer = self._hops[node] + 1
        if layer > self._last_hop:
            return iter(())
        if node in self._to_sources:
            return self._free_steps_to_sources(node, layer)
        if node == _SPARE:
            return self._free_steps_to_spare(layer)
        if node < 0:
            return self._free_steps_to_row(~node, layer)
        return self._free_steps_to_member(node, layer)

    def _free_steps_to_sources(self, member: int, layer: int) -> Iterator[tuple[int, int]]:
        holder = self._holdings.holder
        for row in self._to_sources[member]:
            donor = holder[row]
            if self._hops.get(donor) == layer and not self._slack(row, donor, member):
                yield row, donor

    def _free_steps_to_spare(self, layer: int) -> Iterator[tuple[int, int]]:
        known = self._potential
        for member in list(self._with_spare):
            if self._hops.get(member) == layer and known[member] == known[_SPARE]:
                while self._hops[member] == layer and member in self._with_spare:
                    yield _NONE, member

    def _free_steps_to_row(self, row: int, layer: int) -> Iterator[tuple[int, int]]:
        hops, known, here = self._hops, self._potential, self._potential[~row]
        for donor in self._holdings.holders(row):
            while (
                hops.get(donor) == layer
                and known[donor] - self._price_back(row, donor) == here
                and self._holdings.left(donor, row) > 0
            ):
                yield _NONE, donor

    def _free_steps_to_member(self, member: int, layer: int) -> Iterator[tuple[int, int]]:
        hops, known, here = self._hops, self._potential, self._potential[member]
        rows, holder = self._rows.read_by(member), self._holdings.holder
        for row in filter(self._supply.__contains__, rows) if self._supply else ():
            while (
                row in self._supply and hops.get(~row) == layer and self._price(row, member) == here
            ):
                yield row, ~row
        for row in self._rows_without_slack(member, self._alive[layer % _APART]):
            if hops.get(holder[row]) == layer:
                yield row, holder[row]
        for row in self._holdings.wide(rows):
            while hops.get(~row) == layer and known[~row] + self._price(row, member) == here:
                yield row, ~row
        if known[_SPARE] == here:
            while hops.get(_SPARE) == layer and member in self._without_spare:
                yield _SPARE, _SPARE

    def _move(self, path: Sequence[int], via: Sequence[int]) -> None:
        """Move along a path, as much as goes: `path[i]` gets of row `via[i]` from the one after it."""
        holdings, excess = self._holdings, self._excess
        source = path[-1]
        amount = min(-excess[path[0]], self._most(path, via))
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
            if not excess[source]:
                self._over[source] = 0
                self._sources -= 1
        excess[path[0]] += amount
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

    def _most(self, path: Sequence[int], via: Sequence[int]) -> int:
        """Return how much can move along a path at the present prices."""
        holdings, most = self._holdings, _ANY
        for receiver, row in zip(path, via, strict=False):
            most = min(most, 1 if row == _SPARE else holdings.lost[receiver].get(row, _ANY))
        for donor, row in zip(path[1:], via, strict=False):
            if row != _SPARE:
                most = min(most, holdings.extra[donor].get(row) or holdings.left(donor, row))
        return most
