"""Test that bugs which Kafka's client and its peers had are not in this one; each test names its bug.

Those that a behaviour of Kafka's own tests excludes are named in `test_abstract_coordinator.py`.
"""

from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest

from groupsdk.error_code import ErrorCode as E
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    GroupAuthorizationError,
    GroupMaxSizeReachedError,
    GroupSdkError,
    InconsistentGroupProtocolError,
    InvalidSessionTimeoutError,
    NetworkError,
)
from groupsdk.member.actions import FindCoordinator, PrepareJoin, Send
from groupsdk.member.events import LeaveRequested, RejoinRequested, ResponseReceived
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation, ProtocolMetadata
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


GENERATION = Generation(1, MEMBER_ID, PROTOCOL_NAME)


# Apache Kafka.


@pytest.mark.parametrize("start", [Driver.start_join, Driver.start_sync])
def test_kafka_8104_9140_a_join_that_was_given_up_does_not_stand_in_the_way(
    driver: Driver, start: Callable[[Driver], object]
) -> None:
    """The future of the old join was kept, and no new one was sent."""
    start(driver)
    driver.handle(LeaveRequested("expelled, as far as the request is concerned"))
    driver.join(2, "m-2")
    assert driver.active


def test_kafka_9823_every_answer_is_judged_by_the_generation_it_was_sent_in(member: Driver) -> None:
    member.advance(3_000)
    old = member.outstanding[-1]
    member.handle(LeaveRequested("and join again"))
    member.join(7, "m-7")
    for error in (E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION, E.REBALANCE_IN_PROGRESS, E.NONE):
        before = member.view
        member.handle(ResponseReceived(old.request_id, beaten(error)))
        assert member.view == before


def test_kafka_10134_a_parked_join_costs_no_processor_time(member: Driver) -> None:
    """While a rebalance went on the poll timeout came out as zero, and the client span."""
    member.handle(RejoinRequested("test"))
    member.start_join()
    wakes = member.wakes
    member.advance(59_000)
    assert member.wakes == wakes
    assert member.pending(JoinGroupRequest)


