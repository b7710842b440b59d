"""Keep what members own, and pour what nobody owns onto those that have least, before anything is balanced."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Protocol, TypeVar

from assignors.sticky.bitsets import bitset, first, positions, transpose
from assignors.sticky.partition_rows import Counts, PartitionRows
from groupsdk.assignment import Partitions


_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Poured:
    """The partitions that members were given, by row with a supply: how many, above 0, and the set of members that got some."""

    gains: dict[int, Counts]
    receivers: dict[int, int]


def pour(supplies: Sequence[int], readers: Sequence[int], loads: list[int]) -> Poured:
    """Give out `supplies[row]` partitions of every row, which has a reader; changes `loads`.

    Rows with few readers go first, as they have least choice; each fills up its least loaded readers like
    water. This is no more than a good start, which for most groups is balanced already. Looks at every
    level of load once a row, and at those members only that get something.
    """
    with_load: dict[int, list[int]] = {}
    for member, load in enumerate(loads):
        with_load.setdefault(load, []).append(member)
    at_level = {load: bitset(members) for load, members in with_load.items()}
    order = sorted(
        (row for row, supply in enumerate(supplies) if supply),
        key=lambda row: (readers[row].bit_count(), row),
    )
    poured = Poured({}, {})
    for row in order:
        groups = _rise(supplies[row], readers[row], at_level)
        receivers = reduce(or_, groups.values())
        # Most get one.
        gains = dict.fromkeys(positions(receivers), 1)
        for count, group in groups.items():
            if count > 1:
                gains.update(dict.fromkeys(positions(group), count))
        poured.gains[row] = gains
        poured.receivers[row] = receivers
    for level, group in at_level.items():
        for member in positions(group):
            loads[member] = level
    return poured


def even_out(poured: Poured, readers: Sequence[int], loads: list[int]) -> None:
    """Let members above the mean pass what they got on to members below it, where these read it.

    Mostly that balances what pouring has left uneven, and takes much less than a flow. At most so many rounds
    as there are in `_ROUNDS`, each of which looks at every row once.
    """
    top = -(-sum(loads) // len(loads))
    # The mean itself may lie between two loads: nobody is to have less than the lower one either.
    for level in (top, top - 1):
        over = bitset([member for member, load in enumerate(loads) if load > level])
        under = bitset([member for member, load in enumerate(loads) if load < level])
        for _ in range(_ROUNDS):
            if not over or not under:
                break
            has_moved = False
            for row, receivers in poured.receivers.items():
                rich = receivers & over
                if not rich:
                    continue
                poor = readers[row] & under
                if not poor:
                    continue
                has_moved = True
                count = min(poor.bit_count(), rich.bit_count())
                gains = poured.gains[row]
                poor = first(poor, count)
                poorer, richer = positions(poor), positions(first(rich, count))
                poured.receivers[row] |= poor
                # One each, as a topic is to be spread.
                for donor, receiver in zip(richer, poorer, strict=True):
                    if gains[donor] == 1:
                        del gains[donor]
                        poured.receivers[row] ^= 1 << donor
                    else:
                        gains[donor] -= 1
                    gains[receiver] = gains.get(receiver, 0) + 1
                    loads[donor] -= 1
                    loads[receiver] += 1
                over ^= bitset([member for member in richer if loads[member] == level])
                under ^= bitset([member for member in poorer if loads[member] == level])
            if not has_moved:
                break


def _rise(supply: int, readers: int, at_level: dict[int, int]) -> dict[int, int]:
    """Pour one row; returns the members that get something, by how much. Changes who is at which level."""
    wet, final, extra = _flood(supply, readers, at_level)
    groups: dict[int, int] = {}
    risen = 0
    for level in wet:
        group = readers & at_level[level]
        at_level[level] ^= group
        if not at_level[level]:
            del at_level[level]
        risen |= group
        if level < final:
            groups[final - level] = group
    if extra:
        higher = left = first(risen, extra)
        for count in sorted(groups, reverse=True):
            if again := groups[count] & higher:
                groups[count] ^= again
                groups[count + 1] = groups.get(count + 1, 0) | again
                left ^= again
        if left:
            groups[1] = groups.get(1, 0) | left
        risen ^= higher
        at_level[final + 1] = at_level.get(final + 1, 0) | higher
    if risen:
        at_level[final] = at_level.get(final, 0) | risen
    return groups


def _flood(supply: int, readers: int, at_level: dict[int, int]) -> tuple[list[int], int, int]:
    """Return the loads of the readers of a row that rise, the load that they rise to, and how many of them rise by one more."""
    wet: list[int] = []
    count, level = 0, 0
    for following in sorted(at_level):
        group = readers & at_level[following]
        if not group:
            continue
        if supply < (following - level) * count:
            break
        supply -= (following - level) * count
        level = following
        wet.append(level)
        count += group.bit_count()
        if supply <= count:
            # No higher than one above this, wherever the next ones are.
            break
    rise, extra = divmod(supply, count)
    return wet, level + rise, extra


_T = TypeVar("_T")
_Value = TypeVar("_Value")


class ByMember(Protocol[_Value]):
    """A value for each member: a list, or computed on first use."""

    def __getitem__(self, member: int, /) -> _Value: ...

    def __setitem__(self, member: int, value: _Value, /) -> None: ...


class _Made(dict[int, _T]):
    __slots__ = ("_make",)

    def __init__(self, make: Callable[[int], _T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, member: int) -> _T:
        made = self[member] = self._make(member)
        return made


class Start:
    """What members own (`owned`), and what was poured onto that: `shares`, by member how many of each row.

    Most members of most groups keep what they own and get what is poured, and nobody needs to know of which
    rows that is.
    """

    __slots__ = ("_gained", "_poured", "_size", "owned", "shares")

    def __init__(
        self, partitions: Sequence[Partitions], rows: PartitionRows, poured: Poured
    ) -> None:
        self._size = len(rows.sizes), len(partitions)
        self._poured = poured
        self._gained: list[int] | None = None
        self.owned = _Made[Counts](lambda member: rows.count(partitions[member]))
        self.shares = _Made[Counts](self._share)

    def gained(self) -> Sequence[int]:
        if self._gained is None:
            rows, members = self._size
            receivers = self._poured.receivers
            self._gained = transpose([receivers.get(row, 0) for row in range(rows)], members)
        return self._gained

    def changes(
        self, moved: Mapping[int, Iterable[int]]
    ) -> tuple[Mapping[int, Counts], Mapping[int, Counts]]:
        """Compare what members have with what they own; to be asked once, when all is done.

        Returns row to member to how many it has to get, and member to row, in order, to how many it has to give.
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
