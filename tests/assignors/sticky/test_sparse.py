"""Very large and sparse groups: rows as with sets of bits, holdings, levels, and the cheapest flow.

Whole groups are compared with the exact solver in test_plan.
"""

import random

import pytest

from assignors.sticky.bitsets import bitset, positions
from assignors.sticky.max_flow import Block, MaxFlowBalancer, find_blocks
from assignors.sticky.min_cost_flow import Prices
from assignors.sticky.partition_rows import Counts, PartitionRows, make_partition_rows
from assignors.sticky.sparse_holdings import NOBODY, Holdings
from assignors.sticky.sparse_max_flow import SparseMaxFlowBalancer
from assignors.sticky.sparse_min_cost_flow import SparseMinCostFlow
from assignors.sticky.sparse_partition_rows import (
    Racks,
    SparsePartitionRows,
    make_sparse_partition_rows,
)
from assignors.sticky.subscription_index import SubscriptionIndex
from tests.assignors.sticky.random_groups import random_group


def _rows(
    readers: list[tuple[int, ...]],
    sizes: list[int],
    members: int,
    member_racks: tuple[str, ...] = (),
    racks: tuple[Racks, ...] = (),
) -> SparsePartitionRows:
    reads = [[row for row, those in enumerate(readers) if m in those] for m in range(members)]
    return SparsePartitionRows(
        PartitionRows(sizes, [], [], {}, {}), reads, range(members), member_racks, racks
    )


def _holdings(owned: list[Counts], sizes: list[int], *, wide: bool = False) -> Holdings:
    is_wide = bytes(wide or size > 1 for size in sizes)
    return Holdings([sum(own.values()) for own in owned], owned.__getitem__, is_wide)


def test_rows_are_those_of_sets_or_finer() -> None:
    for seed in range(400):
        group = random_group(random.Random(seed))
        counts = dict(group.cluster.partition_counts)
        shared: dict[tuple[str, ...], list[str]] = {}
        subscribed = [
            # lists that are equal are one object, as in a plan; a topic may come twice
            shared.setdefault(tuple(known), known)
            for each in group.subscriptions.values()
            for known in [[t for t in (*each.topics, *each.topics[:1]) if t in counts]]
            if known
        ]
        read = {topic for topics in subscribed for topic in topics}
        if not read:
            continue
        counts = {topic: count for topic, count in counts.items() if topic in read}
        racks = [each.rack_id for each in group.subscriptions.values()][: len(subscribed)]
        subscription_index = SubscriptionIndex(subscribed, counts)

        dense = make_partition_rows(subscription_index, counts, racks, group.cluster.replica_racks)
        sparse = make_sparse_partition_rows(
            subscription_index, counts, racks, group.cluster.replica_racks
        )

        assert sum(sparse.rows.sizes) == sum(counts.values()), seed
        everyone = range(len(subscribed))
        for topic, count in counts.items():
            for number in range(count):
                (one,), (other,) = (each.count({topic: (number,)}) for each in (sparse.rows, dense))
                readers = [member for member in everyone if one in sparse.read_by(member)]
                assert readers == positions(dense.readers[other]), seed
                assert sparse.rows.sizes[one] <= dense.sizes[other], seed
                if sparse.have_racks:
                    far = [member for member in readers if sparse.is_off_rack(one, member)]
                    assert far == positions(dense.far[other]), seed
                else:
                    assert not dense.far[other], seed


def test_members_that_read_alike_share_a_list_in_any_order_of_its_topics() -> None:
    subscribed = [["a", "b", "c"], ["c", "b", "a", "a"], ["b", "c", "a"], ["c"]]
    subscription_index = SubscriptionIndex(subscribed, ["a", "b", "c"])
    rows = make_sparse_partition_rows(subscription_index, {"a": 1, "b": 2, "c": 1}, [None] * 4, {})
    assert rows.rows.sizes == [3, 1]
    assert [list(rows.read_by(member)) for member in range(4)] == [[0, 1]] * 3 + [[1]]


