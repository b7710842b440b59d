"""Test one member's way through its rebalances."""

import pytest

from groupsdk.error_code import ErrorCode as E
from groupsdk.errors import InconsistentGroupProtocolError, MemberIdRequiredError
from groupsdk.member.actions import AssignGroup, CompleteJoin, PrepareJoin
from groupsdk.member.events import (
    CallFailed,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    LeaveRequested,
    RejoinRequested,
)
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation, ProtocolMetadata
from groupsdk.wire.messages.groups import SyncGroupRequestAssignment
from tests.member.driving import (
    LEADER_ID,
    MEMBER_ID,
    NODE,
    PROTOCOL_NAME,
    Driver,
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    beaten,
    join_refused,
    joined,
    synced,
)


GENERATION = Generation(1, MEMBER_ID, PROTOCOL_NAME)


# The way through.


def test_follower_joins_syncs_and_takes_up_its_assignment(driver: Driver) -> None:
    driver.poll()
    driver.found()
    assert driver.call(PrepareJoin) == PrepareJoin(1, NO_GENERATION, run_callback=True)
    driver.prepare(b"me")
    assert driver.state() is MemberState.PREPARING_REBALANCE
    driver.answer(joined())
    assert driver.state() is MemberState.COMPLETING_REBALANCE
    assert driver.view.generation == GENERATION
    assert not driver.view.is_leader
    (sync,) = driver.sent(SyncGroupRequest)
    assert (sync.generation_id, sync.member_id, sync.assignments) == (1, MEMBER_ID, ())
    driver.answer(synced(b"mine"))
    assert driver.state() is MemberState.STABLE
    assert driver.view.joining, "until the assignment is taken up"
    assert driver.view.assignment_epoch == 1
    assert driver.call(CompleteJoin) == CompleteJoin(2, GENERATION, PROTOCOL_NAME, b"mine")
    driver.deliver()
    assert driver.active
    assert driver.view.call is None


def test_leader_is_asked_for_the_plan_and_syncs_it(driver: Driver) -> None:
    driver.lead()
    call = driver.call(AssignGroup)
    assert driver.view.is_leader
    assert (call.leader_id, call.protocol_name, call.skip) == (MEMBER_ID, PROTOCOL_NAME, False)
    assert list(call.members.items()) == [(MEMBER_ID, b"m-1"), ("m-9", b"m-9")]
    driver.assign({"m-9": b"9", MEMBER_ID: b"1"})
    (sync,) = driver.sent(SyncGroupRequest)
    assert sync.assignments == (
        SyncGroupRequestAssignment(member_id=MEMBER_ID, assignment=b"1"),
        SyncGroupRequestAssignment(member_id="m-9", assignment=b"9"),
    )
    driver.answer(synced(b"1"))
    driver.deliver()
    event = driver.view.events[-1]
    assert (event.leader, event.member_count) == (True, 2)


def test_a_leader_that_is_to_skip_the_assignment(driver: Driver) -> None:
    """KIP-814: a static leader that came back."""
    driver.start_join()
    driver.answer(joined(leader=MEMBER_ID, members=(MEMBER_ID,), skip_assignment=True))
    assert driver.call(AssignGroup).skip
    driver.assign({})
    assert driver.sent(SyncGroupRequest)[-1].assignments == ()


def test_a_rebalance_is_recorded_with_its_phases(driver: Driver) -> None:
    driver.poll()
    driver.found()
    driver.advance(5)
    driver.prepare()
    driver.advance(10)
    driver.answer(joined())
    driver.advance(20)
    driver.answer(synced())
    driver.advance(40)
    driver.deliver()
    (event,) = driver.view.events
    assert event.phases == (("prepare", 5), ("join", 10), ("sync", 20), ("complete", 40))
    assert (event.outcome, event.duration_ms, event.attempts) == ("completed", 75, 1)
    assert (event.generation_before, event.generation_after) == (-1, 1)


