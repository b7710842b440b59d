"""What members of very large and sparse groups have, as what that differs from what they own."""

from collections.abc import Callable, Collection, Sequence

from assignors.sticky.partition_rows import Counts


NOBODY = -1


class Holdings:
    """What members have, by member and by row.

    Most members of most groups keep what they own, and nobody needs to know of which rows that is: `owned` is asked once for a
    member, and only where needed. Most rows of sparse groups have one partition, and so one holder; the others are wide.

    Attributes:
        extra: by member: how many of each row it has above what it owns of it.
        lost: by member: how many of each row it has below what it owns of it.
        loads: by member: how many it has in all.
        holder: by row: who has it; nobody where the row is wide, and before `show_owned` where it is owned.
        is_extra: by row that is not wide: whether its holder does not own it.
    """

    __slots__ = (
        "_have_wide",
        "_known",
        "_owned",
        "_owners",
        "_receivers",
        "extra",
        "holder",
        "is_extra",
        "is_wide",
        "loads",
        "lost",
    )

    def __init__(
        self, loads: Sequence[int], owned: Callable[[int], Counts], is_wide: bytes
    ) -> None:
        self.extra: list[Counts] = [{} for _ in loads]
        self.lost: list[Counts] = [{} for _ in loads]
        self.loads = list(loads)
        self.holder = [NOBODY] * len(is_wide)
        self.is_extra = bytearray(len(is_wide))
        self.is_wide = is_wide
        self._have_wide = any(is_wide)
        self._owned = owned
        self._known: dict[int, Counts] = {}
        # Of wide rows: who has more than it owns, and who owns some, whether it still has that or not.
        self._receivers: dict[int, dict[int, None]] = {}
        self._owners: dict[int, list[int]] | None = None

    def show_owned(self) -> None:
        """Find out who owns what; until then only what members have above that has holders."""
        if self._owners is not None:
            return
        self._owners = {}
        holder, is_wide = self.holder, self.is_wide
        for member, lost in enumerate(self.lost):
            for row in self.owned(member):
                if is_wide[row]:
                    self._owners.setdefault(row, []).append(member)
                elif row not in lost:
                    holder[row] = member
                    self.is_extra[row] = 0

    def wide(self, rows: Collection[int]) -> Collection[int]:
        return list(filter(self.is_wide.__getitem__, rows)) if self._have_wide else ()

    def holders(self, row: int) -> Sequence[int]:
        """Return the members that have, or own, some of a wide row; one that both owns and has more may be listed twice."""
        owners = self._owners.get(row, ()) if self._owners else ()
        return (*self._receivers.get(row, ()), *owners)

    def owned(self, member: int) -> Counts:
        known = self._known.get(member)
        if known is None:
            known = self._known[member] = self._owned(member)
        return known

    def left(self, member: int, row: int) -> int:
        return (
            self.owned(member).get(row, 0)
            + self.extra[member].get(row, 0)
            - self.lost[member].get(row, 0)
        )

    def held(self, member: int) -> Collection[int]:
        owned, lost, extra = self.owned(member), self.lost[member], self.extra[member]
        kept: Collection[int] = owned
        if lost:
            kept = [row for row, count in owned.items() if lost.get(row, 0) < count]
        return {*extra, *kept} if extra else kept

    def add(self, member: int, row: int, by: int) -> None:
        """Give a member more of a row, first of what it owned; `loads` is not changed."""
        lost = self.lost[member]
        if row in lost:
            back = min(by, lost[row])
            _lower(lost, row, back)
            by -= back
        if by:
            extra = self.extra[member]
            extra[row] = extra.get(row, 0) + by
        if not self.is_wide[row]:
            self.holder[row] = member
            self.is_extra[row] = by
        elif by:
            self._receivers.setdefault(row, {})[member] = None

    def take(self, member: int, row: int, by: int) -> None:
        """Take some of a row from a member, what it owns last; `loads` is not changed."""
        extra = self.extra[member]
        wide = self.is_wide[row]
        if row in extra:
            first = min(by, extra[row])
            _lower(extra, row, first)
            if wide and row not in extra:
                del self._receivers[row][member]
            by -= first
        if by:
            lost = self.lost[member]
            lost[row] = lost.get(row, 0) + by
        if not wide:
            self.holder[row] = NOBODY

    def reset(
        self, members: Sequence[int], extra: Sequence[Counts], lost: Sequence[Counts]
    ) -> None:
        """Replace how the partitions of some members differ from what they own; `lost` is kept, not copied."""
        for member, less in zip(members, lost, strict=True):
            for row in self.extra[member]:
                self._vacate(member, row)
            for row in less:
                self._vacate(member, row)
            self.extra[member] = {}
        for member, more, less in zip(members, extra, lost, strict=True):
            regained = self.lost[member]
            self.lost[member] = less
            for row in regained:
                if row not in less and not self.is_wide[row]:
                    self.holder[row] = member
                    self.is_extra[row] = 0
            for row, count in more.items():
                self.add(member, row, count)

    def changes(self) -> tuple[dict[int, Counts], dict[int, Counts]]:
        """Return row to member to how many it has to get, and member to row to how many it has to give."""
        needs: dict[int, Counts] = {}
        for member, extra in enumerate(self.extra):
            for row, count in extra.items():
                needs.setdefault(row, {})[member] = count
        excess = {
            member: dict(sorted(lost.items())) for member, lost in enumerate(self.lost) if lost
        }
        return needs, excess

    def _vacate(self, member: int, row: int) -> None:
        if self.is_wide[row]:
            self._receivers.get(row, {}).pop(member, None)
        elif self.holder[row] == member:
            self.holder[row] = NOBODY


def _lower(counts: Counts, row: int, by: int) -> None:
    left = counts[row] - by
    if left:
        counts[row] = left
    else:
        del counts[row]
