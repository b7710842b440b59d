"""Test what members for threads and for asyncio have in common, on all kinds of drivers."""

import gc
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.drivers.engine_handle import EngineHandle, Pause
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    AssignmentError,
    ConcurrentUseError,
    EngineError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    MemberClosedError,
    MetadataError,
)
from groupsdk.member.events import (
    CallerEvent,
    CallFailed,
    CloseRequested,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    LeaveRequested,
    Polled,
    RejoinRequested,
)
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, GroupMembershipOperation
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from tests.drivers.virtual import ASSIGNMENT, KINDS, MEMBER_ID, Rig, rigs


MakeRig = Callable[..., Rig]


@pytest.fixture(params=KINDS)
def rig_of(request: pytest.FixtureRequest) -> Iterator[MakeRig]:
    with rigs(request.param) as make:
        yield make


@pytest.fixture
def fresh(rig_of: MakeRig) -> Rig:
    """One whose member nobody has driven yet."""
    return rig_of()


@pytest.fixture
def rig(rig_of: MakeRig) -> Rig:
    """One whose member has joined."""
    return rig_of().joined()


class UserError(Exception):
    """What user code raises here."""


def raiser(error: BaseException) -> Callable[..., object]:
    def hook(*_: Any) -> object:
        raise error

    return hook


# joining


def test_nothing_starts_before_it_is_needed(fresh: Rig) -> None:
    base = fresh.base
    assert base.generation() == NO_GENERATION
    assert base.generation_if_stable() is None
    assert base.member_id() == ""
    assert base.snapshot().state is MemberState.UNJOINED
    assert base.events() == ()
    assert fresh.drive.metrics() == {}
    base.request_rejoin("no use yet")
    base.wakeup()
    fresh.drive.leave_group("never joined")
    fresh.drive.close()
    assert fresh.hosts == []
    assert fresh.user.calls == []


def test_a_join_runs_the_callbacks_in_order(fresh: Rig) -> None:
    assert fresh.drive.ensure_active_group(5)
    assert fresh.user.calls == [
        ("on_join_prepare", -1, ""),
        ("metadata",),
        ("perform_assignment", MEMBER_ID, "v0", {MEMBER_ID: b"hello"}),
        ("on_join_complete", 1, MEMBER_ID, "v0", ASSIGNMENT),
    ]
    generation = fresh.base.generation_if_stable()
    assert generation is not None
    assert (generation.generation_id, generation.member_id) == (1, MEMBER_ID)
    assert fresh.base.generation() == generation
    assert fresh.base.member_id() == MEMBER_ID
    assert [event.outcome for event in fresh.base.events()] == ["completed"]
    assert fresh.drive.metrics()["join-total"] == 1
    assert fresh.host.starts == 1


def test_an_active_member_is_active_at_once(rig: Rig) -> None:
    started_ms = rig.clock.now_ms()
    assert rig.drive.ensure_active_group(0)
    assert rig.drive.ensure_active_group()
    assert rig.user.calls == []
    assert rig.clock.now_ms() == started_ms


def test_a_rejoin_asked_for_happens_at_the_next_poll(rig: Rig) -> None:
    rig.base.request_rejoin("new metadata")
    assert rig.host.posted == [RejoinRequested("new metadata")]
    assert rig.user.calls == []
    assert rig.drive.poll(1)
    assert rig.user.names() == [
        "on_join_prepare",
        "metadata",
        "perform_assignment",
        "on_join_complete",
    ]
    assert rig.user.calls[0] == ("on_join_prepare", 1, MEMBER_ID)
    joins = [each for each in rig.host.requests if isinstance(each, JoinGroupRequest)]
    assert joins[0].reason == "new metadata"


def test_generation_given_up_for_a_rejoin_is_not_believed_in(rig: Rig) -> None:
    generation = rig.base.generation()
    during: list[object] = []

    def hook(*_: object) -> None:
        during.append(rig.base.generation_if_stable())
        rig.host.stuck = True  # it joins, and shows so only later: others may own the work by then

    rig.user.hooks["on_join_prepare"] = hook
    rig.base.request_rejoin("news")
    rig.drive.poll(1)
    assert during == [generation]
    assert rig.base.generation_if_stable() is None


