"""Pour partitions that nobody owns onto the members that have least, before anything is balanced exactly."""

from collections.abc import Sequence

from assignors.sticky.bits import bitset, first, positions
from assignors.sticky.rows import Counts


def pour(
    supplies: Sequence[int],
    readers: Sequence[int],
    shares: list[Counts],
    loads: list[int],
    touched: list[list[int]],
) -> None:
    """Give out `supplies[row]` partitions of every row; changes `shares` and `loads`.

    Rows with few readers go first, as they have least choice; each fills up its least loaded readers like
    water. This is no more than a good start, which for most groups is balanced already. Looks at every
    level of load once a row, and at those members only that get something.

    Args:
        supplies: by row: number of partitions.
        readers: by row: the set of members, with one in it at least where there is a supply.
        shares: by member: row to number of partitions.
        loads: by member: sum of its shares.
        touched: by member: the rows of which it gets some are added.
    """
    at_level: dict[int, int] = {}
    for member, load in enumerate(loads):
        at_level[load] = at_level.get(load, 0) | 1 << member
    order = sorted(
        (row for row, supply in enumerate(supplies) if supply),
        key=lambda row: (readers[row].bit_count(), row),
    )
    for row in order:
        wet, final, extra = _flood(supplies[row], readers[row], at_level)
        risen = 0
        for level in wet:
            group = readers[row] & at_level[level]
            at_level[level] ^= group
            if not at_level[level]:
                del at_level[level]
            risen |= group
            if level < final:
                _add(row, positions(group), final - level, shares, loads, touched)
        if extra:
            members = first(risen, extra)
            _add(row, members, 1, shares, loads, touched)
            higher = bitset(members)
            risen ^= higher
            at_level[final + 1] = at_level.get(final + 1, 0) | higher
        if risen:
            at_level[final] = at_level.get(final, 0) | risen


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


def _add(
    row: int,
    members: list[int],
    number: int,
    shares: list[Counts],
    loads: list[int],
    touched: list[list[int]],
) -> None:
    for member in members:
        share = shares[member]
        if row in share:
            share[row] += number
        else:
            share[row] = number
        loads[member] += number
        touched[member].append(row)
