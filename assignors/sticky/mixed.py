"""Share out where subscriptions differ, or racks matter."""

from collections.abc import Sequence
from operator import itemgetter

from assignors.sticky.bits import bitset, positions
from assignors.sticky.blocks import Block, find_blocks
from assignors.sticky.cheapest import CheapestFlow
from assignors.sticky.claims import Ownership
from assignors.sticky.filling import pour
from assignors.sticky.handover import Changes, hand_over
from assignors.sticky.hands import Hand
from assignors.sticky.levelling import Leveller
from assignors.sticky.rows import Counts, Rows
from assignors.sticky.transport import Prices, Transport


_SPARSE = 8


def share_fairly(ownership: Ownership, rows: Rows, *, moves_first: bool) -> list[Hand]:
    """Give every member its part of a balanced assignment that moves as few partitions as possible.

    Args:
        ownership: the partitions that have an owner, and the others.
        rows: all partitions, and who may have them.
        moves_first: moves count more than partitions off rack; else they count less.
    """
    owned = [rows.count(own) for own in ownership.owned]
    unowned = rows.count(ownership.free)
    supplies = [unowned.get(row, 0) for row in range(len(rows.sizes))]
    leveller = Leveller(rows.readers, owned, [dict(own) for own in owned], list(ownership.sizes))
    pour(supplies, rows.readers, leveller.shares, leveller.loads, leveller.touched)
    for block in find_blocks(leveller, range(len(owned))):
        if not _is_cheapest(block, leveller, owned, rows):
            _solve(block, leveller, owned, rows, moves_first=moves_first)
    needs, excess = _changes(owned, leveller)
    return hand_over(ownership, needs, excess, rows)


def _is_cheapest(block: Block, leveller: Leveller, owned: Sequence[Counts], rows: Rows) -> bool:
    """Tell whether a block keeps as much as any balanced assignment could, by a bound that is quick.

    A member of the block keeps at most `level - 1` of what it owns, or `level` where it is one of the
    `longer` that have so many. Nothing is lost where this says no though it were so.
    """
    members = block.members
    if len(members) == 1:
        return True
    shares = leveller.shares
    if rows.have_racks and any(
        rows.far[row] >> member & 1 for member in members for row in shares[member]
    ):
        return False
    if leveller.givers.isdisjoint(members):
        # Everything is kept.
        return True
    inside = _rows_of(block, shares)
    kept = bound = full = 0
    for member in members:
        own, share = owned[member], shares[member]
        if member in leveller.givers:
            size = sum(count for row, count in own.items() if row in inside)
            kept += sum(min(count, share.get(row, 0)) for row, count in own.items())
        else:
            size = sum(own.values())
            kept += size
        bound += min(size, block.level - 1)
        full += size >= block.level
    return kept == bound + min(full, block.longer)


def _rows_of(block: Block, shares: Sequence[Counts]) -> set[int]:
    found: set[int] = set()
    for member in block.members:
        found.update(shares[member])
    return found


def _solve(
    block: Block, leveller: Leveller, owned: Sequence[Counts], rows: Rows, *, moves_first: bool
) -> None:
    """Find the cheapest balanced assignment of a block; changes the shares of its members."""
    members, shares = block.members, leveller.shares
    inside = sorted(_rows_of(block, shares))
    number = {row: index for index, row in enumerate(inside)}
    place = {member: index for index, member in enumerate(members)}
    mask = bitset(members)
    # The text of a binary number begins with the highest member.
    pick = itemgetter(*[len(shares) - 1 - member for member in reversed(members)])
    width = f"0{len(shares)}b"

    def local(bits: int) -> int:
        inside = bits & mask
        if inside.bit_count() * _SPARSE < len(members):
            return bitset([place[member] for member in positions(inside)])
        return int("".join(pick(format(inside, width))), 2)

    # A path or circle of steps has at most this many that move something, and as many on or off rack: so
    # one of what counts more outweighs all of what counts less that could be had for it.
    weight = 2 * (len(members) + len(inside)) + 1
    if not rows.have_racks:
        prices = Prices(move=1)
    elif moves_first:
        prices = Prices(move=weight, off_rack=1)
    else:
        prices = Prices(move=1, off_rack=weight)
    transport = Transport(
        [local(rows.readers[row]) for row in inside],
        [local(rows.far[row]) for row in inside],
        [rows.sizes[row] for row in inside],
        [
            {number[row]: count for row, count in owned[member].items() if row in number}
            for member in members
        ],
        block.level,
        block.longer,
        prices,
    )
    CheapestFlow(transport).run()
    for member, share in zip(members, transport.result(), strict=True):
        shares[member] = {inside[row]: count for row, count in share.items()}
        leveller.touched[member] = [*owned[member], *shares[member]]


def _changes(owned: Sequence[Counts], leveller: Leveller) -> tuple[Changes, Changes]:
    """Compare what members have now with what they own; returns needs and excess as `hand_over` wants."""
    needs: dict[int, dict[int, int]] = {}
    excess: dict[int, dict[int, int]] = {}
    for member, rows in enumerate(leveller.touched):
        share, own = leveller.shares[member], owned[member]
        for row in sorted(set(rows)) if rows else ():
            more = share.get(row, 0) - own.get(row, 0)
            if more > 0:
                if row in needs:
                    needs[row][member] = more
                else:
                    needs[row] = {member: more}
            elif more < 0:
                excess.setdefault(member, {})[row] = -more
    return needs, excess
