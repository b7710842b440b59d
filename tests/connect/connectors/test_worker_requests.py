"""Holds how a worker's requests wait: for its thread, and for a leader."""

from concurrent.futures import Future

import pytest

from groupsdk.clock import ManualClock
from groupsdk.connect.connectors.admin import HOLD_MS, WorkerRequests


class Rig:
    """Requests, and what they ran."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.woken: list[int] = []
        self.ran: list[str] = []
        self.requests = WorkerRequests(self.clock, lambda: self.woken.append(1))

    def put(self, name: str, *, of_leader: bool = False) -> "Future[None]":
        return self.requests.put(lambda: self.ran.append(name), of_leader=of_leader)


def test_requests_of_the_leader_wait_until_there_is_one_and_others_do_not() -> None:
    rig = Rig()
    futures = [rig.put("a", of_leader=True), rig.put("b"), rig.put("c", of_leader=True)]
    assert (len(rig.woken), rig.requests.empty) == (3, False)
    rig.requests.run(holds_back=True)
    assert rig.ran == ["b"]
    assert rig.requests.empty
    assert rig.requests.due_ms == 1_000 + HOLD_MS
    rig.requests.run(holds_back=False)
    # in the order in which they came
    assert rig.ran == ["b", "a", "c"]
    assert [each.done() for each in futures] == [True] * 3
    assert rig.requests.due_ms is None


def test_nobody_waits_for_a_leader_for_ever() -> None:
    rig = Rig()
    rig.put("a", of_leader=True)
    rig.requests.run(holds_back=True)
    rig.clock.advance(HOLD_MS - 1)
    rig.requests.run(holds_back=True)
    assert rig.ran == []
    rig.clock.advance(1)
    rig.requests.run(holds_back=True)
    assert rig.ran == ["a"]


def test_a_request_that_is_given_up_is_left_out_and_an_error_is_its_callers() -> None:
    rig = Rig()

    def fail() -> None:
        raise ValueError("no")

    given_up, failing = rig.put("a", of_leader=True), rig.requests.put(fail)
    rig.requests.run(holds_back=True)
    assert given_up.cancel()
    rig.requests.run(holds_back=False)
    assert rig.ran == []
    with pytest.raises(ValueError, match="no"):
        failing.result(0)
