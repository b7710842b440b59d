"""Test all 47 behaviours that Kafka's own `AbstractCoordinatorTest` tests.

Each test names the Java test that it stands for. Where ours differs the docstring says how:

* A wakeup raises nothing here: the waiting call returns False, and the next one goes on.
* `ExternalCompletion` (another poll of the shared network client ends the request) is what always happens
  here: the engine takes answers whether or not the caller waits.
* Generations that Java's tests set by hand are reached by the way that leads there.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

import pytest

from groupsdk.error_code import ErrorCode as E
from groupsdk.errors import (
    AuthenticationError,
    CoordinatorNotAvailableError,
    EngineError,
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
)
from groupsdk.member.actions import Disconnect, FindCoordinator, Send
from groupsdk.member.events import (
    LeaveRequested,
    RejoinRequested,
    ResponseReceived,
)
from groupsdk.member.metrics import METRICS
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation
from groupsdk.wire.messages.groups import LeaveGroupResponse, MemberResponse
from groupsdk.wire.schema import Response
from tests.drivers.virtual import Bench
from tests.member.driving import (
    MEMBER_ID,
    PROTOCOL_NAME,
    Driver,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
    beaten,
    join_refused,
    joined,
    synced,
)


LONG = "Why? " * 100
GENERATION = Generation(1, MEMBER_ID, PROTOCOL_NAME)


# Metrics and discovery.


def test_metrics(driver: Driver) -> None:
    """testMetrics. The values are compared with Java's in test_metrics.py; here: that they are fed."""
    assert set(driver.metrics) == set(METRICS)
    assert driver.metrics["last-heartbeat-seconds-ago"] == -1
    assert driver.metrics["last-rebalance-seconds-ago"] == -1
    driver.start_join()
    driver.advance(20)
    driver.answer(joined())
    driver.advance(30)
    driver.complete()
    driver.advance(2_970)
    driver.advance(7)
    driver.answer(beaten())
    driver.advance(10_000)
    metrics = driver.metrics
    assert metrics["join-time-max"] == metrics["join-time-avg"] == 20
    assert metrics["sync-time-max"] == metrics["sync-time-avg"] == 30
    assert metrics["rebalance-latency-max"] == metrics["rebalance-latency-total"] == 50
    assert metrics["heartbeat-total"] == metrics["join-total"] == metrics["sync-total"] == 1
    assert metrics["rebalance-total"] == 1
    assert metrics["failed-rebalance-total"] == 0
    assert metrics["last-rebalance-seconds-ago"] == 12


def test_coordinator_discovery_exponential_backoff() -> None:
    """testCoordinatorDiscoveryExponentialBackoff: a coordinator that is named but cannot be reached."""
    driver = Driver(retry_backoff_ms=10, retry_backoff_max_ms=100)
    driver.poll()
    for _ in range(6):
        while not driver.looking:
            driver.advance(1)
        driver.found()
        if driver.view.call is not None:
            driver.prepare()
        driver.disconnect()
    lookups = driver.actions(FindCoordinator)
    waits = [after - before for before, after in pairwise(lookups)]
    assert waits[0] == 0, "the first loss is free"
    for number, wait_ms in enumerate(waits[1:], start=1):
        backoff_ms = min(100, 10 * 2**number)
        assert 0.8 * backoff_ms - 1 <= wait_ms <= min(100, 1.2 * backoff_ms) + 1


def test_wakeup_from_ensure_coordinator_ready(bench: Bench) -> None:
    """testWakeupFromEnsureCoordinatorReady: a wakeup before the call ends it even with no time to wait."""
    bench.host.lookups_hang = True
    start_ms = bench.clock.now_ms()
    bench.member.wakeup()
    assert not bench.member.ensure_active_group(10)
    assert bench.clock.now_ms() == start_ms
    assert not bench.member.ensure_active_group(10)
    assert bench.clock.now_ms() == start_ms + 10_000, "one wakeup ends one call"


def test_lookup_coordinator(driver: Driver) -> None:
    """testLookupCoordinator: one lookup at a time; a failed one is followed by another."""
    driver.poll()
    assert driver.looking
    for _ in range(3):  # the driver asserts that no second one starts
        driver.poll()
        driver.handle(RejoinRequested("now"))
        driver.advance(1_000)
    driver.lookup_failed(CoordinatorNotAvailableError(15))
    driver.raise_failure()
    driver.poll()
    driver.advance(1_000)
    assert len(driver.actions(FindCoordinator)) == 2
    driver.found()
    driver.disconnect()
    driver.advance(1_000)
    assert len(driver.actions(FindCoordinator)) == 3