@pytest.mark.parametrize("error", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
@pytest.mark.parametrize("start", [Driver.start_sync, Driver.join])
def test_kafka_12983_13419_reset_calls_on_join_prepare_again_and_keeps_a_valid_member_id(
    driver: Driver, start: Callable[[Driver], object], error: E
) -> None:
    start(driver)
    if driver.pending(SyncGroupRequest):
        driver.answer(synced(error=error))
    else:
        driver.hear(error)
    call = driver.call(PrepareJoin)
    assert call.run_callback
    kept = MEMBER_ID if error is E.ILLEGAL_GENERATION else ""
    assert call.generation == Generation(-1, kept, None)
    driver.prepare()
    assert driver.sent(JoinGroupRequest)[-1].member_id == kept


def test_kafka_12991_19242_all_state_is_read_at_once(bench: Bench) -> None:
    """Two reads of fields that another thread changes straddled a rebalance."""
    assert bench.member.ensure_active_group(5)
    before, view = bench.member.snapshot(), bench.host.driver.view
    bench.host.scripts[HeartbeatRequest].append(beaten(E.UNKNOWN_MEMBER_ID))
    bench.host.advance(3_000)
    assert (before.stable, before.generation, before.state) == (
        True,
        GENERATION,
        MemberState.STABLE,
    )
    assert view.generation == GENERATION
    with pytest.raises(FrozenInstanceError):
        view.state = MemberState.UNJOINED  # type: ignore[misc]  # that is the point
    after = bench.member.snapshot()
    assert (after.stable, after.generation, after.state) == (
        False,
        NO_GENERATION,
        MemberState.UNJOINED,
    )


@pytest.mark.parametrize(
    "error", [E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS]
)
@pytest.mark.parametrize("sync", [False, True])
def test_kafka_13214_retriable_errors_reset_nothing(member: Driver, error: E, sync: bool) -> None:
    member.handle(RejoinRequested("test"))
    if sync:
        member.start_sync(2)
        member.answer(synced(error=error))
    else:
        member.refuse_join(error)
    assert member.view.generation.member_id == MEMBER_ID
    assert not member.view.generation.is_reset
    if member.looking:
        member.found()
    member.advance(200)
    assert not member.call(PrepareJoin).run_callback, "it is the same rebalance"
    member.prepare()
    assert member.sent(JoinGroupRequest)[-1].member_id == MEMBER_ID


def test_kafka_13891_a_rebalance_during_sync_keeps_the_generation(driver: Driver) -> None:
    """Resetting it there was tried, and taken back."""
    driver.start_sync()
    driver.answer(synced(error=E.REBALANCE_IN_PROGRESS))
    assert driver.view.generation == GENERATION
    assert not driver.call(PrepareJoin).run_callback


@pytest.mark.parametrize("reason", ["x" * 100_000, "ü" * 255, "", "\n"])
def test_kafka_13998_14013_a_reason_of_any_length_fits_the_wire(
    member: Driver, reason: str
) -> None:
    member.handle(RejoinRequested(reason))
    assert member.start_join().reason == reason[:255]
    member.answer(joined(2))
    member.answer(synced())
    member.handle(LeaveRequested(reason))
    assert member.sent(LeaveGroupRequest)[0].members[0].reason == reason[:255]


def test_kafka_13917_looking_for_the_coordinator_does_not_spin(member: Driver) -> None:
    member.disconnect()
    for _ in range(600):
        if member.looking:
            member.lookup_failed(CoordinatorNotAvailableError(15))
        member.poll()
        member.advance(100)
    assert 50 < len(member.actions(FindCoordinator)) < 90
    assert member.view.generation == GENERATION, "it may still be saved"


def test_kafka_12639_a_call_without_time_left_does_not_retry_in_a_loop(bench: Bench) -> None:
    bench.host.scripts[JoinGroupRequest].extend(
        [join_refused(E.COORDINATOR_LOAD_IN_PROGRESS)] * 100
    )
    for _ in range(100):
        assert not bench.member.ensure_active_group(0)
    assert len(bench.requests(JoinGroupRequest)) == 1


@pytest.mark.parametrize("failure", [E.FENCED_INSTANCE_ID, E.GROUP_AUTHORIZATION_FAILED])
def test_kafka_14729_a_failed_heartbeat_burns_no_processor(failure: E) -> None:
    driver = Driver(group_instance_id="i")
    driver.join()
    driver.hear(failure)
    wakes = driver.wakes
    for _ in range(50):
        driver.advance(1_000)
        if driver.pending(HeartbeatRequest):
            driver.answer(beaten(failure))
    assert driver.wakes - wakes < 40


def test_kafka_14024_a_slow_on_join_prepare_is_called_once_and_leads_to_a_join(
    bench: Bench,
) -> None:
    """It was called again each time the caller's timer ran out, and the join was never sent."""
    bench.user.hooks["on_join_prepare"] = lambda *_: bench.host.advance(20_000)
    assert bench.member.ensure_active_group(1)
    assert bench.user.calls.count(("on_join_prepare", -1, "")) == 1
    assert bench.user.names().count("on_join_prepare") == 1


# kafka-python.


@pytest.mark.usefixtures("steady_heartbeats")
@pytest.mark.parametrize("call", ["prepare", "assign", "complete"])
def test_kafka_python_a_callback_delays_no_heartbeat(driver: Driver, call: str) -> None:
    """Callbacks and the assignor ran where the heartbeats are sent from."""
    if call == "assign":
        driver.lead()
    else:
        driver.start_sync()
        driver.answer(synced())
    if call == "prepare":
        driver.deliver()
        driver.handle(RejoinRequested("test"))
        driver.poll()
        driver.call(PrepareJoin)
    start_ms = driver.now_ms
    for _ in range(10):
        driver.hear()
    assert driver.sent_at(HeartbeatRequest) == [start_ms + 3_000 * n for n in range(1, 11)]


def test_kafka_python_a_sync_that_takes_long_costs_neither_membership_nor_coordinator(
    driver: Driver,
) -> None:
    """It sends no heartbeats during join and sync, and then counts the silence.

    Nor does this one, since Kafka would not read them; but it counts nothing, and heartbeats at once
    when the sync is answered.
    """
    driver.start_sync()
    driver.advance(30_000)
    assert driver.sent(HeartbeatRequest) == []
    driver.answer(synced())
    assert driver.pending(HeartbeatRequest)
    assert driver.actions(FindCoordinator) == [1_000_000]
    assert not driver.active, "what was proven is 30 s old"
    driver.answer(beaten())
    driver.complete()
    assert driver.active


# aiokafka.


def test_aiokafka_one_join_offers_all_protocols(bench: Bench) -> None:
    """It sends one JoinGroup for each assignor in every rebalance."""
    offer = [("sticky", b"1"), ("range", b"2"), ("even", b"3")]
    bench.user.hooks["metadata"] = lambda: offer
    assert bench.member.ensure_active_group(5)
    (request,) = bench.requests(JoinGroupRequest)
    assert [ProtocolMetadata(each.name, each.metadata) for each in request.protocols] == offer


def test_aiokafka_a_member_without_work_stays_a_member(bench: Bench) -> None:
    """Its poll deadline counted the partitions that were read, not the polls."""
    bench.host.scripts[SyncGroupRequest].append(synced(b""))
    assert bench.member.ensure_active_group(5)
    for _ in range(100):
        bench.host.advance(30_000)
        assert bench.member.poll()
    assert bench.requests(LeaveGroupRequest) == []
    assert bench.member.generation() == GENERATION


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (E.GROUP_MAX_SIZE_REACHED, GroupMaxSizeReachedError),
        (E.FENCED_INSTANCE_ID, FencedInstanceIdError),
        (E.INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocolError),
        (E.INVALID_SESSION_TIMEOUT, InvalidSessionTimeoutError),
        (E.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
    ],
)
def test_aiokafka_each_refusal_of_a_join_has_its_own_error(
    bench: Bench, code: E, error: type[GroupSdkError]
) -> None:
    bench.host.scripts[JoinGroupRequest].append(join_refused(code))
    with pytest.raises(error) as raised:
        bench.member.ensure_active_group(5)
    assert type(raised.value) is error


# Karapace.


def test_karapace_a_name_that_does_not_resolve_for_an_hour_is_no_dead_end(member: Driver) -> None:
    """Its heartbeat thread went on failing after the name service was back, until a restart."""
    member.disconnect(NetworkError("kafka-1 does not resolve"))
    for _ in range(36_000):
        if member.looking:
            member.found()  # another broker names it; connecting fails
        if member.outstanding:
            member.disconnect(NetworkError("kafka-1 does not resolve"))
        member.poll()
        member.advance(100)
    attempts = len(member.actions(Send)) + len(member.actions(FindCoordinator))
    assert attempts < 2 * 3_600 / 0.8 + 20
    assert member.view.trouble == "kafka-1 does not resolve"
    assert not member.view.believes_at(member.now_ms)
    while not member.looking and not member.pending(HeartbeatRequest):
        member.advance(100)
    if member.looking:
        member.found()
    member.answer(beaten(E.UNKNOWN_MEMBER_ID))
    member.join(2, "m-2")
    assert member.active
    assert member.view.trouble is None
