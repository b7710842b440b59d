"""Test what the caller does next, and the checks of what user code returns."""

import math
from dataclasses import replace
from enum import Enum, StrEnum
from typing import Any

import pytest

from groupsdk.coordinator import refuse_generator
from groupsdk.drivers.caller import (
    CallerSide,
    Raise,
    Run,
    Wait,
    checked_plan,
    checked_protocol_type,
    checked_protocols,
    checked_reason,
    checked_timeout_ms,
    idle_until_ms,
    is_active,
    run_call,
)
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    AssignmentError,
    EngineError,
    MemberClosedError,
    MetadataError,
    NetworkError,
    broker_error,
)
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.events import (
    FailureRaised,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
)
from groupsdk.member.state import MemberState
from groupsdk.member.view import NOT_STARTED, Failure
from groupsdk.types import NO_GENERATION, GroupMembers, ProtocolMetadata
from tests.drivers.views import GENERATION, view
from tests.drivers.virtual import User


MEMBERS = GroupMembers({"a": b"", "b": b""})


def prepare(call_id: int = 1) -> PrepareJoin:
    return PrepareJoin(call_id, GENERATION, True)


def assign(*, skip: bool = False) -> AssignGroup:
    return AssignGroup(1, GENERATION, "a", "v0", MEMBERS, skip)


def complete(call_id: int = 1) -> CompleteJoin:
    return CompleteJoin(call_id, GENERATION, "v0", b"mine")


# what to do next


def test_there_is_nothing_to_do_before_the_first_view() -> None:
    side = CallerSide()
    side.posted()
    assert side.step(NOT_STARTED, 0) == Wait(settled=False)


def test_there_is_nothing_to_do_for_a_stable_member() -> None:
    assert CallerSide().step(view(), 0) == Wait(settled=True)


def test_a_call_waits_until_the_view_reflects_what_was_posted() -> None:
    side = CallerSide()
    side.posted()
    side.posted()
    assert side.posted_count == 2
    shown = view(call=prepare())
    assert side.step(replace(shown, handled=1), 0) == Wait(settled=False)
    assert side.step(replace(shown, handled=2), 0) == Run(prepare())


def test_a_call_is_run_once() -> None:
    side = CallerSide()
    shown = view(call=prepare(4))
    assert side.step(shown, 0) == Run(prepare(4))
    side.answered(prepare(4))
    assert side.step(shown, 0) == Wait(settled=True)
    assert side.step(view(call=prepare(5)), 0) == Run(prepare(5))


def test_callback_that_keeps_raising_is_retried_after_a_backoff() -> None:
    side = CallerSide(100, 300)
    shown = view(call=complete())
    waits = []
    for _ in range(5):
        side.raised(complete(), 1_000)
        step = side.step(shown, 1_000)
        waits.append(0 if step == Run(complete()) else getattr(step, "until_ms", None))
    assert waits == [0, 1_100, 1_200, 1_300, 1_300]
    assert side.step(shown, 1_299) == Wait(settled=True, until_ms=1_300)
    assert side.step(shown, 1_300) == Run(complete())
    side.answered(complete())
    side.raised(complete(2), 2_000)
    assert side.step(view(call=complete(2)), 2_000) == Run(complete(2))


@pytest.mark.parametrize(("now_ms", "runs"), [(9_999, True), (10_000, False), (30_000, False)])
def test_an_assignment_is_delivered_only_to_a_member_that_is_surely_one(
    now_ms: int, runs: bool
) -> None:
    step = CallerSide().step(view(call=complete()), now_ms)
    assert step == (Run(complete()) if runs else Wait(settled=True))


@pytest.mark.parametrize(("now_ms", "runs"), [(9_999, True), (10_000, False), (30_000, False)])
def test_a_member_whose_possession_has_lapsed_is_not_asked_to_give_up(
    now_ms: int, runs: bool
) -> None:
    step = CallerSide().step(view(call=prepare()), now_ms)
    assert step == (Run(prepare()) if runs else Wait(settled=True))


def test_a_loss_is_told_whatever_the_clock_says() -> None:
    call = PrepareJoin(1, NO_GENERATION, run_callback=True)
    shown = view(call=call, valid_until_ms=None)
    assert CallerSide().step(shown, 30_000) == Run(call)


def test_a_failure_is_raised_once_and_reported() -> None:
    side = CallerSide()
    error = NetworkError("broken")
    shown = view(failure=Failure(7, error))
    assert side.step(shown, 0) == Raise(error, FailureRaised(7))
    assert side.step(shown, 0) == Wait(settled=True)
    again = view(failure=Failure(8, error))
    assert side.step(again, 0) == Raise(error, FailureRaised(8))


def test_a_failure_comes_before_a_call_and_before_what_is_not_reflected_yet() -> None:
    side = CallerSide()
    side.posted()
    error = NetworkError("broken")
    shown = view(failure=Failure(7, error), call=prepare())
    assert side.step(shown, 0) == Raise(error, FailureRaised(7))