def test_metrics_time_a_rebalance_as_kafka_does_from_the_first_join_to_the_sync(
    driver: Driver,
) -> None:
    driver.poll()
    driver.found()
    driver.advance(1_000)  # on_join_prepare
    driver.prepare()
    driver.advance(10)
    driver.answer(join_refused(E.REBALANCE_IN_PROGRESS))
    driver.prepare()
    driver.advance(20)
    driver.answer(joined())
    driver.answer(synced())
    assert driver.metrics["rebalance-total"] == 1, "before on_join_complete"
    driver.advance(1_000)
    driver.deliver()
    metrics = driver.metrics
    assert metrics["rebalance-latency-max"] == metrics["rebalance-latency-total"] == 30
    assert metrics["rebalance-total"] == metrics["failed-rebalance-total"] == 1


def test_a_rejoin_starts_with_prepare_in_the_old_generation(member: Driver) -> None:
    member.handle(RejoinRequested("new shards"))
    assert member.call(PrepareJoin) == PrepareJoin(3, GENERATION, run_callback=True)
    assert member.state() is MemberState.STABLE, "until the join is sent"
    member.prepare()
    assert member.sent(JoinGroupRequest)[-1].reason == "new shards"
    assert not member.view.believes_at(member.now_ms)


def test_a_rejoin_asked_for_while_joining_is_not_lost(driver: Driver) -> None:
    driver.start_sync()
    driver.handle(RejoinRequested("newer metadata"))
    driver.complete()
    assert driver.call(PrepareJoin).run_callback


def test_the_newest_metadata_is_asked_for_before_every_attempt(driver: Driver) -> None:
    driver.refuse_join(E.REBALANCE_IN_PROGRESS)
    driver.prepare(b"newer")
    assert driver.sent(JoinGroupRequest)[-1].protocols[0].metadata == b"newer"


# The two-step join.


def test_the_second_step_keeps_reason_and_offer(driver: Driver) -> None:
    driver.refuse_join(E.MEMBER_ID_REQUIRED, "m-5")
    first, second = driver.sent(JoinGroupRequest)
    assert second.member_id == "m-5"
    assert (first.reason, first.protocols) == (second.reason, second.protocols)
    assert driver.view.failure is None
    assert driver.metrics["failed-rebalance-total"] == 0


def test_a_rejoin_asked_for_between_the_two_steps_is_not_forgotten(driver: Driver) -> None:
    """Found by the simulation: the second step goes out with the metadata of the first."""
    driver.start_join()
    driver.handle(RejoinRequested("the subscription has changed"))
    driver.answer(join_refused(E.MEMBER_ID_REQUIRED, "m-5"))
    assert len(driver.sent(JoinGroupRequest)) == 2
    assert driver.view.joining
    driver.answer(joined(1, "m-5"))
    driver.complete()
    assert isinstance(driver.view.call, PrepareJoin)


def test_a_join_that_came_too_late_where_the_broker_assigns_is_a_loss(driver: Driver) -> None:
    """Found by the simulation: a consumer group takes whoever it has removed for a new member, without a word."""
    driver.start_join()
    driver.answer(joined(1, leader=""))
    driver.complete()
    driver.handle(RejoinRequested("enough"))
    driver.prepare()
    until_ms = driver.view.valid_until_ms
    assert until_ms is not None
    driver.now_ms = until_ms
    driver.answer(joined(3, leader=""))
    assert driver.call(PrepareJoin).generation == Generation(-1, MEMBER_ID, None)


def test_belief_counts_from_the_join_where_the_broker_assigns(driver: Driver) -> None:
    """Found by the simulation: the coordinator waits for what it takes away from when it takes the join."""
    driver.start_join()
    joined_ms = driver.now_ms
    driver.advance(30)
    driver.answer(joined(1, leader=""))
    driver.advance(30)
    driver.complete()
    until_ms = driver.view.valid_until_ms
    assert until_ms is not None
    assert until_ms - joined_ms <= driver.machine._member.config.session_timeout_ms


