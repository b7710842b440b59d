"""The connected components of a block: found as a search finds them, and balanced as they are."""

import random

import pytest
from hypothesis import given, strategies as st

from assignors.sticky.components import components, split_block
from assignors.sticky.max_flow import Block


ITEMS = 12


def searched(groups: list[list[int]]) -> list[list[int]]:
    """Find the same by merging what shares an item until nothing does."""
    parts = [({index}, set(group)) for index, group in enumerate(groups)]
    merged = True
    while merged:
        merged = False
        for one in parts:
            for other in parts:
                if one is not other and one[1] & other[1]:
                    one[0].update(other[0])
                    one[1].update(other[1])
                    parts.remove(other)
                    merged = True
                    break
            if merged:
                break
    return sorted(sorted(indexes) for indexes, _ in parts)


@given(st.lists(st.lists(st.integers(0, ITEMS - 1), max_size=3), max_size=14))
def test_components_are_those_that_a_search_finds(groups: list[list[int]]) -> None:
    assert sorted(map(sorted, components(groups, ITEMS))) == searched(groups)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_chain_is_one_component_in_either_order(*, backwards: bool) -> None:
    links = [[number, number + 1] for number in range(500)]
    if backwards:
        links.reverse()
    assert components(links, 501) == [list(range(500))]


def test_a_block_is_split_into_parts_with_loads_of_their_own() -> None:
    members = list(range(0, 400, 2))
    loads = [random.Random(1).choice((2, 3)) for _ in range(400)]
    longer = sum(loads[member] == 3 for member in members)
    pairs = [[place, place + 100] for place in range(100)]
    parts = list(split_block(Block(members, 3, longer), loads, lambda: pairs))
    assert sorted(member for part in parts for member in part.members) == members
    assert sum(part.longer for part in parts) == longer
    assert all(part.longer == sum(loads[each] == 3 for each in part.members) for part in parts)
    # a few components share a flow, and members that are connected share a part
    assert len(parts) == 4
    assert all(
        {each + 200 for each in part.members if each < 200} <= {*part.members} for part in parts
    )


def test_a_connected_block_stays_as_it_is() -> None:
    block = Block(list(range(100)), 1, 100)
    assert list(split_block(block, [1] * 100, lambda: [list(range(100))])) == [block]
