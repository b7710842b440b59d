"""Pour partitions that nobody owns onto the members that have least, before anything is balanced exactly."""

from collections.abc import Sequence
from dataclasses import dataclass

from assignors.sticky.bits import bitset, first, positions
from assignors.sticky.rows import Counts


@dataclass(frozen=True, slots=True)
class Poured:
    """What members got.

    Attributes:
        gains: row to member to how many, above 0; without the rows that have no supply.
        takers: row to the set of members that got some.
    """

    gains: dict[int, Counts]
    takers: dict[int, int]


def pour(supplies: Sequence[int], readers: Sequence[int], loads: list[int]) -> Poured:
    """Give out `supplies[row]` partitions of every row; changes `loads`.

    Rows with few readers go first, as they have least choice; each fills up its least loaded readers like
    water. This is no more than a good start, which for most groups is balanced already. Looks at every
    level of load once a row, and at those members only that get something.

    Args:
        supplies: by row: number of partitions.
        readers: by row: the set of members, with one in it at least where there is a supply.
        loads: by member: number of partitions.
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
        wet, final, extra = _flood(supplies[row], readers[row], at_level)
        gains: Counts = {}
        risen = takers = 0
        for level in wet:
            group = readers[row] & at_level[level]
            at_level[level] ^= group
            if not at_level[level]:
                del at_level[level]
            risen |= group
            if level < final:
                takers |= group
                gains.update(dict.fromkeys(positions(group), final - level))
        if extra:
            members, higher = first(risen, extra)
            again = positions(higher & takers)
            twice = {member: gains[member] + 1 for member in again}
            gains.update(dict.fromkeys(members, 1))
            gains.update(twice)
            risen ^= higher
            takers |= higher
            at_level[final + 1] = at_level.get(final + 1, 0) | higher
        if risen:
            at_level[final] = at_level.get(final, 0) | risen
        poured.gains[row] = gains
        poured.takers[row] = takers
    for level, group in at_level.items():
        for member in positions(group):
            loads[member] = level
    return poured


def _flood(supply: int, readers: int, at_level: dict[int, int]) -> tuple[list[int], int, int]:
    """Find how high the readers of a row rise.

    Returns:
        The loads of the readers that rise, the load that they rise to, and the number of them that rise by
        one more.
    """
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
