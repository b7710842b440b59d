"""Spans hold what was added to them, whatever the order."""

from hypothesis import given, strategies as st

from groupsdk.broker.log.segment import Spans


RANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(RANGES, st.integers(0, 30), st.integers(0, 30))
def test_spans_are_the_set_of_their_positions(
    ranges: list[tuple[int, int]], start: int, stop: int
) -> None:
    spans = Spans()
    model: set[int] = set()
    for first, last in ranges:
        spans.add(first, last)
        model |= set(range(first, last))
    assert spans.covers(start, stop) == (set(range(start, stop)) <= model)
    pieces = sum(1 for each in model if each - 1 not in model)
    assert len(spans) == pieces
