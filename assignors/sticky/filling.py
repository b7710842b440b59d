"""Pour partitions that nobody owns onto the members that have least, before anything is balanced exactly."""

from collections.abc import Sequence

from assignors.sticky.bits import bitset, positions
from assignors.sticky.rows import Counts


def pour(
    supplies: Sequence[int], readers: Sequence[int], shares: list[Counts], loads: list[int]
) -> dict[int, set[int]]:
    """Give out `supplies[row]` partitions of every row; changes `shares` and `loads`.

    Rows with few readers go first, as they have least choice; each fills up its least loaded readers like
    water. This is no more than a good start, which for most groups is balanced already. Looks at every
    level of load once a row, and at those members only that get something.

    Returns:
        By row: the members that got some.
    """
    at_level: dict[int, int] = {}
    for member, load in enumerate(loads):
        at_level[load] = at_level.get(load, 0) | 1 << member
    order = sorted(
        (row for row, supply in enumerate(supplies) if supply),
        key=lambda row: (readers[row].bit_count(), row),
    )
    return {
        row: _pour_row(row, supplies[row], readers[row], at_level, shares, loads) for row in order
    }


def _pour_row(
    row: int,
    supply: int,
    readers: int,
    at_level: dict[int, int],
    shares: list[Counts],
    loads: list[int],
) -> set[int]:
    wet: list[int] = []
    poured: set[int] = set()
    count, level, left = 0, 0, supply
    for next_level in sorted(at_level):
        group = readers & at_level[next_level]
        if not group:
            continue
        if count and left < (next_level - level) * count:
            break
        left -= (next_level - level) * count
        level = next_level
        count += group.bit_count()
        wet.append(level)
        if count >= left:
            # The water does not rise above the level by more than one.
            break
    rise, above = divmod(left, count)
    final = level + rise
    on_final = 0
    for old in wet:
        group = readers & at_level[old]
        at_level[old] ^= group
        if not at_level[old]:
            del at_level[old]
        on_final |= group
        gain = final - old
        if gain:
            rising = positions(group)
            poured.update(rising)
            for member in rising:
                share = shares[member]
                share[row] = share.get(row, 0) + gain
                loads[member] = final
    if above:
        raised = positions(on_final)[:above]
        poured.update(raised)
        higher = bitset(raised)
        on_final ^= higher
        at_level[final + 1] = at_level.get(final + 1, 0) | higher
        for member in raised:
            share = shares[member]
            share[row] = share.get(row, 0) + 1
            loads[member] = final + 1
    if on_final:
        at_level[final] = at_level.get(final, 0) | on_final
    return poured
