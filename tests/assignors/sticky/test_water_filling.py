"""Rows are poured onto the least loaded of their readers."""

from hypothesis import given, strategies as st

from assignors.sticky.bitsets import bitset
from assignors.sticky.water_filling import Poured, even_out, pour


Row = tuple[int, set[int]]
"""How much there is to pour, and the members that may get it."""

loads_and_rows = given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 25), st.sets(st.integers(0, 5), min_size=1)), max_size=5),
)


def readable(rows: list[Row], members: int) -> list[Row]:
    """Leave out members that are not there, and rows without any."""
    among = [(supply, {each for each in wanted if each < members}) for supply, wanted in rows]
    return [(supply, readers) for supply, readers in among if readers]


def check_gains(poured: Poured, rows: list[Row], before: list[int], loads: list[int]) -> None:
    """Check that each row went to its readers as a whole, and that the loads grew by just that."""
    gained = [0] * len(loads)
    for row, (supply, readers) in enumerate(rows):
        gains = poured.gains.get(row, {})
        assert sum(gains.values()) == supply
        assert gains.keys() <= readers
        assert all(gain > 0 for gain in gains.values())
        assert poured.receivers.get(row, 0) == bitset(gains)
        for member, gain in gains.items():
            gained[member] += gain
    assert [load - old for load, old in zip(loads, before, strict=True)] == gained


def test_fills_up_the_low_ones_first() -> None:
    loads = [5, 0, 2, 0]
    poured = pour([6, 0], [0b0111, 0], loads)
    assert loads == [5, 4, 4, 0]
    assert poured.gains == {0: {1: 4, 2: 2}}
    assert poured.receivers == {0: 0b0110}


@loads_and_rows
def test_is_like_one_after_the_other_to_the_lowest(before: list[int], rows: list[Row]) -> None:
    rows = readable(rows, len(before))
    loads = list(before)
    poured = pour([s for s, _ in rows], [bitset(r) for _, r in rows], loads)

    expected = list(before)
    order = sorted(range(len(rows)), key=lambda row: (len(rows[row][1]), row))
    for row in order:
        supply, readers = rows[row]
        for _ in range(supply):
            expected[min(readers, key=lambda m: (expected[m], m))] += 1
    assert loads == expected
    check_gains(poured, rows, before, loads)


@loads_and_rows
def test_evening_out_moves_what_was_poured_and_nothing_else(
    before: list[int], rows: list[Row]
) -> None:
    rows = readable(rows, len(before))
    sets = [bitset(readers) for _, readers in rows]
    loads = list(before)
    poured = pour([supply for supply, _ in rows], sets, loads)
    top = -(-sum(loads) // len(loads))
    uneven = sum(abs(load - top) for load in loads)
    even_out(poured, sets, loads)
    assert sum(abs(load - top) for load in loads) <= uneven
    check_gains(poured, rows, before, loads)


def test_evening_out_ends_with_the_mean_where_one_step_is_enough() -> None:
    loads = [6, 1, 1]
    poured = Poured({0: {0: 4}, 1: {0: 2, 1: 1, 2: 1}}, {0: 0b001, 1: 0b111})
    even_out(poured, [0b011, 0b111], loads)
    assert sorted(loads) == [2, 3, 3]


def test_evening_out_is_over_after_some_rounds() -> None:
    loads = [1_000, 0]
    poured = Poured({0: {0: 1_000}}, {0: 0b01})
    even_out(poured, [0b11], loads)
    assert sum(loads) == 1_000
    assert poured.gains == {0: dict(enumerate(loads))}