def test_authentication_error_in_ensure_coordinator_ready(bench: Bench) -> None:
    """testAuthenticationErrorInEnsureCoordinatorReady."""
    bench.host.lookup_errors.append(AuthenticationError("wrong password"))
    with pytest.raises(AuthenticationError, match="wrong password"):
        bench.member.ensure_active_group(10)
    assert bench.member.ensure_active_group(10), "the next call tries again"


# JoinGroup.


def test_timeout_and_retry_join_group_if_needed(bench: Bench) -> None:
    """testTimeoutAndRetryJoinGroupIfNeeded: a call that runs out of time leaves the join in flight."""
    bench.host.scripts[JoinGroupRequest].append(None)
    assert not bench.member.ensure_active_group(40)
    assert bench.host.driver.pending(JoinGroupRequest)
    bench.host.answer(joined())
    assert bench.member.ensure_active_group(40)
    assert len(bench.requests(JoinGroupRequest)) == 1


def test_group_max_size_exception_is_fatal(bench: Bench) -> None:
    """testGroupMaxSizeExceptionIsFatal: raised to the caller, whose next call may try again."""
    bench.host.scripts[JoinGroupRequest].append(join_refused(E.GROUP_MAX_SIZE_REACHED))
    with pytest.raises(GroupMaxSizeReachedError):
        bench.member.ensure_active_group(10)
    assert bench.member.ensure_active_group(10)


@pytest.mark.parametrize(
    ("rebalance_timeout_ms", "deadline_ms"),
    [
        pytest.param(60_000, 65_000, id="testJoinGroupRequestTimeout"),
        pytest.param(
            30_000,
            40_000,
            id="testJoinGroupRequestTimeoutLowerBoundedByDefaultRequestTimeout",
        ),
    ],
)
def test_join_group_request_timeout(rebalance_timeout_ms: int, deadline_ms: int) -> None:
    """testJoinGroupRequestTimeout, testJoinGroupRequestTimeoutLowerBoundedByDefaultRequestTimeout.

    The later of request timeout and rebalance timeout + 5 s.
    """
    driver = Driver(rebalance_timeout_ms=rebalance_timeout_ms, max_poll_interval_ms=600_000)
    driver.start_join()
    driver.advance(deadline_ms - 1)
    assert driver.pending(JoinGroupRequest)
    driver.advance(1)
    assert not driver.pending(JoinGroupRequest)
    assert driver.actions(Disconnect)
    assert driver.looking


def test_join_group_request_max_timeout() -> None:
    """testJoinGroupRequestMaxTimeout: the longest rebalance timeout there is does not overflow."""
    longest_ms = 2**31 - 1
    driver = Driver(rebalance_timeout_ms=longest_ms)
    request = driver.start_join()
    assert request.rebalance_timeout_ms == driver.config.join_timeout_ms == longest_ms
    driver.advance(longest_ms - 1)
    assert driver.pending(JoinGroupRequest)
    driver.poll()
    driver.advance(1)
    assert not driver.pending(JoinGroupRequest)


def test_join_group_request_with_member_id_required(driver: Driver) -> None:
    """testJoinGroupRequestWithMemberIdRequired: joins again at once with the id that it was given."""
    driver.refuse_join(E.MEMBER_ID_REQUIRED, MEMBER_ID)
    assert [request.member_id for request in driver.sent(JoinGroupRequest)] == ["", MEMBER_ID]
    assert driver.view.generation == Generation(-1, MEMBER_ID, None)
    assert driver.view.joining
    driver.answer(join_refused(E.UNKNOWN_MEMBER_ID))
    driver.prepare()
    assert driver.sent(JoinGroupRequest)[-1].member_id == ""


def test_join_group_request_with_fenced_instance_id_exception() -> None:
    """testJoinGroupRequestWithFencedInstanceIdException: fatal, and here for good."""
    bench = Bench(group_instance_id="i")
    bench.host.scripts[JoinGroupRequest].append(join_refused(E.FENCED_INSTANCE_ID))
    for _ in range(2):
        with pytest.raises(FencedInstanceIdError):
            bench.member.ensure_active_group(10)
    assert len(bench.requests(JoinGroupRequest)) == 1