def test_a_fatal_failure_is_raised_every_time() -> None:
    side = CallerSide()
    error = broker_error(ErrorCode.FENCED_INSTANCE_ID)
    shown = view(failure=Failure(7, error))
    assert [side.step(shown, 0) for _ in range(3)] == [Raise(error, None)] * 3


def test_the_end_of_the_engine_comes_before_everything() -> None:
    error = EngineError("it ended")
    side = CallerSide()
    shown = view(failure=Failure(7, NetworkError("broken")), crash=error)
    assert side.step(shown, 0) == Raise(error, None)
    assert side.step(replace(NOT_STARTED, crash=error), 0) == Raise(error, None)


def test_a_stopped_member_is_closed() -> None:
    step = CallerSide().step(view(stopped=True), 0)
    assert isinstance(step, Raise)
    assert isinstance(step.error, MemberClosedError)


# active and idle


@pytest.mark.parametrize(
    ("changes", "now_ms", "active", "idle_ms"),
    [
        ({}, 0, True, 10_000),
        ({}, 10_000, False, 10_000),
        ({"joining": True}, 0, False, 0),
        ({"state": MemberState.COMPLETING_REBALANCE}, 0, False, 0),
        ({"valid_until_ms": None}, 0, False, 0),
        ({"poll_until_ms": 5}, 5, False, 5),
        ({"failure": Failure(1, NetworkError("broken"))}, 0, True, 0),
        ({"crash": EngineError("ended")}, 0, True, 0),
        ({"stopped": True}, 0, True, 0),
    ],
)
def test_active_and_idle(changes: dict[str, Any], now_ms: int, active: bool, idle_ms: int) -> None:
    assert is_active(view(**changes), now_ms) is active
    assert idle_until_ms(view(**changes)) == idle_ms


def test_without_a_view_nothing_is_either() -> None:
    assert not is_active(NOT_STARTED, 0)
    assert idle_until_ms(NOT_STARTED) == 0


# running the user's code


def outcome(call: Call, user: User) -> Any:
    """Run a call as the driver for threads does, and return the event to post."""
    running = run_call(call, user)
    value: object = None
    while True:
        try:
            ask = running.send(value)
        except StopIteration as end:
            return end.value
        value = ask()


def test_preparing_gives_up_work_and_then_asks_for_metadata() -> None:
    user = User()
    assert outcome(prepare(9), user) == JoinPrepared(9, "work", (ProtocolMetadata("v0", b"hello"),))
    assert user.calls == [("on_join_prepare", 3, "member-1"), ("metadata",)]


def test_preparing_again_only_asks_for_metadata() -> None:
    user = User()
    outcome(PrepareJoin(9, GENERATION, False), user)
    assert user.calls == [("metadata",)]


def test_the_leader_is_asked_for_the_plan() -> None:
    user = User()
    user.hooks["perform_assignment"] = lambda *_: {"b": bytearray(b"2")}
    assert outcome(assign(), user) == GroupAssigned(1, {"a": b"", "b": b"2"})
    assert user.calls == [("perform_assignment", "a", "v0", {"a": b"", "b": b""})]


def test_the_leader_is_not_asked_where_the_group_keeps_its_plan() -> None:
    user = User()
    assert outcome(assign(skip=True), user) == GroupAssigned(1, {})
    assert user.calls == []


def test_a_leader_that_need_not_assign_may_want_to_know_whom_it_leads() -> None:
    told = []

    class Leader(User):
        def on_assignment_skipped(self, *arguments: Any) -> None:
            told.append(arguments)

    assert outcome(assign(skip=True), Leader()) == GroupAssigned(1, {})
    assert told == [("a", "v0", MEMBERS)]


def test_an_assignment_is_delivered() -> None:
    user = User()
    assert outcome(complete(5), user) == JoinDelivered(5)
    assert user.calls == [("on_join_complete", 3, "member-1", "v0", b"mine")]


def test_the_value_sent_in_stands_for_what_was_returned() -> None:
    # which is how a coroutine is replaced by what it came to
    running = run_call(PrepareJoin(1, GENERATION, False), User())
    next(running)
    running.send("work")
    with pytest.raises(StopIteration) as end:
        running.send({"v9": b"later"})
    assert end.value.value == JoinPrepared(1, "work", (ProtocolMetadata("v9", b"later"),))


# protocol types and metadata


class Kind(StrEnum):
    WORK = "work"


class OlderKind(str, Enum):  # noqa: UP042  # the form from before 3.11, whose str() differs
    WORK = "work"


@pytest.mark.parametrize("value", ["work", lambda: "work", Kind.WORK, OlderKind.WORK])
def test_protocol_type_of_any_string_kind_becomes_a_string(value: Any) -> None:
    checked = checked_protocol_type(value)
    assert checked == "work"
    assert type(checked) is str  # an enum of the user's could not be sent to the child process


@pytest.mark.parametrize("value", ["", None, b"work", 5, "x" * 32_768, "\ud800", lambda: None])
def test_bad_protocol_type_is_refused(value: Any) -> None:
    with pytest.raises(MetadataError, match="protocol_type must be a string of 1 to 32767 bytes"):
        checked_protocol_type(value)


