"""The pool gives everybody what it needs, and spreads topics while it does."""

import random
from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from assignors.sticky.ownership import OrderedPartitions
from assignors.sticky.partition_selection import Singles, UnassignedPartitions
from tests.support.cases import each_case


def test_neighbours_go_to_different_members() -> None:
    holdings: dict[int, OrderedPartitions] = {3: {}, 1: {}}
    UnassignedPartitions({"u": [1, 0], "t": range(3)}, Singles()).deal({3: 2, 1: 3}, holdings)
    assert holdings == {1: {"t": (0, 2), "u": (1,)}, 3: {"t": (1,), "u": (0,)}}


def test_whoever_needs_more_gets_the_last() -> None:
    holdings: dict[int, OrderedPartitions] = {0: {}, 1: {}, 2: {}}
    UnassignedPartitions({"t": [5, 6, 7, 8, 9]}, Singles()).deal({0: 1, 1: 3, 2: 1}, holdings)
    assert holdings == {0: {"t": (5,)}, 1: {"t": (6, 8, 9)}, 2: {"t": (7,)}}


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("tuvw"),
        st.one_of(
            st.integers(1, 30).map(range),
            st.sets(st.integers(0, 50), min_size=1, max_size=30).map(list),
        ),
        min_size=1,
    ),
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
)
def test_everybody_gets_its_number_and_nothing_goes_twice(
    free: dict[str, Sequence[int]], wants: list[int]
) -> None:
    total = sum(map(len, free.values()))
    needs: dict[int, int] = {}
    for member, want in enumerate(wants):
        if want <= total - sum(needs.values()):
            needs[member] = want
    other: OrderedPartitions = {"before": (1,)}
    holdings: dict[int, OrderedPartitions] = {member: dict(other) for member in needs}
    UnassignedPartitions(free, Singles()).deal(needs, holdings)
    seen: Counter[tuple[str, int]] = Counter()
    for member, holding in holdings.items():
        assert holding.pop("before") == (1,)
        assert list(holding) == sorted(holding)
        for topic, numbers in holding.items():
            assert numbers == tuple(sorted(numbers))
            assert numbers
            seen.update((topic, number) for number in numbers)
        assert sum(map(len, holding.values())) == needs[member]
    assert all(count == 1 for count in seen.values())
    assert all(number in free[topic] for topic, number in seen)


@each_case("seed", range(60))
def test_large_tables_are_dealt_one_by_one_too(seed: int) -> None:
    # As many members as it takes for long turns, and sizes that make few of these or many.
    chance = random.Random(seed)
    members = chance.randint(20, 80)
    sizes = [
        members * chance.randint(1, 2) if chance.random() < 0.8 else chance.randint(1, 90)
        for _ in range(chance.randint(2, 6))
    ]
    free: dict[str, Sequence[int]] = {
        f"t{index}": range(size) if chance.random() < 0.7 else range(3, 3 + size)
        for index, size in enumerate(sizes)
    }
    free = {t: n if n[0] == 0 else list(n) for t, n in free.items()}
    pool = [(topic, number) for topic, numbers in free.items() for number in numbers]
    short, long = len(pool) // members, -(-len(pool) // members)
    needs = {m: long if m < len(pool) % members else short for m in range(members)}
    needs = {member: need for member, need in needs.items() if need}
    expected: dict[int, OrderedPartitions] = {member: {} for member in needs}
    for at, (topic, number) in enumerate(pool):
        holding = expected[at % members]
        holding[topic] = (*holding.get(topic, ()), number)
    holdings: dict[int, OrderedPartitions] = {member: {} for member in needs}
    UnassignedPartitions(free, Singles()).deal(needs, holdings)
    assert holdings == expected
    assert all(list(holding) == sorted(holding) for holding in holdings.values())


def test_singles_are_shared() -> None:
    singles = Singles()
    assert list(singles.of(range(3))) == [(0,), (1,), (2,)]
    assert list(singles.of([2, 5])) == [(2,), (5,)]
    assert singles.of([5])[0] is singles.of((1, 5))[1]
    assert list(singles.of(range(2))) == [(0,), (1,)]
    assert not singles.of([])
