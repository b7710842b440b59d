"""Very many groups, and very many generations of one: memory does not grow with either."""

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from examples.history_log import Seat, generation
from groupsdk.history.explain.timeline.rows import GenerationRow, GroupRecord
from tests.history.explain.timelines import follow_groups


FEW, MANY = 200, 2_000
ONE = Seat("one", {"t": [0, 1]})
BOTH = {"a": ONE, "b": Seat("two", {"t": [2]})}


def many_groups(count: int) -> Iterator[GroupRecord]:
    """Give one generation of each of many groups."""
    for number in range(count):
        group = f"g-{number}"
        yield GroupRecord(group, 0, number, number, 0, *generation(group, 1, {"a": ONE}))


def many_generations(count: int) -> Iterator[GroupRecord]:
    """Give many generations of one group, whose second member comes and goes under new ids."""
    for number in range(count):
        members = {"a": ONE, f"b-{number}": BOTH["b"]} if number % 2 else {"a": ONE}
        yield GroupRecord("g", 0, number, number, 0, *generation("g", number + 1, members))


def peak_of(records: Iterator[GroupRecord]) -> tuple[int, int]:
    """Follow the groups; gives how many generations there were, and the most memory that was held."""
    tracemalloc.start()
    try:
        found = sum(isinstance(row, GenerationRow) for row in follow_groups(records))
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [many_groups, many_generations])
def test_memory_is_that_of_one_group_and_two_of_its_generations(
    make: Callable[[int], Iterator[GroupRecord]],
) -> None:
    # what is remembered of subscriptions and assignments, up to a limit, is there before it is counted
    for _ in range(2):
        assert sum(1 for _ in follow_groups(make(MANY))) > MANY
    # other threads of the process are counted, too: the least of some runs is that of the groups
    few, small = min(peak_of(make(FEW)) for _ in range(3))
    many, large = min(peak_of(make(MANY)) for _ in range(3))
    assert (few, many) == (FEW, MANY)
    assert large < small + 50_000