def test_holdings_keep_what_differs_from_what_is_owned() -> None:
    asked = []

    def owned(member: int) -> Counts:
        asked.append(member)
        return {0: 2, 1: 1} if member == 0 else {}

    holdings = Holdings([3, 0], owned, bytes([1, 0, 0, 1]))
    holdings.take(0, 0, 1)
    holdings.add(0, 3, 2)
    assert (holdings.extra[0], holdings.lost[0], asked) == ({3: 2}, {0: 1}, [])
    assert sorted(holdings.held(0)) == [0, 1, 3]
    assert [holdings.left(0, row) for row in range(4)] == [1, 1, 0, 2]
    assert holdings.changes() == ({3: {0: 2}}, {0: {0: 1}})
    # What it gets back is its own first, and what it gives is not its own first.
    holdings.add(0, 0, 3)
    assert (holdings.extra[0], holdings.lost[0]) == ({3: 2, 0: 2}, {})
    holdings.take(0, 0, 4)
    assert (holdings.extra[0], holdings.lost[0]) == ({3: 2}, {0: 2})
    assert sorted(holdings.held(0)) == [1, 3]
    assert asked == [0]


def test_holders_are_known_by_row() -> None:
    holdings = Holdings([3, 0], [{0: 2, 1: 1}, {}].__getitem__, bytes([1, 0, 0]))
    holdings.add(1, 2, 1)
    assert (holdings.holder, holdings.holders(0)) == ([NOBODY, NOBODY, 1], ())
    holdings.show_owned()
    assert (holdings.holder, holdings.holders(0)) == ([NOBODY, 0, 1], (0,))
    holdings.take(0, 1, 1)
    holdings.add(1, 1, 1)
    holdings.take(0, 0, 1)
    holdings.add(1, 0, 1)
    assert (holdings.holder, holdings.holders(0)) == ([NOBODY, 1, 1], (1, 0))
    assert list(holdings.is_extra) == [0, 1, 1]
    holdings.reset([0, 1], [{}, {2: 1}], [{}, {}])
    assert (holdings.holder, holdings.holders(0)) == ([NOBODY, 0, 1], (0,))
    assert list(holdings.is_extra) == [0, 0, 1]
    assert (holdings.extra, holdings.lost) == ([{}, {2: 1}], [{}, {}])


@pytest.mark.parametrize(
    ("supply", "loads", "expected"),
    [
        (1, [2, 1, 3], [2, 2, 3]),
        (4, [2, 1, 3], [4, 3, 3]),
        (2, [5, 1, 1], [5, 2, 2]),
        (9, [0, 0, 9], [5, 4, 9]),
    ],
)
def test_pouring_fills_the_least_loaded(supply: int, loads: list[int], expected: list[int]) -> None:
    holdings = Holdings(loads, lambda member: {}, bytes([1]))
    balancer = SparseMaxFlowBalancer(_rows([(0, 1, 2)], [supply], 3), holdings)
    balancer.pour({0: supply})
    find_blocks(balancer, range(3))
    assert sorted(holdings.loads) == sorted(expected)
    gained = [sum(extra.values()) for extra in holdings.extra]
    assert [load + more for load, more in zip(loads, gained, strict=True)] == holdings.loads


def test_pouring_goes_round_through_others() -> None:
    # 0 takes row 0 before 1 can, who reads nothing else; rows 2 and 3 are left for 0 then.
    holdings = Holdings([0, 0], lambda member: {}, bytes(4))
    rows = _rows([(0, 1), (0, 1), (0,), (0,)], [1] * 4, 2)
    SparseMaxFlowBalancer(rows, holdings).pour(dict.fromkeys(range(4), 1))
    assert holdings.loads == [2, 2]
    assert holdings.holder == [1, 1, 0, 0]


def _both(
    readers: list[tuple[int, ...]], owned: list[Counts]
) -> tuple[list[Block], list[Block], SparseMaxFlowBalancer]:
    sizes = [sum(own.get(row, 0) for own in owned) for row in range(len(readers))]
    loads = [sum(own.values()) for own in owned]
    dense = MaxFlowBalancer(
        [bitset(each) for each in readers], owned, [dict(own) for own in owned], list(loads)
    )
    sparse = SparseMaxFlowBalancer(_rows(readers, sizes, len(owned)), _holdings(owned, sizes))
    everyone = range(len(owned))
    return find_blocks(dense, everyone), find_blocks(sparse, everyone), sparse


def _loads(blocks: list[Block]) -> list[int]:
    # Members without anything may be in a block or in none.
    loads = [
        block.level - (place >= block.longer)
        for block in blocks
        for place in range(len(block.members))
    ]
    return sorted(filter(None, loads))


