"""Lists of readers say the same as sets of bits, and holdings keep count."""

import random

import pytest

from assignors.sticky.bits import positions
from assignors.sticky.links import Holdings, Links, make_links, pour
from assignors.sticky.readership import Readership
from assignors.sticky.rows import make_rows
from tests.assignors.sticky.random_groups import random_group


def test_rows_are_those_of_sets() -> None:
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
        counts = {topic: count for topic, count in counts.items() if topic in read}
        racks = [each.rack_id for each in group.subscriptions.values()][: len(subscribed)]
        readership = Readership(subscribed, counts)

        dense = make_rows(readership, counts, racks, group.cluster.replica_racks)
        rows, links = make_links(readership, counts, racks, group.cluster.replica_racks)

        assert links.have_racks == dense.have_racks, seed
        for topic, count in counts.items():
            for number in range(count):
                (one,), (other,) = (each.count({topic: (number,)}) for each in (rows, dense))
                assert list(links.readers[one]) == positions(dense.readers[other]), seed
                assert sorted(links.far[one]) == positions(dense.far[other]), seed
                assert rows.sizes[one] == dense.sizes[other], seed


def test_holdings_keep_what_differs_from_what_is_owned() -> None:
    asked = []

    def owned(member: int) -> dict[int, int]:
        asked.append(member)
        return {0: 2, 1: 1}

    holdings = Holdings([3, 0], owned)
    holdings.take(0, 0, 1)
    holdings.add(0, 7, 2)
    assert (holdings.extra[0], holdings.lost[0], asked) == ({7: 2}, {0: 1}, [])
    assert sorted(holdings.held(0)) == [0, 1, 7]
    assert [holdings.left(0, row) for row in (0, 1, 7, 9)] == [1, 1, 2, 0]
    assert holdings.changes() == ({7: {0: 2}}, {0: {0: 1}})
    # What it gets back is its own first, and what it gives is not its own first.
    holdings.add(0, 0, 3)
    assert (holdings.extra[0], holdings.lost[0]) == ({7: 2, 0: 2}, {})
    holdings.take(0, 0, 4)
    assert (holdings.extra[0], holdings.lost[0]) == ({7: 2}, {0: 2})
    assert sorted(holdings.held(0)) == [1, 7]
    assert asked == [0]


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
    holdings = Holdings(loads, lambda member: {})
    pour({0: supply}, Links([(0, 1, 2)], [frozenset()]), holdings)
    assert sorted(holdings.loads) == sorted(expected)
    gained = [sum(extra.values()) for extra in holdings.extra]
    assert [load + more for load, more in zip(loads, gained, strict=True)] == holdings.loads