@pytest.mark.parametrize(
    ("join_type", "sync_type", "sync_name", "right"),
    [
        (None, None, None, True),
        ("work", "work", PROTOCOL_NAME, True),
        ("wrong", None, None, False),
        ("work", "wrong", PROTOCOL_NAME, False),
        ("work", "work", "wrong", False),
    ],
)
def test_join_group_protocol_type_and_name(
    bench: Bench, join_type: str | None, sync_type: str | None, sync_name: str | None, right: bool
) -> None:
    """testJoinGroupProtocolTypeAndName (KIP-559)."""
    bench.host.scripts[JoinGroupRequest].append(joined(protocol_type=join_type))
    bench.host.scripts[SyncGroupRequest].append(
        synced(protocol_type=sync_type, protocol_name=sync_name)
    )
    if right:
        assert bench.member.ensure_active_group(5)
        return
    with pytest.raises(InconsistentGroupProtocolError):
        bench.member.ensure_active_group(5)


def test_no_generation_will_not_trigger_protocol_name_check(driver: Driver) -> None:
    """testNoGenerationWillNotTriggerProtocolNameCheck: reset while the sync was in flight."""
    driver.start_sync()
    sync = driver.outstanding[-1]
    driver.handle(LeaveRequested("meanwhile"))
    driver.handle(ResponseReceived(sync.request_id, synced(protocol_name="wrong")))
    assert driver.failure() is None
    driver.join()


def test_join_group_request_with_group_instance_id_not_found() -> None:
    """testJoinGroupRequestWithGroupInstanceIdNotFound."""
    driver = Driver(group_instance_id="i")
    driver.refuse_join(E.UNKNOWN_MEMBER_ID, MEMBER_ID)
    assert driver.view.joining
    assert driver.view.generation == NO_GENERATION


def test_join_group_request_with_rebalance_in_progress(bench: Bench) -> None:
    """testJoinGroupRequestWithRebalanceInProgress: at once (KAFKA-10870); on_join_prepare was called once."""
    bench.host.scripts[JoinGroupRequest].append(join_refused(E.REBALANCE_IN_PROGRESS))
    assert bench.member.ensure_active_group(10)
    first_ms, second_ms = bench.host.driver.sent_at(JoinGroupRequest)
    assert first_ms == second_ms
    assert (
        bench.user.names().count("on_join_prepare")
        == bench.user.names().count("on_join_complete")
        == 1
    )


def test_join_group_unknown_member_response_with_old_generation(member: Driver) -> None:
    """testJoinGroupUnknownMemberResponseWithOldGeneration."""
    member.handle(RejoinRequested("test"))
    member.start_join()
    member.handle(LeaveRequested("meanwhile"))
    member.join(5, "m-2")
    joins = [send for _, send in member.log if isinstance(send, Send)]
    old = next(each for each in joins if getattr(each.request, "reason", "") == "test")
    member.handle(ResponseReceived(old.request_id, join_refused(E.UNKNOWN_MEMBER_ID)))
    assert member.view.generation == Generation(5, "m-2", PROTOCOL_NAME)
    assert member.active


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(E.UNKNOWN_MEMBER_ID, id="testSyncGroupUnknownMemberResponseWithOldGeneration"),
        pytest.param(
            E.ILLEGAL_GENERATION, id="testSyncGroupIllegalGenerationResponseWithOldGeneration"
        ),
    ],
)
def test_sync_group_response_with_old_generation(driver: Driver, error: E) -> None:
    """testSyncGroup{UnknownMember,IllegalGeneration}ResponseWithOldGeneration."""
    driver.start_sync()
    sync = driver.outstanding[-1]
    driver.handle(LeaveRequested("meanwhile"))
    driver.join(5, "m-2")
    driver.handle(ResponseReceived(sync.request_id, synced(error=error)))
    assert driver.view.generation == Generation(5, "m-2", PROTOCOL_NAME)
    assert driver.active


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(Driver.start_join, id="testRetainMemberIdAfterJoinGroupDisconnect"),
        pytest.param(lambda it: it.start_sync(10), id="testRetainMemberIdAfterSyncGroupDisconnect"),
    ],
)
def test_retain_member_id_after_disconnect(
    driver: Driver, start: Callable[[Driver], object]
) -> None:
    """testRetainMemberIdAfter{Join,Sync}GroupDisconnect: after a sync, too, it starts with a join again."""
    driver.join(5)
    driver.handle(RejoinRequested("Manual test trigger"))
    start(driver)
    driver.disconnect()
    driver.advance(1)
    driver.found()
    driver.advance(200)
    driver.prepare()
    assert driver.sent(JoinGroupRequest)[-1].member_id == MEMBER_ID
    driver.answer(joined(10))
    driver.complete()
    assert driver.view.generation == Generation(10, MEMBER_ID, PROTOCOL_NAME)


