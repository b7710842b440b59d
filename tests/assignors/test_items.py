"""Test the sharing out of items."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given, settings, strategies as st

from assignors import assign_range, assign_round_robin


Assign = Callable[[Sequence[int], Iterable[str]], dict[str, list[int]]]

both = pytest.mark.parametrize("assign", [assign_range, assign_round_robin])
items = st.lists(st.integers(), max_size=60)
members = st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=12)


def test_range_gives_runs_of_neighbours_the_longer_ones_first() -> None:
    assert assign_range(range(7), ["c", "a", "b"]) == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_round_robin_deals_out_one_by_one() -> None:
    assert assign_round_robin("stuvw", ["b", "a"]) == {"a": ["s", "u", "w"], "b": ["t", "v"]}


@both
def test_members_without_items_are_named(assign: Assign) -> None:
    assert assign([1], ["b", "a"]) == {"a": [1], "b": []}


@both
def test_items_without_members_are_not_assigned(assign: Assign) -> None:
    assert assign([1, 2], []) == {}


@both
def test_a_member_that_comes_twice_is_refused(assign: Assign) -> None:
    with pytest.raises(ValueError, match="member id 'a' is listed twice"):
        assign([1, 2], ["a", "b", "a"])


@both
def test_a_string_is_not_taken_for_a_list_of_members(assign: Assign) -> None:
    with pytest.raises(TypeError, match="give a list of member ids"):
        assign([1], "ab")


@both
@settings(deadline=None)
@given(items=items, member_ids=members)
def test_every_item_goes_to_exactly_one_member(
    assign: Assign, items: list[int], member_ids: list[str]
) -> None:
    result = assign(items, member_ids)
    assert set(result) == set(member_ids)
    assert Counter(item for share in result.values() for item in share) == Counter(items)


@both
@settings(deadline=None)
@given(items=items, member_ids=members)
def test_counts_differ_by_at_most_one(
    assign: Assign, items: list[int], member_ids: list[str]
) -> None:
    counts = [len(share) for share in assign(items, member_ids).values()]
    assert max(counts) - min(counts) <= 1


@both
@settings(deadline=None)
@given(data=st.data(), items=items, member_ids=members)
def test_the_order_of_the_members_does_not_matter(
    assign: Assign, data: st.DataObject, items: list[int], member_ids: list[str]
) -> None:
    shuffled = data.draw(st.permutations(member_ids))
    assert assign(items, iter(shuffled)) == assign(items, member_ids)


@settings(deadline=None)
@given(items=items, member_ids=members)
def test_range_keeps_the_order_of_the_items(items: list[int], member_ids: list[str]) -> None:
    result = assign_range(items, member_ids)
    assert [item for member in sorted(result) for item in result[member]] == items
