"""The flow is the cheapest: compared with all there are."""

import random
from collections.abc import Iterator
from itertools import product

import pytest

from assignors.sticky.min_cost_flow import MinCostFlow, Prices, Transport
from assignors.sticky.partition_rows import Counts
from tests.support.cases import each_case


def _splits(size: int, readers: list[int]) -> Iterator[dict[int, int]]:
    """List all ways to share out a row."""
    if len(readers) == 1:
        yield {readers[0]: size}
        return
    for first in range(size + 1):
        for rest in _splits(size - first, readers[1:]):
            yield {readers[0]: first, **rest}


def _assignments(
    sizes: list[int], readers: list[list[int]], members: int
) -> Iterator[list[Counts]]:
    """List all ways to share out all rows."""
    rows = range(len(sizes))
    for splits in product(*(list(_splits(sizes[row], readers[row])) for row in rows)):
        yield [
            {row: splits[row][member] for row in rows if member in splits[row]}
            for member in range(members)
        ]


def _cost(shares: list[Counts], owned: list[Counts], far: list[int], prices: Prices) -> int:
    return sum(
        max(0, count - owned[member].get(row, 0)) * prices.move
        + (count * prices.off_rack if far[row] >> member & 1 else 0)
        for member, share in enumerate(shares)
        for row, count in share.items()
    )


@each_case("seed", range(300))
def test_no_other_assignment_is_cheaper(seed: int) -> None:
    chance = random.Random(seed)
    members, rows = chance.randint(2, 4), chance.randint(1, 3)
    readers = [
        sorted(chance.sample(range(members), chance.randint(1, members))) for _ in range(rows)
    ]
    sizes = [chance.randint(1, 4) for _ in range(rows)]
    far = [
        sum(1 << m for m in those if chance.random() < 0.4) if seed & 1 else 0 for those in readers
    ]
    owned: list[Counts] = [{} for _ in range(members)]
    for row, those in enumerate(readers):
        for _ in range(sizes[row]):
            if chance.random() < 0.8:
                member = chance.choice(those)
                owned[member][row] = owned[member].get(row, 0) + 1
    prices = chance.choice((Prices(1, 0), Prices(1, 50), Prices(50, 1)))
    if not any(far):
        prices = Prices(1)
    level, longer = divmod(sum(sizes), members)
    level, longer = (level + 1, longer) if longer else (level, members)

    costs = [
        _cost(shares, owned, far, prices)
        for shares in _assignments(sizes, readers, members)
        if sorted(sum(share.values()) for share in shares)
        == [level - 1] * (members - longer) + [level] * longer
    ]
    transport = Transport(
        [sum(1 << m for m in those) for those in readers], far, sizes, owned, level, longer, prices
    )
    if not costs:
        with pytest.raises(RuntimeError, match="no room"):
            MinCostFlow(transport).run()
        return
    MinCostFlow(transport).run()
    result = transport.result()
    assert _cost(result, owned, far, prices) == min(costs)
    assert (
        sorted(sum(share.values()) for share in result)
        == [level - 1] * (members - longer) + [level] * longer
    )
    for row, those in enumerate(readers):
        assert sum(share.get(row, 0) for share in result) == sizes[row]
        assert all(member in those for member, share in enumerate(result) if row in share)