def test_rejoin_reason(bench: Bench) -> None:
    """testRejoinReason. Unlike Java's the first join has a reason, too."""

    def reason() -> str | None:
        assert bench.member.ensure_active_group(10)
        return bench.requests(JoinGroupRequest)[-1].reason

    assert reason() == "the member joins for the first time"
    bench.member.request_rejoin("Manual test trigger")
    assert reason() == "Manual test trigger"
    bench.host.scripts[JoinGroupRequest].append(join_refused(E.GROUP_MAX_SIZE_REACHED))
    bench.member.request_rejoin("Manual test trigger 2")
    with pytest.raises(GroupMaxSizeReachedError):
        bench.member.ensure_active_group(10)
    assert reason() == "rebalance failed: GroupMaxSizeReachedError"
    bench.member.request_rejoin(LONG)
    assert reason() == LONG[:255]
    assert len(bench.requests(JoinGroupRequest)) == 5, "once taken, a reason is not used again"


# SyncGroup.


def test_sync_group_request_with_fenced_instance_id_exception() -> None:
    """testSyncGroupRequestWithFencedInstanceIdException."""
    bench = Bench(group_instance_id="i")
    bench.host.scripts[SyncGroupRequest].append(synced(error=E.FENCED_INSTANCE_ID))
    with pytest.raises(FencedInstanceIdError):
        bench.member.ensure_active_group(10)


# Heartbeat.


def test_heartbeat_sent_when_completing_rebalance(driver: Driver) -> None:
    """testHeartbeatSentWhenCompletingRebalance.

    Here while the leader works out the plan: with a sync parked Kafka would not read a heartbeat.
    """
    driver.lead()
    assert driver.view.state is MemberState.COMPLETING_REBALANCE
    driver.advance(3_000)
    assert driver.pending(HeartbeatRequest)
    before = driver.view.generation
    driver.answer(beaten(E.REBALANCE_IN_PROGRESS))
    assert driver.view.generation == before
    assert driver.view.state is MemberState.COMPLETING_REBALANCE


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            E.ILLEGAL_GENERATION, id="testHeartbeatIllegalGenerationResponseWithOldGeneration"
        ),
        pytest.param(E.UNKNOWN_MEMBER_ID, id="testHeartbeatUnknownMemberResponseWithOldGeneration"),
        pytest.param(
            E.FENCED_INSTANCE_ID, id="testHeartbeatInstanceFencedResponseWithOldGeneration"
        ),
        pytest.param(
            E.REBALANCE_IN_PROGRESS, id="not tested by Kafka: nor does it rejoin once more"
        ),
    ],
)
def test_heartbeat_response_with_old_generation(error: E) -> None:
    """testHeartbeat{IllegalGeneration,UnknownMember,InstanceFenced}ResponseWithOldGeneration."""
    driver = Driver(group_instance_id="i")
    driver.join()
    driver.advance(3_000)
    heartbeat = driver.outstanding[-1]
    assert driver.pending(HeartbeatRequest)
    driver.handle(RejoinRequested("test"))
    driver.start_sync(2)
    driver.complete()
    driver.handle(ResponseReceived(heartbeat.request_id, beaten(error)))
    assert driver.view.generation == Generation(2, MEMBER_ID, PROTOCOL_NAME)
    assert driver.failure() is None
    assert driver.active


def test_heartbeat_rebalance_in_progress_response_during_rebalancing(member: Driver) -> None:
    """testHeartbeatRebalanceInProgressResponseDuringRebalancing."""
    member.advance(3_000)
    member.handle(RejoinRequested("test"))
    member.start_join()
    member.answer(beaten(E.REBALANCE_IN_PROGRESS))
    assert member.view.generation == GENERATION
    assert member.view.state is MemberState.PREPARING_REBALANCE
    member.answer(joined(1))
    member.complete()
    assert member.view.generation == GENERATION
    assert member.active, "it has joined already: nothing more to do about the rebalance"


