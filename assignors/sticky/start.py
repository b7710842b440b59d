"""What members have before anything is balanced, counted by row for those only that are looked at."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from assignors.sticky.bits import positions, transpose
from assignors.sticky.filling import Poured
from assignors.sticky.rows import Counts, Rows
from groupsdk.assignment import Partitions


_T = TypeVar("_T")
_Value = TypeVar("_Value")


class ByMember(Protocol[_Value]):
    """Something for each member: a list, or what is made when it is first asked for."""

    def __getitem__(self, member: int, /) -> _Value: ...

    def __setitem__(self, member: int, value: _Value, /) -> None: ...


class _Made(dict[int, _T]):
    """What was asked for so far, by member."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], _T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, member: int) -> _T:
        made = self[member] = self._make(member)
        return made


class Start:
    """What members own, and what was poured onto that.

    Most members of most groups keep what they own and get what is poured, and nobody needs to know of which
    rows that is.

    Attributes:
        owned: by member: how many of each row it owns.
        shares: by member: how many of each row it has; equal to `owned` and what was poured until changed.

    Args:
        partitions: by member: what it owns.
        rows: the rows.
        poured: what was poured; taken over.
    """

    __slots__ = ("_gained", "_poured", "_size", "owned", "shares")

    def __init__(self, partitions: Sequence[Partitions], rows: Rows, poured: Poured) -> None:
        self._size = len(rows.sizes), len(partitions)
        self._poured = poured
        self._gained: list[int] | None = None
        self.owned = _Made[Counts](lambda member: rows.count(partitions[member]))
        self.shares = _Made[Counts](self._share)

    def gained(self) -> Sequence[int]:
        """Return by member the set of rows of which something was poured onto it."""
        if self._gained is None:
            rows, members = self._size
            takers = self._poured.takers
            self._gained = transpose([takers.get(row, 0) for row in range(rows)], members)
        return self._gained

    def changes(
        self, moved: Mapping[int, Iterable[int]]
    ) -> tuple[Mapping[int, Counts], Mapping[int, Counts]]:
        """Compare what members have with what they own; to be asked once, when all is done.

        Args:
            moved: by member: the rows of which its share was changed.

        Returns:
            Row to member to how many it has to get, and member to row, in order, to how many it has to give.
        """
        needs = self._poured.gains
        excess: dict[int, Counts] = {}
        for member, rows in moved.items():
            share, own = self.shares[member], self.owned[member]
            for row in sorted(set(rows)):
                more = share.get(row, 0) - own.get(row, 0)
                if more > 0:
                    if row in needs:
                        needs[row][member] = more
                    else:
                        needs[row] = {member: more}
                    continue
                if row in needs:
                    needs[row].pop(member, None)
                if more:
                    excess.setdefault(member, {})[row] = -more
        return {row: wanted for row, wanted in needs.items() if wanted}, excess

    def _share(self, member: int) -> Counts:
        share = dict(self.owned[member])
        for row in positions(self.gained()[member]):
            share[row] = share.get(row, 0) + self._poured.gains[row][member]
        return share
