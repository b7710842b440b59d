"""Balance loads by maximum flows, and split the members into blocks that each balance within themselves.

Partitions move from members that have too many, through others, to members that have few: a maximum flow. A
unit leaves a member by any row of which the member has some, and enters any reader of that row; so a path from
a member with too many to one with too few runs member, row, member, row, member.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from assignors.sticky.bitsets import bitset, lowest, positions, transpose
from assignors.sticky.partition_rows import Counts
from assignors.sticky.water_filling import ByMember


_SHORTEST_FIRST = 8
_UNASKED = 8
_DEEP_SEARCHES = 16


class MaxFlowBalancer:
    """Shares and loads that can be balanced; what a member owns is moved only where nothing else helps.

    Of a member that never has to give or to take, nothing but its load is looked at.

    Attributes:
        shares: by member: how many of each row it has.
        loads: by member: how many that is in all.
        moved: by member: rows of which something was moved to it or from it.
        donors: members that may hold less of some row than they own of it.
        receivers: by row that was moved: a member that has some of it.
    """

    __slots__ = (
        "_gained",
        "_holds",
        "_owned",
        "_readers",
        "_reserve",
        "_rows_read",
        "_under",
        "donors",
        "loads",
        "moved",
        "receivers",
        "shares",
    )

    def __init__(
        self,
        readers: Sequence[int],
        owned: ByMember[Counts],
        shares: ByMember[Counts],
        loads: list[int],
        gained: Callable[[], Sequence[int]] | None = None,
    ) -> None:
        self._readers = readers
        self._owned = owned
        self.shares = shares
        self.loads = loads
        self._rows_read: list[int] | None = None
        self._gained = gained or (lambda: [0] * len(loads))
        self.moved: dict[int, set[int]] = {}
        self.donors: set[int] = set()
        self.receivers: dict[int, int] = {}
        self._reserve: ByMember[Counts] | None = None
        self._holds: list[int] = []
        self._under = 0

    def with_readers(self, readers: Sequence[int]) -> "MaxFlowBalancer":
        """Return one that goes on with the same shares, for other readers of the rows."""
        other = MaxFlowBalancer(readers, self._owned, self.shares, self.loads, self._gained)
        other.moved, other.donors, other.receivers = self.moved, self.donors, self.receivers
        return other

    def balance(self, members: Sequence[int], top: int) -> int:
        """Move what some members have above `top` to those of them that have less, as much as can be.

        Returns:
            The set of members that what is still above `top` could be moved to, those that have it
            included: nothing of what they share has a reader outside of it, and none of them has less than
            `top`. 0 if nothing is above.
        """
        loads = self.loads
        over = [member for member in members if loads[member] > top]
        if not over:
            return 0
        mask = bitset(members)
        self._under = bitset(member for member in members if loads[member] < top)
        # First only what its holder does not own: moving that costs nobody anything.
        self._flow(over, mask, top, self._owned)
        return self._flow(over, mask, top, None)

    def _flow(self, over: list[int], mask: int, top: int, reserve: ByMember[Counts] | None) -> int:
        """Augment until nothing can be moved; returns what is reached from the members still over."""
        self._reserve = reserve
        if reserve is None:
            self._holds = [-1] * len(self.loads)
        elif self._under:
            self._holds = list(self._gained())
            for member in self.moved:
                self._holds[member] = -1
        else:
            return 0
        searches = 0
        while True:
            over[:] = [member for member in over if self.loads[member] > top]
            if not over:
                return 0
            # Shortest paths first are few rounds where everybody is near everybody, and disturb little.
            # On long chains the distance grows by little each round: there deep searches get far with
            # few rounds. They have no good bound, so that their number is limited; the last word is
            # with shortest paths again, of which as many rounds as there are members are enough.
            deep = _SHORTEST_FIRST <= searches < _SHORTEST_FIRST + _DEEP_SEARCHES
            if deep and self._under:
                members = [mask & ~bitset(over)]
                if not self._augment(over, top, [-1], members, layered=False):
                    return mask & ~members[0]
            else:
                rows, members, reached = self._layers(over, mask)
                if not rows:
                    return reached
                self._augment(over, top, rows, members, layered=True)
            searches += 1

    def _layers(self, over: list[int], mask: int) -> tuple[list[int], list[int], int]:
        """Search in breadth; returns the rows and members of each layer as far as one that has room.

        Without layers if there is none with room; the third is all members reached.
        """
        readers = self._readers
        row_layers: list[int] = []
        member_layers: list[int] = []
        frontier = over
        todo = mask & ~bitset(over)
        seen_rows = 0
        all_rows = (1 << len(readers)) - 1
        while True:
            rows = self._rows_beyond(frontier, all_rows & ~seen_rows)
            if not rows:
                return [], [], mask & ~todo
            seen_rows |= rows
            row_layers.append(rows)
            before = todo
            for row in positions(rows):
                new = todo & readers[row]
                if new:
                    todo ^= new
                    if not todo:
                        break
            found = before ^ todo
            if found & self._under:
                member_layers.append(0)
                return row_layers, member_layers, 0
            if not todo:
                return [], [], mask
            member_layers.append(found)
            frontier = positions(found)

    def _rows_beyond(self, frontier: Sequence[int], unseen: int) -> int:
        """Return which of some rows any of some members can give of."""
        rows = 0
        for index, member in enumerate(frontier):
            held = self._holds[member]
            if held == -1:
                # What a member holds takes more to find than what it reads.
                if index >= _UNASKED and not self._reads()[member] & unseen & ~rows:
                    continue
                held = self._held(member)
            rows |= held & unseen
            if rows == unseen:
                # Where everybody reads much, a few members have some of everything.
                break
        return rows

    def _augment(
        self,
        over: list[int],
        top: int,
        row_masks: list[int],
        member_masks: list[int],
        *,
        layered: bool,
    ) -> bool:
        """Search in depth from each member that is over; returns whether anything was moved.

        With layers, a path goes one layer down with each step, and a node is left out once nothing is
        found beyond it. Without, there is one mask for all steps, and each member is visited once.
        """
        loads = self.loads
        moved = False
        for source in over:
            path, via = [source], list[int]()
            while loads[source] > top:
                depth = len(via) if layered else 0
                row, following = self._step(path[-1], row_masks, member_masks, depth)
                if row < 0:
                    if not via:
                        break
                    via.pop()
                    dead = path.pop()
                    if layered:
                        member_masks[depth - 1] ^= 1 << dead
                elif following:
                    if not layered:
                        member_masks[0] ^= following
                    path.append(following.bit_length() - 1)
                    via.append(row)
                else:
                    sink = lowest(self._readers[row] & self._under)
                    self._move([*path, sink], [*via, row], top)
                    self._cut(path, via, row)
                    moved = True
            if not self._under:
                break
        return moved

    def _step(
        self, member: int, row_masks: list[int], member_masks: list[int], depth: int
    ) -> tuple[int, int]:
        """Find a row, or -1, that the member can give of, and the bit of who could take it and give of another one.

        The bit is 0 where the row has a reader with room. Rows without either are left out from now on.
        """
        readers, under = self._readers, self._under
        held = self._holds[member]
        if held == -1:
            held = self._held(member)
        rows = held & row_masks[depth]
        while rows:
            bit = rows & -rows
            row = bit.bit_length() - 1
            audience = readers[row]
            if audience & under:
                return row, 0
            following = audience & member_masks[depth]
            if following:
                return row, following & -following
            row_masks[depth] ^= bit
            rows ^= bit
        return -1, 0

    def _move(self, path: list[int], via: list[int], top: int) -> None:
        source, sink = path[0], path[-1]
        amount = min(self.loads[source] - top, top - self.loads[sink])
        for member, row in zip(path, via, strict=False):
            amount = min(amount, self._spare(member, row))
        shares, holds = self.shares, self._holds
        for step, row in enumerate(via):
            member, other = path[step], path[step + 1]
            for each in (member, other):
                if each in self.moved:
                    self.moved[each].add(row)
                else:
                    self.moved[each] = {row}
            left = shares[member][row] - amount
            if left:
                shares[member][row] = left
            else:
                del shares[member][row]
            if not self._spare(member, row):
                holds[member] ^= 1 << row
            shares[other][row] = shares[other].get(row, 0) + amount
            self.receivers[row] = other
            if holds[other] != -1 and self._spare(other, row) > 0:
                holds[other] |= 1 << row
        if self._reserve is None:
            self.donors.update(path[:-1])
        self.loads[source] -= amount
        self.loads[sink] += amount
        if self.loads[sink] == top:
            self._under ^= 1 << sink

    def _cut(self, path: list[int], via: list[int], last: int) -> None:
        """Go back to the first step of a path that has nothing left to move."""
        for step, row in enumerate([*via, last]):
            if self._spare(path[step], row) <= 0:
                del path[step + 1 :]
                del via[step:]
                return

    def _reads(self) -> Sequence[int]:
        if self._rows_read is None:
            self._rows_read = transpose(self._readers, len(self.loads))
        return self._rows_read

    def _spare(self, member: int, row: int) -> int:
        share = self.shares[member].get(row, 0)
        if self._reserve is None:
            return share
        return share - self._reserve[member].get(row, 0)

    def _held(self, member: int) -> int:
        held = self._holds[member]
        if held == -1:
            if self._reserve is None:
                held = bitset(self.shares[member])
            else:
                held = self._gained()[member]
                for row in self.moved.get(member, ()):
                    bit = 1 << row
                    if self._spare(member, row) > 0:
                        held |= bit
                    elif held & bit:
                        held ^= bit
            self._holds[member] = held
        return held


@dataclass(frozen=True, slots=True)
class Block:
    """Members, ascending, that share the rows they have among each other only: `longer` of them have `level`, the others one less."""

    members: list[int]
    level: int
    longer: int


class Balancer(Protocol):
    @property
    def loads(self) -> Sequence[int]: ...

    def balance(self, members: Sequence[int], top: int) -> int:
        """Move what some members have above `top` to others of them that have less, as much as possible.

        Returns a set of members that cannot be brought below `top` by others of them; 0 if none is above.
        """
        ...


def find_blocks(balancer: Balancer, members: Sequence[int]) -> list[Block]:
    """Balance the loads, and return which members balance with each other.

    Take the mean load of some members, rounded up. Where not all that is above can be moved below, the
    members it could be moved to share more than fits under the mean: a denser part that nobody outside
    of it can help, so that it can be looked at alone, and the rest too. Where all can be moved, one
    less is tried. That cannot succeed, being below the mean; the members over it, and those that they could
    give to, are a block with loads of `level` and `level - 1`, and the rest is looked at alone.
    Every round splits a part or finishes one: fewer than two flows for each member."""
    loads = balancer.loads
    blocks = []
    parts = [list(members)]
    while parts:
        part = parts.pop()
        total = sum(map(loads.__getitem__, part))
        if not total:
            continue
        level = -(-total // len(part))
        reached = balancer.balance(part, level)
        if not reached:
            if min(map(loads.__getitem__, part)) < level - 1:
                reached = balancer.balance(part, level - 1)
            else:
                # No need to look for a smaller block: within these loads anything is balanced.
                reached = bitset(part)
            block = [member for member in part if reached >> member & 1]
            longer = sum(loads[member] == level for member in block)
            blocks.append(Block(block, level, longer))
        else:
            parts.append([member for member in part if reached >> member & 1])
        rest = [member for member in part if not reached >> member & 1]
        if rest:
            parts.append(rest)
    return blocks