def test_protocol_type_may_be_a_method(fresh: Rig) -> None:
    fresh.user.protocol_type = lambda: "sr"
    assert fresh.drive.ensure_active_group(1)
    joins = [each for each in fresh.host.requests if isinstance(each, JoinGroupRequest)]
    assert joins[0].protocol_type == "sr"


# timeouts and wakeup


def test_ensure_active_group_gives_up_after_its_timeout(rig: Rig) -> None:
    rig.host.silent.add(SyncGroupRequest)
    rig.base.request_rejoin("test")
    started_ms = rig.clock.now_ms()
    assert not rig.drive.ensure_active_group(5)
    assert rig.clock.now_ms() - started_ms == 5_000
    assert not rig.drive.ensure_active_group(0)
    assert rig.clock.now_ms() - started_ms == 5_000


def test_a_join_goes_on_in_the_next_call(fresh: Rig) -> None:
    fresh.user.hooks["metadata"] = raiser(UserError())
    with pytest.raises(UserError):
        fresh.drive.ensure_active_group(1)
    fresh.host.silent.add(JoinGroupRequest)
    del fresh.user.hooks["metadata"]
    assert not fresh.drive.ensure_active_group(1)
    fresh.host.silent.clear()
    # the join that got no answer is given up after the rebalance timeout and 5 s
    assert fresh.drive.ensure_active_group(70)


def test_poll_waits_for_its_timeout_where_nothing_happens(rig: Rig) -> None:
    started_ms = rig.clock.now_ms()
    assert rig.drive.poll(2.5)
    assert rig.clock.now_ms() - started_ms == 2_500
    assert rig.user.calls == []


@pytest.mark.usefixtures("steady_heartbeats")
def test_poll_returns_early_with_a_new_assignment(rig: Rig) -> None:
    rig.host.errors[HeartbeatRequest] = ErrorCode.REBALANCE_IN_PROGRESS
    started_ms = rig.clock.now_ms()
    assert rig.drive.poll(30)
    assert "on_join_complete" in rig.user.names()
    assert rig.clock.now_ms() - started_ms == 3_000  # the heartbeat's interval


def test_poll_with_no_timeout_joins_too(fresh: Rig) -> None:
    assert fresh.drive.poll()
    assert fresh.user.names()[-1] == "on_join_complete"


@pytest.mark.parametrize("timeout", [-1.0, 0, -math.inf])
def test_a_negative_timeout_is_none_at_all(rig: Rig, timeout: float) -> None:
    started_ms = rig.clock.now_ms()
    rig.host.silent.add(JoinGroupRequest)
    rig.base.request_rejoin("test")
    assert not rig.drive.ensure_active_group(timeout)
    assert rig.clock.now_ms() == started_ms


@pytest.mark.parametrize(
    ("timeout", "error"), [(math.nan, ValueError), ("5", TypeError), (True, TypeError)]
)
def test_a_timeout_that_is_none_is_refused(
    fresh: Rig, timeout: Any, error: type[Exception]
) -> None:
    for call in (fresh.drive.ensure_active_group, fresh.drive.poll, fresh.drive.close):
        with pytest.raises(error, match="timeout must be seconds"):
            call(timeout)
    assert fresh.drive.ensure_active_group(math.inf)  # none of them left anything behind


def test_wakeup_makes_one_call_return(rig: Rig) -> None:
    rig.base.wakeup()
    started_ms = rig.clock.now_ms()
    assert rig.drive.poll(9)  # still active
    assert rig.clock.now_ms() == started_ms
    assert rig.drive.poll(9)
    assert rig.clock.now_ms() - started_ms == 9_000