def test_heartbeat_request_with_fenced_instance_id_exception() -> None:
    """testHeartbeatRequestWithFencedInstanceIdException: raised by the caller's next call, and each after it.

    kafka-python swallowed it: heartbeats stopped, the state stayed stable, and nothing was raised.
    """
    bench = Bench(group_instance_id="i")
    assert bench.member.ensure_active_group(10)
    bench.host.scripts[HeartbeatRequest].append(beaten(E.FENCED_INSTANCE_ID))
    bench.host.advance(3_000)
    assert bench.member.generation_if_stable() is None
    for call in (bench.member.poll, bench.member.ensure_active_group):
        with pytest.raises(FencedInstanceIdError):
            call()


def test_uncaught_exception_in_heartbeat_thread(bench: Bench) -> None:
    """testUncaughtExceptionInHeartbeatThread: the engine's end reaches the caller's next call."""
    assert bench.member.ensure_active_group(10)
    bench.host.bug = KeyError("bug")
    bench.host.advance(3_000)
    with pytest.raises(EngineError, match="KeyError"):
        bench.member.poll()
    assert bench.member.generation_if_stable() is None


@pytest.mark.usefixtures("steady_heartbeats")
def test_poll_heartbeat_awakes_heartbeat_thread() -> None:
    """testPollHeartbeatAwakesHeartbeatThread.

    Here nothing has to be awoken: a heartbeat is sent on time whatever the retry backoff, and a poll
    changes nothing about that.
    """
    driver = Driver(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    driver.join()
    start_ms = driver.now_ms
    driver.advance(2_999)
    driver.poll()
    driver.advance(1)
    assert driver.sent_at(HeartbeatRequest) == [start_ms + 3_000]


# LeaveGroup.


@pytest.mark.parametrize("instance_id", [None, "groupInstanceId"])
def test_leave_group_sent_with_group_instance_id_unset(instance_id: str | None) -> None:
    """testLeaveGroupSentWithGroupInstanceIdUnSet: closing leaves, unless the member is static."""
    bench = Bench(group_instance_id=instance_id)
    assert bench.member.ensure_active_group(10)
    bench.member.close()
    assert len(bench.requests(LeaveGroupRequest)) == (1 if instance_id is None else 0)
    assert bench.host.ended.done()


def _left(*codes: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        members=tuple(MemberResponse(member_id=MEMBER_ID, error_code=code) for code in codes)
    )


@pytest.mark.parametrize(
    ("response", "logged"),
    [
        pytest.param(_left(0), 0, id="testHandleNormalLeaveGroupResponse"),
        pytest.param(_left(0, 0), 0, id="testHandleMultipleMembersLeaveGroupResponse"),
        pytest.param(_left(), 0, id="testHandleLeaveGroupResponseWithEmptyMemberResponse"),
        pytest.param(_left(E.UNKNOWN_MEMBER_ID), 1, id="testHandleLeaveGroupResponseWithException"),
    ],
)
def test_handle_leave_group_response(
    bench: Bench, response: LeaveGroupResponse, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    """testHandle{Normal,MultipleMembers}LeaveGroupResponse, ...WithEmptyMemberResponse, ...WithException.

    In Java the future of the leave fails in the second and the last case, which nobody but the test looks
    at: leaving is best effort. Here an error is logged, and close() ends in each.
    """
    assert bench.member.ensure_active_group(10)
    bench.host.scripts[LeaveGroupRequest].append(response)
    with caplog.at_level("INFO"):
        bench.member.close()
    assert bench.host.ended.done()
    assert sum("UNKNOWN_MEMBER_ID" in message for message in caplog.messages) == logged


def test_handle_normal_leave_group_response_and_truncated_leave_reason(bench: Bench) -> None:
    """testHandleNormalLeaveGroupResponseAndTruncatedLeaveReason."""
    assert bench.member.ensure_active_group(10)
    bench.member.leave_group(LONG)
    (request,) = bench.requests(LeaveGroupRequest)
    assert request.members[0].reason == LONG[:255]
    assert bench.member.generation() == NO_GENERATION
    assert bench.member.ensure_active_group(10), "it may join again"


# Wakeups.


def _woken(
    bench: Bench, response: Callable[[], Response], *, received: bool
) -> Callable[[Any], Any]:
    """A script that wakes the caller up as a request goes out, or as its answer comes."""

    def script(_: object) -> Response | None:
        bench.member.wakeup()
        return response() if received else None

    return script


@pytest.mark.parametrize(
    ("kind", "received"),
    [
        pytest.param(JoinGroupRequest, False, id="testWakeupAfterJoinGroupSent"),
        pytest.param(JoinGroupRequest, False, id="testWakeupAfterJoinGroupSentExternalCompletion"),
        pytest.param(JoinGroupRequest, True, id="testWakeupAfterJoinGroupReceived"),
        pytest.param(
            JoinGroupRequest, True, id="testWakeupAfterJoinGroupReceivedExternalCompletion"
        ),
        pytest.param(SyncGroupRequest, False, id="testWakeupAfterSyncGroupSentExternalCompletion"),
        pytest.param(SyncGroupRequest, True, id="testWakeupAfterSyncGroupReceived"),
        pytest.param(
            SyncGroupRequest, True, id="testWakeupAfterSyncGroupReceivedExternalCompletion"
        ),
    ],
)
def test_wakeup(
    bench: Bench, kind: type[Any], received: bool, request: pytest.FixtureRequest
) -> None:
    """testWakeupAfter{JoinGroup,SyncGroup}{Sent,Received}, each also ...ExternalCompletion.

    Where the request has no answer yet the call returns False and the next one goes on; where the answer
    is there already, so is what follows from it, and nothing is lost either way.
    """
    good = joined if kind is JoinGroupRequest else synced
    bench.host.scripts[kind].append(_woken(bench, good, received=received))
    active = bench.member.ensure_active_group(10)
    assert bench.user.names().count("on_join_prepare") == 1
    if not received:
        assert not active
        assert "on_join_complete" not in bench.user.names()
        if "External" in request.node.name:
            bench.host.answer(good())  # while the caller is elsewhere
            assert "on_join_complete" not in bench.user.names(), "only in the caller's thread"
        else:
            bench.clock.advance(0)
            bench.host.answer(good())
    assert bench.member.ensure_active_group(10)
    assert (
        bench.user.names().count("on_join_prepare")
        == bench.user.names().count("on_join_complete")
        == 1
    )
    assert len(bench.requests(JoinGroupRequest)) == len(bench.requests(SyncGroupRequest)) == 1
    bench.host.advance(3_000)
    assert bench.requests(HeartbeatRequest)


def test_wakeup_in_on_join_complete(bench: Bench) -> None:
    """testWakeupInOnJoinComplete: whatever it raises, it is called again with the same bytes; kafka-python did not."""
    bench.user.hooks["on_join_complete"] = Mock(side_effect=[RuntimeError("woken")] * 2 + [None])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="woken"):
            bench.member.ensure_active_group(10)
    assert bench.member.ensure_active_group(10)
    assert bench.user.names().count("on_join_prepare") == 1
    delivered = ("on_join_complete", 1, MEMBER_ID, PROTOCOL_NAME, b"mine")
    assert bench.user.calls[-3:] == [delivered] * 3
    bench.host.advance(3_000)
    assert bench.requests(HeartbeatRequest)


# Backoff.


def test_backoff_and_retry_upon_retriable_error(bench: Bench) -> None:
    """testBackoffAndRetryUponRetriableError: exponentially, as kafka-python did not."""
    bench.host.scripts[JoinGroupRequest].extend([join_refused(E.COORDINATOR_LOAD_IN_PROGRESS)] * 8)
    assert bench.member.ensure_active_group(40)
    at = bench.host.driver.sent_at(JoinGroupRequest)
    waits = [after - before for before, after in pairwise(at)]
    for wait_ms, expected_ms in zip(waits, [100, 200, 400, 800, 1_000, 1_000], strict=False):
        assert 0.8 * expected_ms - 1 <= wait_ms <= min(1_000, 1.2 * expected_ms)


def test_return_upon_retriable_error_and_expired_timer(bench: Bench) -> None:
    """testReturnUponRetriableErrorAndExpiredTimer."""
    bench.host.scripts[JoinGroupRequest].extend([join_refused(E.COORDINATOR_LOAD_IN_PROGRESS)] * 50)
    start_ms = bench.clock.now_ms()
    assert not bench.member.ensure_active_group(0.5)
    assert bench.clock.now_ms() == start_ms + 500
