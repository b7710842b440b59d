"""Holds sums and differences of work."""

from groupsdk.connect.group.work import NO_WORK, Work, tasks_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


A0, A1, B0 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1), ConnectorTaskId("b", 0)


def test_added_work_comes_last_and_once() -> None:
    assert Work(("a",), (A1,)).plus(Work(("b", "a"), (A0, A1))) == Work(("a", "b"), (A1, A0))


def test_removed_work_leaves_the_order_of_the_rest() -> None:
    assert Work(("b", "a"), (B0, A1, A0)).minus(Work(("b",), (A1,))) == Work(("a",), (B0, A0))


def test_no_work_is_false_and_any_is_true() -> None:
    assert not NO_WORK
    assert Work(("a",))
    assert len(Work(("a",), (A0, A1))) == 3


def test_tasks_sort_as_in_java() -> None:
    astral, private = ConnectorTaskId("\U0001f600", 0), ConnectorTaskId("\ue000", 0)
    assert tasks_sorted([B0, A1, A0]) == [A0, A1, B0]
    # by UTF-16 code units, in which the former begins with a surrogate
    assert tasks_sorted([private, astral]) == [astral, private]
