"""Holds the eager assignor to Kafka's example and to even shares."""

from groupsdk.connect.eager_assignor import EagerAssignor
from groupsdk.connect.work import Work
from groupsdk.wire.connect_protocol import ConnectorTaskId


def tasks(*names: str) -> tuple[ConnectorTaskId, ...]:
    """Read "a-0" and the like."""
    return tuple(ConnectorTaskId(each[0], int(each[2:])) for each in names)


EVERYTHING = Work(("a", "b"), tasks("a-0", "a-1", "a-2", "a-3", "b-0", "b-1", "b-2", "b-3"))


def test_kafkas_example() -> None:
    given = EagerAssignor().assign(EVERYTHING, ["W2", "W1"])
    assert given.assigned == {
        "W1": Work(("a",), tasks("a-0", "a-2", "b-0", "b-2")),
        "W2": Work(("b",), tasks("a-1", "a-3", "b-1", "b-3")),
    }
    assert given.held == given.assigned
    assert (given.revoked, given.delay_ms) == ({}, 0)


def test_tasks_go_on_where_the_connectors_ended() -> None:
    given = EagerAssignor().assign(Work(("a",), tasks("a-0", "a-1")), ["W1", "W2"])
    assert given.assigned == {
        "W1": Work(("a",), tasks("a-1")),
        "W2": Work((), tasks("a-0")),
    }


def test_members_beyond_the_work_get_nothing() -> None:
    given = EagerAssignor().assign(Work(("a",), ()), ["W1", "W2", "W3"])
    assert [len(each) for each in given.assigned.values()] == [1, 0, 0]
