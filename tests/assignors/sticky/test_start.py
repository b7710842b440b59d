"""Who is not looked at is not counted; who is has what it owns and what was poured onto it."""

from assignors.sticky.partition_rows import PartitionRows
from assignors.sticky.water_filling import Poured, Start
from groupsdk.assignment import Partitions


_ROWS = PartitionRows([4, 3], [0b111, 0b111], [0, 0], {"a": 0, "b": 1}, {})


def _start() -> Start:
    owned: list[Partitions] = [{"a": (0, 1)}, {"b": (0,)}, {}]
    return Start(owned, _ROWS, Poured({0: {1: 1, 2: 1}, 1: {1: 2}}, {0: 0b110, 1: 0b010}))


def test_has_what_it_owns_and_what_was_poured() -> None:
    start = _start()
    assert [start.owned[member] for member in range(3)] == [{0: 2}, {1: 1}, {}]
    assert [start.shares[member] for member in range(3)] == [{0: 2}, {0: 1, 1: 3}, {0: 1}]
    assert start.gained() == [0, 0b11, 0b01]


def test_only_those_asked_for_are_counted() -> None:
    start = _start()
    assert start.owned[1] == {1: 1}
    assert start.owned[1] is start.owned[1]
    start.shares[1][0] = 9
    assert start.shares[1] == {0: 9, 1: 3}
    assert start.owned[1] == {1: 1}


def test_start_without_moves_has_the_poured_changes() -> None:
    assert _start().changes({}) == ({0: {1: 1, 2: 1}, 1: {1: 2}}, {})


def test_moved_units_count_in_place_of_poured_ones() -> None:
    start = _start()
    start.shares[0] = {0: 1, 1: 2}
    start.shares[1] = {0: 2}
    moved = {0: {0, 1}, 1: {1, 0}}
    assert start.changes(moved) == ({0: {1: 2, 2: 1}, 1: {0: 2}}, {0: {0: 1}, 1: {1: 1}})


def test_a_row_that_nobody_needs_any_more_is_left_out() -> None:
    start = Start([{}, {}], _ROWS, Poured({0: {0: 1}}, {0: 0b01}))
    start.shares[0] = {}
    assert start.changes({0: {0}}) == ({}, {})