def test_a_member_id_given_is_kept_over_a_disconnect(driver: Driver) -> None:
    driver.refuse_join(E.MEMBER_ID_REQUIRED, "m-5")
    driver.disconnect()
    driver.found()
    driver.advance(200)
    driver.prepare()
    assert driver.sent(JoinGroupRequest)[-1].member_id == "m-5"


@pytest.mark.parametrize("given", ["", "m-5", "m-6"])
def test_a_member_id_demanded_of_one_that_has_it_is_an_error(driver: Driver, given: str) -> None:
    driver.refuse_join(E.MEMBER_ID_REQUIRED, "m-5")
    driver.answer(join_refused(E.MEMBER_ID_REQUIRED, given))
    assert driver.view.failure is not None
    assert isinstance(driver.view.failure.error, MemberIdRequiredError)
    assert len(driver.sent(JoinGroupRequest)) == 2


def test_no_member_id_given_is_an_error(driver: Driver) -> None:
    driver.refuse_join(E.MEMBER_ID_REQUIRED, "")
    assert driver.view.failure is not None


# The user's code raises.


def test_prepare_that_raised_is_not_repeated_and_costs_no_time(driver: Driver) -> None:
    """As in Kafka's client: the caller has the exception, and its next call joins."""
    driver.poll()
    driver.found()
    driver.handle(CallFailed(driver.call(PrepareJoin).call_id, "ValueError"))
    assert not driver.call(PrepareJoin).run_callback
    driver.prepare()
    assert driver.pending(JoinGroupRequest)


def test_assign_that_raised_joins_again_after_a_backoff(driver: Driver) -> None:
    driver.lead()
    driver.handle(CallFailed(driver.call(AssignGroup).call_id, "KeyError"))
    assert driver.view.call is None
    assert driver.sent(SyncGroupRequest) == []
    driver.advance(200)
    assert not driver.call(PrepareJoin).run_callback
    driver.prepare()
    assert driver.sent(JoinGroupRequest)[-1].reason == "rebalance failed: KeyError"


def test_complete_that_raised_stays_with_the_same_bytes(driver: Driver) -> None:
    driver.start_sync()
    driver.answer(synced(b"mine"))
    call = driver.call(CompleteJoin)
    for _ in range(3):
        driver.handle(CallFailed(call.call_id, "ValueError"))
        assert driver.call(CompleteJoin) == call
        assert driver.view.joining
    driver.deliver()
    assert driver.active
    assert len(driver.view.events) == 1


def test_a_rebalance_waits_until_the_assignment_before_it_was_taken_up(driver: Driver) -> None:
    driver.start_sync()
    driver.answer(synced())
    driver.hear(E.REBALANCE_IN_PROGRESS)
    driver.call(CompleteJoin)
    driver.deliver()
    assert driver.call(PrepareJoin).run_callback


# What comes in between.


def test_expelled_in_prepare_the_stale_answer_is_dropped_and_prepare_told_anew(
    member: Driver,
) -> None:
    member.advance(3_000)
    member.handle(RejoinRequested("test"))
    stale = member.call(PrepareJoin)
    member.answer(beaten(E.UNKNOWN_MEMBER_ID))
    fresh = member.call(PrepareJoin)
    assert fresh == PrepareJoin(stale.call_id + 1, NO_GENERATION, run_callback=True)
    offer = (ProtocolMetadata(PROTOCOL_NAME, b"old"),)
    member.handle(JoinPrepared(stale.call_id, "work", offer))
    assert member.call(PrepareJoin) == fresh
    assert not member.pending(JoinGroupRequest)


def test_expelled_while_assigning_the_plan_is_not_sent(driver: Driver) -> None:
    driver.lead()
    call = driver.call(AssignGroup)
    driver.hear(E.ILLEGAL_GENERATION)
    driver.handle(GroupAssigned(call.call_id, {MEMBER_ID: b"all"}))
    assert driver.sent(SyncGroupRequest) == []
    assert driver.view.events[-1].outcome == "lost"