def test_a_protocol_type_that_is_far_too_long_is_not_told_whole() -> None:
    with pytest.raises(MetadataError) as caught:
        checked_protocol_type("x" * 32_768)
    assert len(str(caught.value)) < 200


@pytest.mark.filterwarnings("error")
def test_a_protocol_type_cannot_be_awaited() -> None:
    async def protocol_type() -> str:
        raise AssertionError("nobody awaits it")

    with pytest.raises(MetadataError, match="not `async def`"):
        checked_protocol_type(protocol_type)


def test_generators_are_refused() -> None:
    def yields() -> Any:
        yield

    async def yields_too() -> Any:
        yield

    for callback in (yields, yields_too):
        with pytest.raises(TypeError, match=f"{callback.__name__} is a generator function"):
            refuse_generator(callback())
    refuse_generator([None])


@pytest.mark.parametrize(
    "value",
    [
        [("v1", b"1"), ("v0", b"")],
        (("v1", b"1"), ["v0", bytearray()]),
        {"v1": memoryview(b"1"), "v0": b""},
        [ProtocolMetadata("v1", b"1"), ProtocolMetadata("v0", b"")],
    ],
)
def test_metadata_in_all_its_forms_and_in_its_order(value: Any) -> None:
    checked = checked_protocols(value)
    assert checked == (ProtocolMetadata("v1", b"1"), ProtocolMetadata("v0", b""))
    assert all(type(each.metadata) is bytes for each in checked)


def test_the_names_of_protocols_are_plain_texts() -> None:
    (checked,) = checked_protocols({OlderKind.WORK: b""})
    assert checked.name == "work"
    assert type(checked.name) is str


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([], "at least one protocol"),
        ({}, "at least one protocol"),
        (None, "must return a mapping .* got None"),
        (5, "must return a mapping .* got 5"),
        ({("v0", b""), ("v1", b"")}, "must return a mapping .* got {"),
        (["v0"], r"must return a mapping .* got \['v0'\]"),
        ([("v0", b"", b"")], "must return a mapping"),
        ([(5, b"")], "5 is not a protocol name"),
        ([("", b"")], "'' is not a protocol name: a string of 1 to 32767 bytes"),
        ([("k" * 40_000, b"")], r"metadata\(\): 'k{1,20}\.\.\.k{1,20}' is not a protocol name"),
        ([("v\ud800", b"")], "is not a protocol name"),
        ([("v0", "text")], "'v0' must come with bytes, not str"),
        ([("v0", None)], "'v0' must come with bytes, not NoneType"),
        ([("v0", b""), ("v0", b"")], "offers the protocol 'v0' twice"),
    ],
)
def test_bad_metadata_is_refused(value: Any, match: str) -> None:
    with pytest.raises(MetadataError, match=match):
        checked_protocols(value)


# plans


def test_members_left_out_of_a_plan_get_nothing() -> None:
    assert checked_plan({}, MEMBERS) == {"a": b"", "b": b""}
    assert checked_plan({"b": memoryview(b"2")}, MEMBERS) == {"a": b"", "b": b"2"}


@pytest.mark.parametrize(
    ("value", "match"),
    [
        (None, "must return a mapping of member id to bytes, not NoneType"),
        ([("a", b"")], "not list"),
        ({"c": b""}, "'c', which is not one of the 2 members"),
        ({"a": "text"}, "'a' must be bytes, not str"),
    ],
)
def test_bad_plan_is_refused(value: Any, match: str) -> None:
    with pytest.raises(AssignmentError, match=match):
        checked_plan(value, MEMBERS)


# reasons and timeouts


def test_rejoin_reason_is_made_a_plain_string() -> None:
    assert checked_reason("new metadata") == "new metadata"
    assert type(checked_reason(Kind.WORK)) is str
    assert checked_reason("half a \ud800 character") == "half a ? character"
    with pytest.raises(TypeError, match="the reason must be a string, not bytes"):
        checked_reason(b"x")


@pytest.mark.parametrize(
    ("seconds", "timeout_ms"),
    [
        (None, None),
        (0, 0),
        (0.0005, 0),
        (1.5, 1_500),
        (-3, 0),
        (-math.inf, 0),
        (math.inf, None),
        (1e300, None),
        (10**9, 10**12),
    ],
)
def test_timeout_is_checked_and_rounded_to_milliseconds(
    seconds: float | None, timeout_ms: int | None
) -> None:
    assert checked_timeout_ms(seconds) == timeout_ms


@pytest.mark.parametrize("seconds", ["1", b"", True, 1j])
def test_bad_timeout_is_refused(seconds: Any) -> None:
    with pytest.raises(TypeError, match="must be seconds or None"):
        checked_timeout_ms(seconds)


def test_nan_is_no_timeout() -> None:
    with pytest.raises(ValueError, match="not NaN"):
        checked_timeout_ms(math.nan)