def test_a_wakeup_while_one_is_looked_for_is_not_lost(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from another thread, right when a waiting poll found that there was none."""
    woken: list[object] = []

    class Flag:
        def __get__(self, member: Any, _: object) -> bool:
            before: bool = member.__dict__["_woken"]
            if not woken:
                woken.append(member)
                member.wakeup()
            return before

        def __set__(self, member: Any, value: bool) -> None:
            member.__dict__["_woken"] = value

    monkeypatch.setattr(EngineHandle, "_woken", Flag(), raising=False)
    started_ms = rig.clock.now_ms()
    assert rig.drive.poll(9)
    assert woken
    assert rig.clock.now_ms() - started_ms < 9_000


def test_holds_for_tells_how_long_the_group_cannot_go_on_without_the_member(fresh: Rig) -> None:
    assert not fresh.base.holds_for(0)
    fresh.joined()
    # what the coordinator accepted was sent just now: the session lasts for 10 s from here
    assert fresh.base.holds_for(9_999)
    assert not fresh.base.holds_for(10_000)
    fresh.host.silent.add(HeartbeatRequest)
    fresh.host.advance(4_000)
    held_ms = max(ahead_ms for ahead_ms in range(10_000) if fresh.base.holds_for(ahead_ms))
    assert 5_000 <= held_ms < 10_000  # early heartbeats were answered before
    fresh.host.crash()
    assert not fresh.base.holds_for(0)


def test_while_it_asks_to_join_again_the_group_cannot_go_on_without_it(rig: Rig) -> None:
    """However late the engine takes note: what the member does not give up is its own."""

    def busy(*_: Any) -> object:
        rig.host.stuck = True
        return [("v0", b"")]

    rig.user.hooks["metadata"] = busy
    rig.base.request_rejoin("test")
    assert not rig.drive.ensure_active_group(0.1)
    assert JoinPrepared in map(type, rig.host.posted[-2:])
    assert not rig.base.snapshot().stable
    assert rig.base.holds_for(5_000)


def test_once_it_is_told_to_leave_the_group_can_go_on_without_it(rig: Rig) -> None:
    rig.host.stuck = True
    rig.drive.leave_group("test")
    assert LeaveRequested in map(type, rig.host.posted)
    assert not rig.base.holds_for(0)


def test_wakeup_ends_a_wait_for_ever(rig: Rig) -> None:
    rig.host.silent.add(JoinGroupRequest)

    def wake(*_: Any) -> object:
        rig.base.wakeup()
        return [("v0", b"")]

    rig.user.hooks["metadata"] = wake
    rig.base.request_rejoin("test")
    assert not rig.drive.ensure_active_group()


def test_an_engine_that_does_not_react_holds_no_call_for_ever(rig: Rig) -> None:
    rig.host.stuck = True
    started_ms = rig.clock.now_ms()
    rig.drive.poll(2)
    assert rig.clock.now_ms() - started_ms == 3_000  # a second of grace
    for _ in range(50):
        rig.drive.poll(1)
    assert rig.host.polls() == 1, "an engine that does not react is sent more and more"
    assert not rig.drive.poll(1)
    assert rig.base.generation_if_stable() is None  # by the clock alone
    rig.drive.leave_group("no answer to this either")


# signs of life


def test_poll_without_a_timeout_shows_a_sign_of_life_often_enough_but_not_always(
    rig: Rig,
) -> None:
    for _ in range(100):
        assert rig.drive.poll()
    assert rig.host.polls() == 0  # within a twentieth of the poll interval of 20 s
    for _ in range(100):
        rig.host.advance(100)
        assert rig.drive.poll()
    assert 9 <= rig.host.polls() <= 11


def test_short_polls_wake_the_engine_no_more_often_than_needed(rig: Rig) -> None:
    started_ms = rig.clock.now_ms()
    for _ in range(100):
        assert rig.drive.poll(0.1)
    assert rig.clock.now_ms() - started_ms == 10_000
    assert 9 <= rig.host.polls() <= 11  # one in a twentieth of the poll interval of 20 s


def test_waiting_in_poll_is_a_sign_of_life(rig: Rig) -> None:
    assert rig.drive.poll(100)  # five times the poll interval
    assert rig.base.generation().generation_id == 1
    assert not any(isinstance(each, LeaveGroupRequest) for each in rig.host.requests)


def test_a_caller_that_stays_away_loses_its_membership(rig: Rig) -> None:
    rig.host.advance(19_000)
    assert rig.base.generation_if_stable() is not None
    rig.host.advance(2_000)  # the poll interval of 20 s and a twentieth of it
    assert rig.base.generation_if_stable() is None
    assert isinstance(rig.host.requests[-1], LeaveGroupRequest)
    assert rig.drive.poll(1)  # joins again
    assert rig.user.calls[0] == ("on_join_prepare", -1, "")


def test_a_poll_that_went_unreported_counts(rig: Rig) -> None:
    rig.host.advance(900)
    assert rig.drive.poll()
    assert rig.host.polls() == 0
    rig.host.advance(19_999)
    assert rig.base.generation_if_stable() is not None
    assert not any(isinstance(each, LeaveGroupRequest) for each in rig.host.requests)
    rig.host.advance(1_001)
    assert any(isinstance(each, LeaveGroupRequest) for each in rig.host.requests)


def test_a_poll_after_the_session_looked_over_asks_anew(rig: Rig) -> None:
    # as after native code that kept the interpreter's lock: what is known here is old, and poll(0) must
    # not judge by it
    rig.clock.advance(999)
    view = rig.base._groupsdk_handle.mailbox.view
    assert view is not None
    rig.base._groupsdk_handle.mailbox.publish(replace(view, valid_until_ms=0))
    assert rig.base.generation_if_stable() is None
    assert rig.drive.poll()
    assert rig.host.polls() == 1
    assert rig.base.generation_if_stable() is not None


# what goes wrong


@pytest.mark.parametrize("callback", ["on_join_prepare", "metadata", "perform_assignment"])
def test_an_exception_of_a_callback_is_passed_on_unchanged(fresh: Rig, callback: str) -> None:
    error = UserError("mine")
    fresh.user.hooks[callback] = raiser(error)
    with pytest.raises(UserError) as caught:
        fresh.drive.ensure_active_group(1)
    assert caught.value is error
    assert isinstance(fresh.host.posted[-1], CallFailed)
    assert fresh.host.posted[-1].description == "UserError"
    del fresh.user.hooks[callback]
    assert fresh.drive.ensure_active_group(5)
    # once for a rebalance, even where it raised, as in Kafka's client
    assert fresh.user.names().count("on_join_prepare") == 1


def test_an_assignment_is_delivered_again_with_the_same_bytes(fresh: Rig) -> None:
    fresh.user.hooks["on_join_complete"] = raiser(UserError())
    for _ in range(3):
        with pytest.raises(UserError):
            fresh.drive.poll(1)
    snapshot = fresh.base.snapshot()
    assert snapshot.assignment_epoch == 1
    del fresh.user.hooks["on_join_complete"]
    assert fresh.drive.poll(1)
    deliveries = [call for call in fresh.user.calls if call[0] == "on_join_complete"]
    assert deliveries == [("on_join_complete", 1, MEMBER_ID, "v0", ASSIGNMENT)] * 4
    assert fresh.user.names().count("metadata") == 1
    assert fresh.base.snapshot().assignment_epoch == 1


def test_an_assignment_is_not_delivered_to_a_member_that_may_be_out(fresh: Rig) -> None:
    fresh.user.hooks["on_join_complete"] = raiser(UserError())
    with pytest.raises(UserError):
        fresh.drive.poll(1)
    del fresh.user.hooks["on_join_complete"]
    fresh.user.calls.clear()
    fresh.host.silent.add(HeartbeatRequest)
    fresh.clock.advance(10_000)  # asleep for the session timeout: not even the timers ran
    assert not fresh.drive.poll()
    assert fresh.user.calls == []


@pytest.mark.parametrize(
    ("callback", "value", "error", "match"),
    [
        ("metadata", [], MetadataError, "at least one protocol"),
        ("metadata", None, MetadataError, "mapping of protocol name to bytes.*got None"),
        ("metadata", [("v0", "text")], MetadataError, "'v0' must come with bytes, not str"),
        ("metadata", [("", b"")], MetadataError, "'' is not a protocol name"),
        ("metadata", [("v0", b""), ("v0", b"")], MetadataError, "'v0' twice"),
        ("perform_assignment", None, AssignmentError, "mapping of member id to bytes"),
        ("perform_assignment", {"nobody": b""}, AssignmentError, "'nobody', which is not one of"),
        ("perform_assignment", {MEMBER_ID: "text"}, AssignmentError, "must be bytes, not str"),
    ],
)
def test_bad_result_of_a_callback_is_raised_and_the_next_call_recovers(
    fresh: Rig, callback: str, value: object, error: type[Exception], match: str
) -> None:
    fresh.user.hooks[callback] = lambda *_: value
    with pytest.raises(error, match=match):
        fresh.drive.ensure_active_group(1)
    del fresh.user.hooks[callback]
    assert fresh.drive.ensure_active_group(5)


def test_a_protocol_type_that_cannot_be_sent_is_refused(fresh: Rig) -> None:
    fresh.user.protocol_type = 5
    with pytest.raises(MetadataError, match="protocol_type must be a string"):
        fresh.drive.ensure_active_group(1)


def test_a_failure_is_raised_once(rig: Rig) -> None:
    rig.host.errors[HeartbeatRequest] = ErrorCode.GROUP_AUTHORIZATION_FAILED
    rig.host.advance(3_000)
    rig.host.errors.clear()
    with pytest.raises(GroupAuthorizationError):
        rig.drive.poll()
    assert rig.drive.poll()


def test_a_fatal_failure_is_raised_at_every_call(rig_of: MakeRig) -> None:
    rig = rig_of(group_instance_id="one").joined()
    rig.host.errors[HeartbeatRequest] = ErrorCode.FENCED_INSTANCE_ID
    rig.host.advance(3_000)
    frames = set()
    for _ in range(3):
        with pytest.raises(FencedInstanceIdError) as caught:
            rig.drive.poll()
        frames.add(len(caught.traceback))
    assert len(frames) == 1, "the error grows every time that it is raised"
    assert rig.base.generation_if_stable() is None
    rig.drive.close()


def test_a_crash_of_the_engine_is_raised_at_every_call_and_seen_at_once(rig: Rig) -> None:
    rig.host.crash()
    assert rig.base.generation_if_stable() is None
    snapshot = rig.base.snapshot()
    assert not snapshot.stable
    assert snapshot.trouble == "the background thread ended: KeyError: 'bug'"
    for _ in range(2):
        with pytest.raises(EngineError, match="KeyError: 'bug'"):
            rig.drive.poll()
        with pytest.raises(EngineError, match="KeyError: 'bug'"):
            rig.drive.ensure_active_group(1)
    rig.drive.close()
    assert rig.user.names() == ["on_leave_prepare"]


def test_metrics_of_an_engine_that_does_not_react(rig: Rig, mocker: MockerFixture) -> None:
    mocker.patch("groupsdk.drivers.engine_handle.METRICS_TIMEOUT_MS", 1)
    rig.host.stuck = True
    with pytest.raises(EngineError, match="no answer from the engine in 1 ms"):
        rig.drive.metrics()


# leaving and closing


def test_leaving_is_seen_when_the_call_returns(rig: Rig) -> None:
    rig.drive.leave_group("enough")
    assert rig.user.names() == ["on_leave_prepare"]
    assert rig.host.posted == [LeaveRequested("enough")]
    assert rig.base.generation() == NO_GENERATION
    assert rig.base.generation_if_stable() is None
    assert rig.drive.poll(1)
    assert rig.base.generation().generation_id == 2


def test_member_that_left_does_not_believe_before_the_engine_knows(
    rig: Rig,
) -> None:
    rig.host.stuck = True
    rig.drive.leave_group("enough")
    assert rig.base.generation_if_stable() is None
    assert not rig.base.snapshot().stable


def test_a_member_whose_leave_prepare_raised_has_not_left(rig: Rig) -> None:
    rig.user.hooks["on_leave_prepare"] = raiser(UserError())
    with pytest.raises(UserError):
        rig.drive.leave_group("enough")
    assert rig.host.posted == []
    assert rig.base.generation_if_stable() is not None


@pytest.mark.parametrize("reason", [None, 5, b"bytes"])
def test_a_reason_is_a_text(rig: Rig, reason: Any) -> None:
    with pytest.raises(TypeError, match="reason must be a string"):
        rig.base.request_rejoin(reason)
    with pytest.raises(TypeError, match="reason must be a string"):
        rig.drive.leave_group(reason)
    assert rig.host.posted == []


def test_closing_leaves_and_ends_the_engine(rig: Rig) -> None:
    rig.drive.close(12)
    assert rig.user.names() == ["on_leave_prepare"]
    (closing,) = rig.host.posted
    assert isinstance(closing, CloseRequested)
    assert closing.operation is GroupMembershipOperation.DEFAULT
    assert closing.timeout_ms == 12_000
    assert isinstance(rig.host.requests[-1], LeaveGroupRequest)
    assert rig.host.told_to == []
    assert rig.base.generation() == NO_GENERATION
    assert rig.base.snapshot().state is MemberState.UNJOINED
    assert len(rig.base.events()) == 1  # what happened can still be read


def test_closing_twice_is_harmless(rig: Rig) -> None:
    rig.drive.close()
    rig.drive.close()
    assert rig.user.names() == ["on_leave_prepare"]
    assert len(rig.host.posted) == 1


@pytest.mark.parametrize(
    ("operation", "leaves"),
    [
        (GroupMembershipOperation.LEAVE_GROUP, True),
        (GroupMembershipOperation.REMAIN_IN_GROUP, False),
        ("leave_group", True),
    ],
)
def test_close_leaves_the_group_by_its_operation(rig: Rig, operation: Any, leaves: bool) -> None:
    rig.drive.close(1, operation)
    assert any(isinstance(each, LeaveGroupRequest) for each in rig.host.requests) is leaves


def test_an_unknown_way_to_close_is_refused_and_nothing_is_closed(rig: Rig) -> None:
    with pytest.raises(ValueError, match="'leave'"):
        rig.drive.close(1, "leave")  # type: ignore[arg-type]  # what is tested
    assert rig.drive.poll()


def test_the_generation_can_be_read_until_the_work_is_given_up(rig: Rig) -> None:
    # on_leave_prepare may write its last results, and needs the generation as the fencing token
    seen: list[object] = []
    rig.user.hooks["on_leave_prepare"] = lambda: seen.append(rig.base.generation_if_stable())
    rig.drive.close()
    assert seen[0] is not None
    assert rig.base.generation_if_stable() is None


def test_a_member_is_closed_though_leave_prepare_raised(rig: Rig) -> None:
    rig.user.hooks["on_leave_prepare"] = raiser(UserError())
    with pytest.raises(UserError):
        rig.drive.close()
    assert isinstance(rig.host.requests[-1], LeaveGroupRequest)
    with pytest.raises(MemberClosedError):
        rig.drive.poll()


def test_leave_prepare_may_be_left_out(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(rig.base._callbacks), "on_leave_prepare")
    rig.drive.leave_group("enough")
    rig.drive.close()
    assert isinstance(rig.host.posted[-1], CloseRequested)


def test_an_engine_that_does_not_end_is_aborted(rig: Rig) -> None:
    rig.host.will_end = False
    rig.host.stuck = True
    rig.drive.close(0)
    assert rig.host.told_to == ["abort"]


def test_a_closed_member_is_of_no_use(rig: Rig) -> None:
    rig.drive.close()
    for call in (
        rig.drive.poll,
        rig.drive.ensure_active_group,
        lambda: rig.drive.leave_group("x"),
        lambda: rig.base.request_rejoin("x"),
    ):
        with pytest.raises(MemberClosedError):
            call()
    rig.base.wakeup()
    assert rig.user.names() == ["on_leave_prepare"]


def test_a_member_never_used_is_closed_too(fresh: Rig) -> None:
    fresh.drive.close()
    with pytest.raises(MemberClosedError):
        fresh.drive.ensure_active_group()


# callbacks that use their member


@pytest.mark.parametrize(
    "callback", ["on_join_prepare", "metadata", "perform_assignment", "on_join_complete"]
)
def test_a_callback_may_close_its_member(fresh: Rig, callback: str) -> None:
    # a coroutine, for asyncio, is awaited like that of any callback
    fresh.user.hooks[callback] = lambda *_: fresh.member.close()
    assert not fresh.drive.ensure_active_group(5)
    assert fresh.user.names()[-2:] == [callback, "on_leave_prepare"]
    assert isinstance(fresh.host.posted[-1], CloseRequested)
    with pytest.raises(MemberClosedError):
        fresh.drive.poll()


@pytest.mark.parametrize("call", ["poll", "ensure_active_group", "leave_group"])
def test_a_callback_may_not_drive_its_member(fresh: Rig, call: str) -> None:
    arguments = ["test"] if call == "leave_group" else []
    fresh.user.hooks["on_join_complete"] = lambda *_: getattr(fresh.member, call)(*arguments)
    with pytest.raises(
        ConcurrentUseError, match=rf"callback of the same member.* not .*{call}\(\)"
    ):
        fresh.drive.ensure_active_group(5)
    del fresh.user.hooks["on_join_complete"]
    assert fresh.drive.ensure_active_group(5)


def test_a_callback_may_read_and_ask(fresh: Rig) -> None:
    seen = []

    def look(*_: Any) -> None:
        seen.append(fresh.base.snapshot())
        if len(seen) == 1:
            fresh.base.request_rejoin("once more")

    fresh.user.hooks["on_join_complete"] = look
    assert fresh.drive.ensure_active_group(5)
    assert [each.generation.generation_id for each in seen] == [1, 2]
    assert all(each.stable for each in seen)


# interrupts


def interrupt_post(rig: Rig, kind: type[CallerEvent]) -> None:
    """Raise what a signal handler raises, right before the next event of a kind reaches the engine."""
    post = rig.host.post

    def interrupted(event: CallerEvent) -> None:
        if isinstance(event, kind):
            rig.host.post = post  # type: ignore[method-assign]  # as it was
            raise KeyboardInterrupt
        post(event)

    rig.host.post = interrupted  # type: ignore[method-assign]  # no other way to be between two lines


@pytest.mark.parametrize("kind", [RejoinRequested, Polled])
def test_an_event_that_an_interrupt_kept_from_the_engine_is_not_waited_for(
    rig: Rig, kind: type[CallerEvent]
) -> None:
    rig.clock.advance(1_000)
    interrupt_post(rig, kind)

    def work() -> None:
        rig.base.request_rejoin("interrupted")
        rig.drive.poll(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    rig.base.request_rejoin("heard")
    started_ms = rig.clock.now_ms()
    assert rig.drive.ensure_active_group(5)
    assert rig.clock.now_ms() == started_ms
    assert rig.user.names()[-1] == "on_join_complete"
    assert rig.base.generation_if_stable() is not None


@pytest.mark.parametrize("kind", [JoinPrepared, GroupAssigned, JoinDelivered])
def test_an_answer_that_an_interrupt_kept_from_the_engine_is_given_again(
    rig: Rig, kind: type[CallerEvent]
) -> None:
    rig.base.request_rejoin("test")
    interrupt_post(rig, kind)
    with pytest.raises(KeyboardInterrupt):
        rig.drive.ensure_active_group(5)
    assert rig.drive.ensure_active_group(5)
    assert rig.base.generation_if_stable() is not None


@pytest.mark.parametrize("ticked", [False, True], ids=["quiet", "with a sign of life on its way"])
def test_the_call_after_a_leave_that_was_interrupted_joins_at_once(rig: Rig, ticked: bool) -> None:
    host, wait = rig.host, rig.host.wait
    host.held = []
    if ticked:
        rig.clock.advance(rig.config.poll_interval_ms // 20)
        rig.drive.poll(0)

    def late(pause: Pause) -> None:
        host.wait = wait  # type: ignore[method-assign]  # as it was
        raise UserError

    host.wait = late  # type: ignore[method-assign]  # no other way to interrupt the wait
    with pytest.raises(UserError):
        rig.drive.leave_group("interrupted")
    assert not rig.drive.poll(0)
    assert not rig.base.snapshot().stable

    def engine_goes_on(pause: Pause) -> None:
        host.wait = wait  # type: ignore[method-assign]  # as it was
        host.release()

    host.wait = engine_goes_on  # type: ignore[method-assign]  # the engine gets to it while the caller waits
    started_ms = rig.clock.now_ms()
    assert rig.drive.ensure_active_group(30)
    assert rig.clock.now_ms() == started_ms
    assert rig.base.generation().generation_id == 2


def test_a_failure_that_an_interrupt_kept_from_the_engine_is_told_again(rig: Rig) -> None:
    rig.user.hooks["perform_assignment"] = raiser(UserError())
    rig.base.request_rejoin("test")
    interrupt_post(rig, CallFailed)
    with pytest.raises(KeyboardInterrupt):
        rig.drive.ensure_active_group(5)
    with pytest.raises(UserError):
        rig.drive.ensure_active_group(5)
    rig.user.hooks.clear()
    assert rig.drive.ensure_active_group(5)


# other processes, and members that are dropped


def test_a_fork_cannot_use_the_member_and_cannot_pass_for_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    assert rig.base.generation_if_stable() is None
    assert rig.base.generation() == NO_GENERATION
    for call in (rig.drive.poll, rig.drive.ensure_active_group):
        with pytest.raises(EngineError, match="forked"):
            call()
    with pytest.raises(EngineError, match="forked"):
        rig.base.request_rejoin("x")
    assert rig.drive.metrics() == {}
    version = rig.base._groupsdk_handle.mailbox.version
    rig.base.wakeup()
    rig.drive.close()
    assert rig.base._groupsdk_handle.mailbox.version == version, (
        "its lock may be held for ever in a fork"
    )
    assert rig.host.posted == []
    assert rig.host.told_to == []
    assert rig.user.calls == []


def test_a_dropped_member_does_not_heartbeat_for_ever(rig: Rig) -> None:
    host = rig.host
    rig.user.hooks.clear()
    del rig.member, rig.drive
    gc.collect()
    assert host.told_to == ["abandon"]


def test_a_closed_member_is_not_abandoned_as_well(rig: Rig) -> None:
    host = rig.host
    rig.drive.close()
    del rig.member, rig.drive
    gc.collect()
    assert host.told_to == []


def test_a_host_that_cannot_start_is_tried_again(fresh: Rig) -> None:
    refusals = [EngineError("no room")]
    opened = fresh.base._groupsdk_handle.open_host

    def open_host(*arguments: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return opened(*arguments)

    fresh.base._groupsdk_handle.open_host = open_host
    with pytest.raises(EngineError, match="no room"):
        fresh.drive.ensure_active_group(1)
    assert fresh.drive.ensure_active_group(1)


def test_a_callback_that_always_asks_for_another_rebalance_does_not_spin(rig: Rig) -> None:
    rig.user.hooks["on_join_complete"] = lambda *_: rig.base.request_rejoin("never content")
    rig.base.request_rejoin("once")
    started_ms = rig.clock.now_ms()
    rig.drive.ensure_active_group(20)
    assert rig.clock.now_ms() - started_ms == 20_000
    assert 10 <= rig.user.names().count("on_join_complete") <= 40
    rig.user.hooks.clear()
    assert rig.drive.ensure_active_group(5)


@pytest.mark.parametrize("callback", ["metadata", "on_join_complete"])
def test_a_loop_that_passes_over_what_a_callback_raises_does_not_spin(
    fresh: Rig, callback: str
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    fresh.user.hooks[callback] = fails
    started_ms = fresh.clock.now_ms()
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            fresh.drive.poll(2)
    assert fresh.clock.now_ms() - started_ms > 14_000
    del fresh.user.hooks[callback]
    assert fresh.drive.poll(2)
