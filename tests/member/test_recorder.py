"""Test the flight recorder."""

import dataclasses

import pytest

from groupsdk.errors import DisconnectedError
from groupsdk.member.recorder import RebalanceEvent, RebalanceRecorder
from groupsdk.types import NO_GENERATION, Generation


OLD = Generation(4, "m-1", "v1")
NEW = Generation(5, "m-1", "v2")


def _completed(recorder: RebalanceRecorder) -> RebalanceEvent:
    recorder.begin("group is already rebalancing", OLD, 1000)
    recorder.attempt()
    recorder.phase("prepare", 1000)
    recorder.phase("join", 1002)
    recorder.phase("sync", 1122)
    event = recorder.complete(NEW, 1132)
    assert event is not None
    return event


def test_a_completed_rebalance_is_recorded_whole() -> None:
    recorder = RebalanceRecorder()
    event = _completed(recorder)
    assert event == RebalanceEvent(
        started_ms=1000,
        ended_ms=1132,
        reason="group is already rebalancing",
        generation_before=4,
        generation_after=5,
        member_id="m-1",
        protocol_name="v2",
        leader=False,
        member_count=None,
        phases=(("prepare", 2), ("join", 120), ("sync", 10)),
        attempts=1,
        outcome="completed",
    )
    assert recorder.events == (event,)
    assert not recorder.is_open


def test_the_summary_says_how_long_where_and_why() -> None:
    assert _completed(RebalanceRecorder()).summary() == (
        "rebalance took 132 ms (prepare 2, join 120, sync 10): group is already rebalancing"
    )


def test_the_leader_knows_the_member_count() -> None:
    recorder = RebalanceRecorder()
    recorder.begin("joining for the first time", NO_GENERATION, 0)
    recorder.phase("assign", 0)
    event = recorder.complete(NEW, 7, leader=True, member_count=3)
    assert event is not None
    assert (event.leader, event.member_count, event.phases) == (True, 3, (("assign", 7),))
    assert (event.generation_before, event.generation_after) == (-1, 5)


def test_retries_belong_to_the_rebalance_they_retry() -> None:
    recorder = RebalanceRecorder()
    recorder.begin("first", OLD, 0)
    for start_ms in (0, 100, 200):
        recorder.begin("again", NEW, start_ms)
        recorder.attempt()
        recorder.phase("join", start_ms)
        recorder.phase("sync", start_ms + 30)
    event = recorder.complete(NEW, 260)
    assert event is not None
    assert event.reason == "first"
    assert event.generation_before == 4
    assert event.phases == (("join", 90), ("sync", 170))
    assert event.summary() == "rebalance took 260 ms (join 90, sync 170; 3 attempts): first"


def test_memory_does_not_grow_with_retries() -> None:
    recorder = RebalanceRecorder()
    recorder.begin("down for hours", OLD, 0)
    for now_ms in range(5000):
        recorder.attempt()
        recorder.phase("join", now_ms)
    event = recorder.leave(5000)
    assert event is not None
    assert event.phases == (("join", 5000),)
    assert event.attempts == 5000


def test_a_failure_is_named_on_one_line() -> None:
    recorder = RebalanceRecorder()
    recorder.begin("first", OLD, 0)
    recorder.phase("join", 0)
    event = recorder.fail(DisconnectedError("broker went\naway"), 40)
    assert event is not None
    assert event.outcome == "failed: DisconnectedError: broker went away"
    assert event.generation_after == -1
    assert event.member_id == "m-1"
    assert event.summary() == (
        "rebalance failed after 40 ms (join 40): first: DisconnectedError: broker went away"
    )


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ValueError(), "failed: ValueError"),
        ("timed out", "failed: timed out"),
        ("x" * 999, "failed: " + "x" * 255),
    ],
)
def test_errors_of_any_shape(error: Exception | str, outcome: str) -> None:
    recorder = RebalanceRecorder()
    recorder.begin("r", OLD, 0)
    event = recorder.fail(error, 1)
    assert event is not None
    assert event.outcome == outcome


def test_leaving_and_being_dropped_end_it() -> None:
    recorder = RebalanceRecorder()
    recorder.begin("a", OLD, 0)
    left = recorder.leave(3)
    recorder.begin("b", OLD, 5)
    lost = recorder.lose(9)
    assert left is not None
    assert lost is not None
    assert left.summary() == "rebalance left after 3 ms: a"
    assert lost.summary() == "rebalance lost after 4 ms: b"
    assert [event.outcome for event in recorder.events] == ["left", "lost"]


def test_calls_without_an_open_rebalance_do_nothing() -> None:
    recorder = RebalanceRecorder()
    recorder.phase("join", 1)
    recorder.attempt()
    assert recorder.complete(NEW, 2) is None
    assert recorder.fail("x", 3) is None
    recorder.begin("r", OLD, 10)
    event = recorder.leave(11)
    assert event is not None
    assert (event.phases, event.attempts) == ((), 0)


def test_only_the_last_hundred_are_kept() -> None:
    recorder = RebalanceRecorder()
    for number in range(130):
        recorder.begin(f"reason {number}", OLD, number)
        recorder.complete(NEW, number)
    reasons = [event.reason for event in recorder.events]
    assert reasons == [f"reason {number}" for number in range(30, 130)]


def test_an_event_cannot_be_changed() -> None:
    event = _completed(RebalanceRecorder())
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.reason = "other"  # type: ignore[misc]  # the very thing that must fail