@pytest.mark.parametrize("most", [1, 4])
def test_the_loads_are_the_same(most: int) -> None:
    for seed in range(500):
        chance = random.Random(seed)
        members = range(chance.randint(1, 12))
        readers = [
            tuple(sorted(chance.sample(members, chance.randint(1, len(members)))))
            for _ in range(chance.randint(1, 10 if most > 1 else 40))
        ]
        owned: list[Counts] = [{} for _ in members]
        for row, audience in enumerate(readers):
            for _ in range(chance.randint(0, 3) if most > 1 else 1):
                # mostly the first one, so that loads are uneven
                member = audience[0] if chance.random() < 0.7 else chance.choice(audience)
                owned[member][row] = owned[member].get(row, 0) + chance.randint(1, most)

        dense, sparse, balancer = _both(readers, owned)

        # Where loads are next to each other two blocks may be one as well.
        assert _loads(sparse) == _loads(dense), seed
        for block in sparse:
            found = sorted(balancer.loads[member] for member in block.members)
            assert list(filter(None, found)) == _loads([block]), seed
        assert sum(balancer.loads) == sum(sum(own.values()) for own in owned)


@pytest.mark.parametrize("size", [1, 50])
def test_long_chains_are_levelled_too(size: int) -> None:
    # What the last member lacks comes from all others, through those between: shortest paths alone would take
    # a round for each length.
    members = 200
    readers = [(member, member + 1) for member in range(members - 1) for _ in range(50 // size)]
    owned: list[Counts] = [{} for _ in range(members)]
    for row, (first, _) in enumerate(readers):
        owned[first][row] = size

    dense, sparse, balancer = _both([*readers], owned)

    assert _loads(sparse) == _loads(dense)
    assert max(balancer.loads) - min(balancer.loads) == 1


def test_topics_that_could_not_be_levelled_are_returned() -> None:
    holdings = _holdings([{0: 4}, {}, {1: 1}, {}], [4, 1, 1])
    balancer = SparseMaxFlowBalancer(_rows([(0, 1), (2, 3)], [4, 1], 4), holdings)

    # 3 has room, and could get something from 2, who could not from anybody.
    assert positions(balancer.balance([0, 1, 2, 3], 1)) == [0, 1]
    assert balancer.loads == [3, 1, 1, 0]
    assert balancer.before == [{}, {}, {}, {}]
    assert balancer.balance([0, 1], 2) == 0
    assert balancer.loads == [2, 2, 1, 0]


def test_a_detour_that_moves_less_is_found() -> None:
    # Member 0 owns too much of row 0, which 1 and 2 read; 2 has room, and 1 got of row 0 what nobody owned.
    rows = _rows([(0, 1, 2), (1, 2)], [5, 1], 3)
    holdings = _holdings([{0: 3}, {1: 1}, {}], [5, 1])
    block = Block([0, 1, 2], 2, 3)

    SparseMinCostFlow(rows, holdings, block, None, Prices(move=1), [{}, {0: 2}, {}]).run()

    # 1 gives what it does not own, for nothing; 0 gives one of its own.
    assert holdings.lost == [{0: 1}, {}, {}]
    assert holdings.extra == [{}, {0: 1}, {0: 2}]


def test_racks_come_at_their_price() -> None:
    # Row 0 is far from member 0, which owns it; member 1 owns row 1, far from it.
    racks = (frozenset("b"), frozenset("a"))
    rows = _rows([(0, 1), (0, 1)], [1, 1], 2, ("a", "b"), racks)
    for prices, lost in (
        (Prices(move=1, off_rack=9), [{0: 1}, {1: 1}]),
        (Prices(move=9, off_rack=1), [{}, {}]),
    ):
        holdings = _holdings([{0: 1}, {1: 1}], [1, 1], wide=True)
        SparseMinCostFlow(rows, holdings, Block([0, 1], 1, 2), None, prices, None).run()
        assert holdings.lost == lost


def test_no_room_is_an_error() -> None:
    holdings = _holdings([{0: 3}, {}], [3])
    rows = _rows([(0,)], [3], 2)
    flow = SparseMinCostFlow(rows, holdings, Block([0, 1], 2, 1), None, Prices(), [{}, {}])
    with pytest.raises(RuntimeError, match="no room for all partitions of a block"):
        flow.run()
