"""Blocks are level, closed, and balanced together."""

import random

from assignors.sticky.bitsets import bitset
from assignors.sticky.max_flow import Block, MaxFlowBalancer, find_blocks
from assignors.sticky.partition_rows import Counts
from tests.support.cases import each_case


def _none(members: int) -> list[Counts]:
    return [{} for _ in range(members)]


def test_dense_part_and_the_rest() -> None:
    # Row 0 is read by members 0 and 1 only, row 1 by all.
    balancer = MaxFlowBalancer([0b0011, 0b1111], _none(4), [{0: 10}, {}, {1: 3}, {}], [10, 0, 3, 0])
    blocks = find_blocks(balancer, range(4))
    assert blocks == [Block([2, 3], 2, 1), Block([0, 1], 5, 2)]
    assert balancer.loads == [5, 5, 2, 1]


def test_balancer_without_partitions_has_no_blocks() -> None:
    assert find_blocks(MaxFlowBalancer([1], _none(1), _none(1), [0]), [0]) == []


@each_case("seed", range(400))
def test_no_load_can_be_bettered_in_any_block(seed: int) -> None:
    chance = random.Random(seed)
    members, rows = chance.randint(1, 10), chance.randint(1, 8)
    readers = [
        chance.sample(range(members), chance.randint(1, min(4, members))) for _ in range(rows)
    ]
    shares: list[Counts] = [{} for _ in range(members)]
    for row, those in enumerate(readers):
        for _ in range(chance.randint(1, 12)):
            member = chance.choice(those)
            shares[member][row] = shares[member].get(row, 0) + 1
    owned = [dict(share) if chance.random() < 0.5 else Counts() for share in shares]
    loads = [sum(share.values()) for share in shares]
    balancer = MaxFlowBalancer(list(map(bitset, readers)), owned, shares, loads)
    blocks = find_blocks(balancer, range(members))

    _check_blocks(blocks, balancer)
    # No path leads from a load to one that is two less: then the loads are the fairest there are.
    for source in range(members):
        reached = _reached(source, readers, shares)
        assert min(loads[member] for member in reached) >= loads[source] - 1


def _check_blocks(blocks: list[Block], balancer: MaxFlowBalancer) -> None:
    loads = balancer.loads
    seen = [member for block in blocks for member in block.members]
    assert len(seen) == len(set(seen))
    assert all(not loads[member] for member in range(len(loads)) if member not in seen)
    home: dict[int, Block] = {}
    for block in blocks:
        assert all(loads[m] in (block.level, block.level - 1) for m in block.members)
        assert block.longer == sum(loads[m] == block.level for m in block.members)
        for member in block.members:
            assert all(home.setdefault(row, block) is block for row in balancer.shares[member])


def _reached(source: int, readers: list[list[int]], shares: list[Counts]) -> set[int]:
    """Find whom a member could pass something to, directly or through others."""
    reached, frontier = {source}, [source]
    while frontier:
        for row in shares[frontier.pop()]:
            frontier += (new := set(readers[row]) - reached)
            reached |= new
    return reached