def test_expelled_before_the_assignment_was_taken_up_it_never_is(driver: Driver) -> None:
    driver.start_sync()
    driver.answer(synced())
    call = driver.call(CompleteJoin)
    driver.hear(E.UNKNOWN_MEMBER_ID)
    assert driver.call(PrepareJoin).generation == NO_GENERATION
    driver.handle(JoinDelivered(call.call_id))
    driver.call(PrepareJoin)


def test_left_while_the_caller_was_in_a_call(driver: Driver) -> None:
    driver.lead()
    driver.handle(LeaveRequested("from elsewhere"))
    assert driver.view.call is None
    assert driver.view.events[-1].outcome == "left"


def test_the_coordinator_is_lost_while_the_leader_assigns(driver: Driver) -> None:
    driver.lead()
    driver.disconnect()
    driver.assign({MEMBER_ID: b"all"})
    assert driver.sent(SyncGroupRequest) == []
    driver.found()
    driver.advance(200)
    assert not driver.call(PrepareJoin).run_callback
    assert driver.view.generation == GENERATION


def test_the_coordinator_is_lost_and_found_while_the_leader_assigns(driver: Driver) -> None:
    driver.lead()
    driver.disconnect()
    driver.found()
    driver.answer(beaten())
    driver.assign({MEMBER_ID: b"all"})
    assert driver.pending(SyncGroupRequest)


def test_the_coordinator_is_lost_while_the_caller_prepares(driver: Driver) -> None:
    driver.poll()
    driver.found()
    driver.disconnect()
    driver.prepare()
    assert driver.sent(JoinGroupRequest) == []
    driver.found()
    assert not driver.call(PrepareJoin).run_callback
    driver.prepare()
    assert driver.pending(JoinGroupRequest)


def test_a_heartbeat_in_flight_as_the_join_is_sent_may_expel(member: Driver) -> None:
    member.advance(3_000)
    member.handle(RejoinRequested("test"))
    member.prepare()
    assert member.pending(HeartbeatRequest)
    member.answer(beaten(E.UNKNOWN_MEMBER_ID))
    assert not member.pending(JoinGroupRequest), "that join named a member that is none any more"
    member.prepare()
    assert member.sent(JoinGroupRequest)[-1].member_id == ""


# Wrong answers.


def test_a_wrong_join_reaches_the_caller_and_is_tried_again(driver: Driver) -> None:
    driver.start_join()
    driver.answer(joined(protocol_type="consumer"))
    failure = driver.view.failure
    assert failure is not None
    assert isinstance(failure.error, InconsistentGroupProtocolError)
    assert driver.view.generation == NO_GENERATION
    assert driver.view.events[-1].outcome.startswith("failed: InconsistentGroupProtocolError")
    driver.advance(30_000)
    assert len(driver.sent(JoinGroupRequest)) == 1, "not before the caller knows"
    driver.raise_failure()
    driver.poll()
    driver.prepare()
    driver.answer(joined())


def test_a_wrong_sync_gives_no_assignment(driver: Driver) -> None:
    driver.start_sync()
    driver.answer(synced(protocol_name="odd"))
    assert driver.view.failure is not None
    assert driver.state() is MemberState.COMPLETING_REBALANCE
    assert driver.view.assignment_epoch == 0
    assert driver.view.call is None


def test_immediate_attempts_turn_into_backoff(driver: Driver) -> None:
    driver.start_join()
    for _ in range(50):
        if driver.pending(JoinGroupRequest):
            driver.answer(join_refused(E.REBALANCE_IN_PROGRESS))
        if driver.view.call is not None:
            driver.prepare()
    assert len(driver.sent(JoinGroupRequest)) == 4
    driver.advance(200)
    driver.prepare()
    driver.answer(joined(leader=LEADER_ID))
    driver.complete()
    assert driver.view.coordinator == NODE
    assert driver.active
