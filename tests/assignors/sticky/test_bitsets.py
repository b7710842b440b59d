"""Bit sets behave as sets of numbers do."""

from hypothesis import given, settings, strategies as st

from assignors.sticky.bitsets import bitset, first, lowest, positions, transpose


# Sparse and dense, short and long: each takes another way inside.
_SETS = st.one_of(
    st.sets(st.integers(0, 20)),
    st.sets(st.integers(0, 3000), max_size=60),
    st.integers(1, 400).map(lambda size: set(range(0, size, 2))),
)


@settings(deadline=None)
@given(_SETS)
def test_a_set_goes_in_and_comes_out_in_order(numbers: set[int]) -> None:
    bits = bitset(numbers)
    assert bits == sum(1 << number for number in numbers)
    assert positions(bits) == sorted(numbers)
    assert bitset(sorted(numbers) * 2) == bits
    if numbers:
        assert lowest(bits) == min(numbers)


@settings(deadline=None)
@given(_SETS, st.data())
def test_first_are_the_smallest(numbers: set[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(numbers)))
    least = sorted(numbers)[:count]
    assert first(bitset(numbers), count) == bitset(least)


@settings(deadline=None)
@given(st.lists(_SETS, max_size=12), st.integers(0, 5))
def test_transposed_twice_is_what_it_was(sets: list[set[int]], more: int) -> None:
    width = max((max(each, default=-1) for each in sets), default=-1) + 1 + more
    bits = list(map(bitset, sets))
    turned = transpose(bits, width)
    assert len(turned) == width
    for number, column in enumerate(turned):
        assert positions(column) == [i for i, each in enumerate(sets) if number in each]
    assert transpose(turned, len(sets)) == bits
