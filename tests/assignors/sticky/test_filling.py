"""Rows are poured onto the least loaded of their readers."""

from hypothesis import given, settings, strategies as st

from assignors.sticky.bits import bitset
from assignors.sticky.filling import pour
from assignors.sticky.rows import Counts


def test_fills_up_the_low_ones_first() -> None:
    shares: list[Counts] = [{}, {}, {}, {}]
    loads = [5, 0, 2, 0]
    touched: list[list[int]] = [[], [], [], []]
    pour([6], [0b0111], shares, loads, touched)
    assert loads == [5, 4, 4, 0]
    assert shares == [{}, {0: 4}, {0: 2}, {}]
    assert touched == [[], [0], [0], []]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 25), st.sets(st.integers(0, 5), min_size=1)), max_size=5),
)
def test_is_like_one_after_the_other_to_the_lowest(
    before: list[int], rows: list[tuple[int, set[int]]]
) -> None:
    rows = [
        (supply, readers)
        for supply, wanted in rows
        if (readers := {m for m in wanted if m < len(before)})
    ]
    loads = list(before)
    shares: list[Counts] = [{} for _ in loads]
    touched: list[list[int]] = [[] for _ in loads]
    pour([s for s, _ in rows], [bitset(r) for _, r in rows], shares, loads, touched)

    expected = list(before)
    order = sorted(range(len(rows)), key=lambda row: (len(rows[row][1]), row))
    for row in order:
        supply, readers = rows[row]
        for _ in range(supply):
            expected[min(readers, key=lambda m: (expected[m], m))] += 1
    assert loads == expected
    for row, (supply, readers) in enumerate(rows):
        assert sum(share.get(row, 0) for share in shares) == supply
        assert {m for m, share in enumerate(shares) if row in share} <= readers
    for member, share in enumerate(shares):
        assert set(touched[member]) == share.keys()
        assert loads[member] == before[member] + sum(share.values())
