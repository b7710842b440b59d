"""The general case: subscriptions that differ, or racks that matter."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter

from assignors.sticky.bitsets import bitset, positions
from assignors.sticky.components import components, split_block
from assignors.sticky.max_flow import Block, MaxFlowBalancer, find_blocks
from assignors.sticky.min_cost_flow import MinCostFlow, Prices, Transport
from assignors.sticky.ownership import Ownership
from assignors.sticky.partition_rows import Counts, PartitionRows
from assignors.sticky.partition_selection import (
    PartitionSelection,
    select_partitions,
    select_whole_topics,
)
from assignors.sticky.sparse_holdings import Holdings
from assignors.sticky.sparse_max_flow import SparseMaxFlowBalancer
from assignors.sticky.sparse_min_cost_flow import SparseMinCostFlow
from assignors.sticky.sparse_partition_rows import SparsePartitionRows
from assignors.sticky.water_filling import ByMember, Start, even_out, pour as pour_sets
from groupsdk.assignment import Partitions


_SPARSE = 8


def share_fairly(
    ownership: Ownership, rows: PartitionRows, *, moves_first: bool
) -> PartitionSelection:
    """Give every member its part of a balanced assignment that moves as few partitions as possible."""
    if rows.have_racks and not moves_first:
        shared = _share_in_racks(ownership, rows)
        if shared is not None:
            return shared
    start, balancer, blocks = _balance(ownership, rows, rows.readers)
    for block in blocks:
        if _is_cheapest(block, balancer, ownership.sizes, start.owned, rows):
            continue
        connected = partial(_connected, block, balancer.shares, rows)
        for part in split_block(block, balancer.loads, connected):
            if not _is_cheapest(part, balancer, ownership.sizes, start.owned, rows):
                _solve(part, balancer, start.owned, rows, moves_first=moves_first)
    needs, excess = start.changes(balancer.moved)
    return select_partitions(ownership, needs, excess, rows)


def _balance(
    ownership: Ownership, rows: PartitionRows, readers: Sequence[int]
) -> tuple[Start, MaxFlowBalancer, list[Block]]:
    """Balance the loads, where only some members may have what nobody owns of a row."""
    unowned = rows.count(ownership.free)
    supplies = [unowned.get(row, 0) for row in range(len(rows.sizes))]
    loads = list(ownership.sizes)
    poured = pour_sets(supplies, readers, loads)
    even_out(poured, readers, loads)
    start = Start(ownership.owned, rows, poured)
    balancer = MaxFlowBalancer(readers, start.owned, start.shares, loads, start.gained)
    return start, balancer, find_blocks(balancer, range(len(loads)))


def _share_in_racks(ownership: Ownership, rows: PartitionRows) -> PartitionSelection | None:
    """Try to balance with as few partitions off rack as can be; None where that proves nothing.

    Whoever owns what is off rack gives it up, and nobody gets what is off rack there, but for what is so for
    all its readers. If no move off rack makes the loads fairer then, nothing is fairer, and nothing has less off
    rack. If members keep what is on rack up to the loads of their blocks, nothing moves less.
    """
    near = [each & ~far or each for each, far in zip(rows.readers, rows.far, strict=True)]
    on_rack, revoked = _on_rack(ownership, rows, near)
    start, balancer, _ = _balance(on_rack, rows, near)
    loads = list(balancer.loads)
    everybody = balancer.with_readers(rows.readers)
    blocks = find_blocks(everybody, range(len(loads)))
    if everybody.loads != loads:
        return None
    if not all(_keeps_most(each, everybody, on_rack.sizes, start.owned) for each in blocks):
        return None
    needs, excess = start.changes(balancer.moved)
    shared = select_partitions(on_rack, needs, excess, rows)
    for topic, numbers in shared.revoked.items():
        revoked.setdefault(topic, []).extend(numbers)
    return PartitionSelection(shared.holdings, revoked, shared.added)


def _on_rack(
    ownership: Ownership, rows: PartitionRows, near: Sequence[int]
) -> tuple[Ownership, dict[str, list[int]]]:
    """Take from all members what is off rack there; return what they still own, and what was taken."""
    owned: list[Partitions] = []
    revoked: dict[str, list[int]] = {}
    # A row without a reader in its racks counts as on rack.
    gone_in = [
        racks if here != readers else frozenset[str]()
        for racks, here, readers in zip(rows.far_racks, near, rows.readers, strict=True)
    ]
    for own, rack in zip(ownership.owned, rows.member_racks, strict=True):
        left: dict[str, Sequence[int]] = {}
        for topic, numbers in own.items():
            divided = rows.rows_of_topic.get(topic)
            stays: Sequence[int] = ()
            if divided is None or len(numbers) == 1:
                row = rows.row_of_topic[topic] if divided is None else divided[numbers[0]]
                if rack not in gone_in[row]:
                    stays = numbers
            else:
                stays = tuple([n for n in numbers if rack not in gone_in[divided[n]]])
            if stays:
                left[topic] = stays
            if len(stays) < len(numbers):
                gone = set(numbers).difference(stays) if stays else numbers
                revoked.setdefault(topic, []).extend(gone)
        owned.append(left)
    free = dict(ownership.free)
    for topic, taken in revoked.items():
        free[topic] = sorted([*free.get(topic, ()), *taken])
    sizes = [sum(map(len, own.values())) for own in owned]
    return Ownership(owned, sizes, free, ownership.disputed, ownership.holdings), revoked


def share_sparsely(
    ownership: Ownership, rows: SparsePartitionRows, *, moves_first: bool
) -> PartitionSelection:
    """Do the same as `share_fairly` in time that the subscriptions decide, where these are few."""
    sizes, owned = rows.rows.sizes, ownership.owned
    is_wide = bytes(size > 1 for size in sizes)
    holdings = Holdings(ownership.sizes, lambda member: rows.rows.count(owned[member]), is_wide)
    balancer = SparseMaxFlowBalancer(rows, holdings)
    balancer.pour(rows.rows.count(ownership.free))
    prices = _prices(len(holdings.loads) + len(sizes), rows.have_racks, moves_first)
    for block in find_blocks(balancer, range(len(holdings.loads))):
        inside = _held(block, holdings)
        if _cannot_be_cheaper(block, inside, holdings, ownership.sizes, rows):
            continue
        before = None if rows.have_racks else balancer.before
        connected = partial(_connected_sparsely, block, inside, rows)
        for part in split_block(block, holdings.loads, connected):
            if part is not block:
                inside = _held(part, holdings)
                if _cannot_be_cheaper(part, inside, holdings, ownership.sizes, rows):
                    continue
            SparseMinCostFlow(rows, holdings, part, inside, prices, before).run()
    if not rows.rows.rows_of_topic and len(rows.rows.row_of_topic) == len(sizes):
        return select_whole_topics(ownership, rows.rows, holdings.extra, holdings.lost)
    needs, excess = holdings.changes()
    return select_partitions(ownership, needs, excess, rows.rows)


def _held(block: Block, holdings: Holdings) -> set[int] | None:
    """Return the rows of a block; None for all."""
    if len(block.members) == len(holdings.loads):
        return None
    return {row for member in block.members for row in holdings.held(member)}


def _connected_sparsely(
    block: Block, inside: Collection[int] | None, rows: SparsePartitionRows
) -> list[list[int]]:
    """Return the connected components of a block, as places in its members."""
    reads = [rows.read_by(member) for member in block.members]
    if inside is not None:
        reads = [[row for row in each if row in inside] for each in reads]
    return components(reads, len(rows.rows.sizes))


def _cannot_be_cheaper(
    block: Block,
    inside: Collection[int] | None,
    holdings: Holdings,
    sizes: Sequence[int],
    rows: SparsePartitionRows,
) -> bool:
    members, lost = block.members, holdings.lost
    if len(members) == 1:
        return True
    if rows.have_racks and any(
        rows.is_off_rack(row, member) for member in members for row in holdings.held(member)
    ):
        return False
    if not any(map(lost.__getitem__, members)):
        return True
    kept = bound = full = 0
    for member in members:
        size = sizes[member]
        if lost[member]:
            own, less = holdings.owned(member), lost[member]
            if inside is not None:
                size = sum(count for row, count in own.items() if row in inside)
                less = {row: count for row, count in less.items() if row in inside}
            kept -= sum(less.values())
        kept += size
        bound += min(size, block.level - 1)
        full += size >= block.level
    return kept == bound + min(full, block.longer)


def _prices(nodes: int, have_racks: bool, moves_first: bool) -> Prices:
    # A path or circle of steps has at most this many that move something, and as many on or off rack: so
    # one of what counts more outweighs all of what counts less that could be had for it.
    weight = 2 * nodes + 1
    if not have_racks:
        return Prices(move=1)
    if moves_first:
        return Prices(move=weight, off_rack=1)
    return Prices(move=1, off_rack=weight)


def _is_cheapest(
    block: Block,
    balancer: MaxFlowBalancer,
    sizes: Sequence[int],
    owned: ByMember[Counts],
    rows: PartitionRows,
) -> bool:
    """Return whether a block keeps as much as any balanced assignment could, by a bound that is quick.

    A member of the block keeps at most `level - 1` of what it owns, or `level` where it is one of the
    `longer` that have so many. Nothing is lost where this says no though it were so.
    """
    members, shares = block.members, balancer.shares
    if rows.have_racks and any(
        rows.far[row] >> member & 1 for member in members for row in shares[member]
    ):
        # A member alone has all of its rows, wherever they are.
        return len(members) == 1
    return _keeps_most(block, balancer, sizes, owned)


def _keeps_most(
    block: Block, balancer: MaxFlowBalancer, sizes: Sequence[int], owned: ByMember[Counts]
) -> bool:
    members, shares = block.members, balancer.shares
    if len(members) == 1:
        return True
    if balancer.donors.isdisjoint(members):
        # Everything is kept.
        return True
    inside = set(members)
    kept = bound = full = 0
    for member in members:
        size = sizes[member]
        if member in balancer.donors:
            own, share = owned[member], shares[member]
            # A row lies in one block only: where those are that hold some of it.
            size = sum(
                count
                for row, count in own.items()
                if row in share or balancer.receivers[row] in inside
            )
            kept += sum(min(count, share.get(row, 0)) for row, count in own.items())
        else:
            kept += size
        bound += min(size, block.level - 1)
        full += size >= block.level
    return kept == bound + min(full, block.longer)


def _connected(block: Block, shares: ByMember[Counts], rows: PartitionRows) -> list[list[int]]:
    """Return the connected components of a block, as places in its members."""
    mask = bitset(block.members)
    readers = [rows.readers[row] & mask for row in _rows_of(block, shares)]
    seen = readers[0]
    for each in readers:
        if seen & each:
            seen |= each
    if seen == mask:
        return [list(range(len(block.members)))]
    place = {member: index for index, member in enumerate(block.members)}
    audiences = [[place[member] for member in positions(each)] for each in readers]
    read = set(chain.from_iterable(audiences))
    alone = [[index] for index in range(len(block.members)) if index not in read]
    found = [
        sorted(set(chain.from_iterable(audiences[index] for index in part)))
        for part in components(audiences, len(block.members))
    ]
    return [*found, *alone]


def _rows_of(block: Block, shares: ByMember[Counts]) -> set[int]:
    found: set[int] = set()
    for member in block.members:
        found.update(shares[member])
    return found


def _solve(
    block: Block,
    balancer: MaxFlowBalancer,
    owned: ByMember[Counts],
    rows: PartitionRows,
    *,
    moves_first: bool,
) -> None:
    """Find the cheapest balanced assignment of a block; changes the shares of its members."""
    members, shares = block.members, balancer.shares
    inside = sorted(_rows_of(block, shares))
    local = _narrowing(members, len(balancer.loads))
    number = {row: index for index, row in enumerate(inside)}
    all_inside = len(inside) == len(rows.sizes)
    prices = _prices(len(members) + len(inside), rows.have_racks, moves_first)
    transport = Transport(
        readers=[local(rows.readers[row]) for row in inside],
        far=[local(rows.far[row]) for row in inside] if rows.have_racks else [0] * len(inside),
        sizes=[rows.sizes[row] for row in inside],
        owned=[
            owned[member]
            if all_inside
            else {number[row]: count for row, count in owned[member].items() if row in number}
            for member in members
        ],
        level=block.level,
        longer=block.longer,
        prices=prices,
    )
    MinCostFlow(transport).run()
    for member, share in zip(members, transport.result(), strict=True):
        found = share if all_inside else {inside[row]: count for row, count in share.items()}
        if changed := found.items() ^ shares[member].items():
            balancer.moved.setdefault(member, set()).update([row for row, _ in changed])
            shares[member] = found


def _narrowing(members: Sequence[int], everyone: int) -> Callable[[int], int]:
    """Return what makes of a set of members one of their places in a list of some of them."""
    if len(members) == everyone:
        return lambda bits: bits
    place = {member: index for index, member in enumerate(members)}
    mask = bitset(members)
    # The text of a binary number begins with the highest member.
    pick = itemgetter(*[everyone - 1 - member for member in reversed(members)])
    width = f"0{everyone}b"

    def narrow(bits: int) -> int:
        inside = bits & mask
        if inside.bit_count() * _SPARSE < len(members):
            return bitset([place[member] for member in positions(inside)])
        return int("".join(pick(format(inside, width))), 2)

    return narrow
