"""Balance loads in very large and sparse groups: a maximum flow, searched from the members with room."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress

from assignors.sticky.bitsets import bitset
from assignors.sticky.sparse_holdings import NOBODY, Holdings
from assignors.sticky.sparse_partition_rows import SparsePartitionRows


_DEEP_SEARCHES = 16
_NONE = -1


class SparseMaxFlowBalancer:
    """Moves partitions to members that have few from others that have too many, through those between.

    `before` is what members had above what they own before anything owned was moved; None where nothing was.
    """

    __slots__ = (
        "_depths",
        "_done",
        "_free",
        "_holdings",
        "_is_end",
        "_reserved",
        "_rows",
        "_seen",
        "_sources",
        "_supply",
        "_top",
        "before",
        "loads",
    )

    def __init__(self, rows: SparsePartitionRows, holdings: Holdings) -> None:
        self._rows = rows
        self._holdings = holdings
        self.loads = holdings.loads
        self.before: list[dict[int, int]] | None = None
        self._supply = [0] * len(holdings.holder)
        # While pouring, by member: rows that it reads of which something has no place.
        self._free: dict[int, list[int]] = {}
        # By member: whether it has more than the top, or such a row; nobody comes last.
        self._is_end = bytearray(len(holdings.loads) + 1)
        self._top = 0
        self._reserved = True
        # How many partitions have no place yet, or are above the top.
        self._sources = 0
        # Of the present search: members and rows that need not be looked at again, and where it has layers.
        self._seen = bytearray()
        self._done: set[int] = set()
        self._depths: dict[int, int] | None = None

    # ---- what nobody owns ----------------------------------------------------------------------------

    def pour(self, supplies: Mapping[int, int]) -> None:
        """Assign unassigned partitions as evenly as possible, without moving anything owned.

        First each member takes what it can read, which mostly comes near. The rest reaches members with room through
        others; what no member with room can be given goes to any reader."""
        supply, loads = self._supply, self.loads
        for row, count in supplies.items():
            supply[row] = count
        everyone = range(len(loads))
        top = -(-(sum(loads) + sum(supplies.values())) // len(loads))
        amount = 1
        while self._help_themselves(top, amount):
            amount *= 2
        self._top, self._reserved = top, True
        self._sources = sum(map(supply.__getitem__, supplies))
        if not self._sources:
            return
        left = {row for row in supplies if supply[row]}
        self._free = {
            member: sorted(free)
            for member in everyone
            if (free := left.intersection(self._rows.read_by(member)))
        }
        self._is_end = bytearray(member in self._free for member in range(len(loads) + 1))
        self._flow(sorted(everyone, key=loads.__getitem__), bytearray(len(loads)))
        self._place()
        self._free = {}

    def _help_themselves(self, top: int, amount: int) -> bool:
        """Let members below `top` take so many of each row that they read; returns whether any did."""
        supply, loads, holdings = self._supply, self.loads, self._holdings
        unread: dict[int, Iterator[int]] = {
            member: iter(self._rows.read_by(member))
            for member, load in enumerate(loads)
            if load < top
        }
        taken = False
        # In steps, so that the last ones find something too.
        for level in sorted({top // 2, 3 * top // 4, max(top - 1, 0), top}):
            for member, rows in unread.items():
                lacking = level - loads[member]
                if lacking <= 0:
                    continue
                for row in rows:
                    if supply[row]:
                        each = min(supply[row], amount, lacking)
                        supply[row] -= each
                        holdings.add(member, row, each)
                        lacking -= each
                        taken = True
                        if not lacking:
                            break
                loads[member] = level - lacking
        return taken

    def _place(self) -> None:
        """Place what is left with the least loaded of all readers."""
        loads, supply = self.loads, self._supply
        readers: dict[int, list[int]] = {}
        for member, rows in self._free.items():
            for row in rows:
                if supply[row]:
                    readers.setdefault(row, []).append(member)
        for row, members in sorted(readers.items()):
            while supply[row]:
                member = min(members, key=loads.__getitem__)
                self._holdings.add(member, row, 1)
                loads[member] += 1
                supply[row] -= 1

    # ---- what members have ---------------------------------------------------------------------------

    def balance(self, members: Sequence[int], top: int) -> int:
        """Move what some members have above `top` to members that have less, as much as can be.

        Returns a set of members that have `top` or more, and among them all that have more: nothing that they
        have could be moved to the others, which have `top` or less. 0 if nothing is above.
        """
        loads = self.loads
        self._sources = sum(loads[member] - top for member in members if loads[member] > top)
        if not self._sources:
            return 0
        outside = bytearray(b"\1") * len(loads)
        for member in members:
            outside[member] = 0
        under = [member for member in members if loads[member] < top]
        if not under:
            return bitset(members)
        self._top = top
        self._is_end = bytearray([*(load > top for load in loads), False])
        # First only what its holder does not own: moving that costs nobody anything.
        for reserved in (True, False):
            self._reserved = reserved
            if not reserved:
                self._holdings.show_owned()
            if not reserved and self.before is None:
                self.before = list(map(dict, self._holdings.extra))
            under = self._flow(under, outside)
            if not self._sources:
                return 0
        return bitset([member for member in members if not self._seen[member]])

    def _flow(self, under: list[int], outside: bytearray) -> list[int]:
        """Move until nothing can be moved; returns those that still have room.

        The members that the last search has seen then are those that could give to these.
        """
        searches = 0
        while self._sources:
            under = [member for member in under if self.loads[member] < self._top]
            self._begin_search(outside)
            # Deep searches get far soon, but have no good bound: the last word is with shortest paths.
            if searches >= _DEEP_SEARCHES:
                depths = self._find_layers(under)
                if not depths:
                    return under
                self._begin_search(outside, depths)
            if not self._search(under):
                return under
            searches += 1
        return under

    def _begin_search(self, outside: bytearray, depths: dict[int, int] | None = None) -> None:
        self._seen, self._done, self._depths = bytearray(outside), set(), depths

    def _find_layers(self, under: Sequence[int]) -> dict[int, int]:
        """Search in breadth as far as the first member that ends a path; returns depths, none without one."""
        seen = self._seen
        depths = dict.fromkeys(under, 0)
        for member in under:
            seen[member] = 1
        frontier = list(under)
        depth = 0
        while frontier:
            if any(map(self._ends_path, frontier)):
                return depths
            depth += 1
            found = []
            for member in frontier:
                for _, donor in self._donors(member):
                    seen[donor] = 1
                    depths[donor] = depth
                    found.append(donor)
            frontier = found
        return {}

    def _ends_path(self, member: int) -> bool:
        """Return whether a member has more than the top, or reads what has no place yet."""
        if self._is_end[member] and self._free:
            self._is_end[member] = self._free_row(member) != _NONE
        return bool(self._is_end[member])

    def _free_row(self, member: int) -> int:
        """Return a row that the member reads and of which something has no place; -1 for none."""
        return next(filter(self._supply.__getitem__, self._free.get(member, ())), _NONE)

    def _donors(self, member: int) -> Iterator[tuple[int, int]]:
        """Yield rows that a member reads with who could give of them, not seen before; first who ends a path."""
        return chain(self._ends(member), self._of_wide_rows(member), self._others(member))

    def _ends(self, member: int) -> Iterator[tuple[int, int]]:
        holder, rows, ends = self._holdings.holder, self._rows.read_by(member), self._is_end
        for row in compress(rows, map(ends.__getitem__, map(holder.__getitem__, rows))):
            if not self._seen[holder[row]] and self._spare(holder[row], row) > 0:
                yield row, holder[row]

    def _of_wide_rows(self, member: int) -> Iterator[tuple[int, int]]:
        """Yield what there is of wide rows; what leads on is left to the first member that comes to a row."""
        seen, done = self._seen, self._done
        further: list[tuple[int, int]] = []
        for row in self._holdings.wide(self._rows.read_by(member)):
            if row in done:
                continue
            if self._depths is None:
                done.add(row)
            for donor in self._holdings.holders(row):
                if not seen[donor] and self._spare(donor, row) > 0:
                    if self._is_end[donor]:
                        yield row, donor
                    else:
                        further.append((row, donor))
        for row, donor in further:
            if not seen[donor] and self._spare(donor, row) > 0:
                yield row, donor

    def _others(self, member: int) -> Iterator[tuple[int, int]]:
        holder, seen = self._holdings.holder, self._seen
        for row in self._rows.read_by(member):
            donor = holder[row]
            if donor != NOBODY and not seen[donor] and self._spare(donor, row) > 0:
                yield row, donor

    def _spare(self, member: int, row: int) -> int:
        if self._reserved:
            return self._holdings.extra[member].get(row, 0)
        return self._holdings.left(member, row)

    def _search(self, under: Sequence[int]) -> bool:
        """Search in depth from each member with room; returns whether anything was moved."""
        moved = False
        ways: dict[int, Iterator[tuple[int, int]]] = {}
        for sink in under:
            if not self._sources:
                break
            if not self._seen[sink]:
                self._seen[sink] = 1
                while self.loads[sink] < self._top and (row := self._free_row(sink)) != _NONE:
                    self._move([sink], [row])
                    moved = True
                moved |= self._fill(sink, ways)
        return moved

    def _fill(self, sink: int, ways: dict[int, Iterator[tuple[int, int]]]) -> bool:
        """Move to a member with room what can be, as much as it has room for."""
        seen, depths = self._seen, self._depths
        path, via = [sink], list[int]()
        moved = False
        while path and self.loads[sink] < self._top and self._sources:
            node = path[-1]
            if node not in ways:
                ways[node] = self._donors(node)
            row, donor = next(ways[node], (_NONE, _NONE))
            if donor == _NONE:
                path.pop()
                del via[-1:]
                continue
            if depths is not None and depths.get(donor) != len(path):
                continue
            path.append(donor)
            via.append(row)
            seen[donor] = 1
            if self._ends_path(donor):
                self._move(path, [*via, self._free_row(donor)] if self._free else via)
                moved = True
                # All on the way may be of use again, from the beginning.
                for each in path[1:]:
                    seen[each] = 0
                    ways.pop(each, None)
                del path[1:], via[:]
        return moved

    def _move(self, path: Sequence[int], via: Sequence[int]) -> None:
        """Move along a path, as much as goes: `path[i]` gets of row `via[i]` from the one after it."""
        holdings, loads = self._holdings, self.loads
        sink = path[0]
        amount = self._top - loads[sink]
        amount = min([amount, *map(self._spare, path[1:], via)])
        if len(via) == len(path):
            amount = min(amount, self._supply[via[-1]])
            self._supply[via[-1]] -= amount
        else:
            amount = min(amount, loads[path[-1]] - self._top)
            loads[path[-1]] -= amount
            self._is_end[path[-1]] = loads[path[-1]] > self._top
        self._sources -= amount
        for donor, row in zip(path[1:], via, strict=False):
            holdings.take(donor, row, amount)
        for receiver, row in zip(path, via, strict=False):
            holdings.add(receiver, row, amount)
        loads[sink] += amount
