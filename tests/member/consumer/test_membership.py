"""The behaviours of Kafka's `ConsumerMembershipManager`, each under the name of its test there in Python's spelling."""

from itertools import pairwise

from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.member.actions import CompleteJoin, PrepareJoin, Send
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.events import (
    CloseRequested,
    JoinDelivered,
    LeaveRequested,
    RejoinRequested,
)
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.member.consumer.driving import (
    INTERVAL_MS,
    Member,
    T,
    U,
    beaten,
    in_group,
    names,
    owned,
    refused,
)
from tests.support.cases import each_case


STABLE = ConsumerMemberState.STABLE
RECONCILING = ConsumerMemberState.RECONCILING
FENCING = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


def test_member_id_is_made_by_the_member_and_kept_for_good() -> None:
    """As `testMembershipManagerMemberIdGeneration...` (KIP-1082): 22 characters, over every loss."""
    member = Member()
    first = member.member_id
    assert len(first) == 22
    member.join(2, t=(0,))
    member.hear(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    member.prepare()
    assert member.heartbeats[-1].member_id == first
    assert member.heartbeats[-1].member_epoch == 0


def test_new_member_joins_as_soon_as_the_caller_polls_with_a_subscription() -> None:
    member = Member()
    member.poll()
    assert member.state() is ConsumerMemberState.UNSUBSCRIBED
    member.found()
    assert not member.actions(Send)
    member.prepare()
    assert member.state() is ConsumerMemberState.JOINING
    assert len(member.heartbeats) == 1


def test_transition_to_reconciling_only_if_assignment_received(member: Member) -> None:
    member.hear(beaten(3))
    assert member.state() is STABLE
    assert member.epoch == 3
    member.hear(beaten(3, t=(0, 1)))
    assert member.state() is RECONCILING


def test_a_new_member_with_nothing_assigned_takes_that_up_too() -> None:
    """As `testMemberJoiningTransitionsToStableWhenReceivingEmptyAssignment`: the listener hears of nothing."""
    member = Member()
    member.start()
    member.answer(beaten(1, t=()))
    member.take_up()
    assert member.taken == [set()]
    assert member.state() is STABLE
    assert member.heartbeats[-1].topic_partitions == ()


def test_reconcile_then_acknowledge_then_stable() -> None:
    """As `testReconciliationSkippedWhenSameAssignmentReceived` and `testNewEmptyAssignment...`."""
    member = Member()
    member.join(2, t=(0, 1, 2))
    member.hear(beaten(2, t=(0,)))
    assert member.state() is RECONCILING
    sent = len(member.heartbeats)
    member.take_up()
    # the acknowledgement goes at once, under the epoch that it had
    assert len(member.heartbeats) == sent + 1
    assert member.heartbeats[-1].member_epoch == 2
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    assert member.state() is STABLE
    member.answer(beaten(3))
    assert member.epoch == 3
    member.hear(beaten(3, t=(0,)))  # told again, as in the answer to a full request
    assert member.state() is STABLE
    assert len(member.taken) == 2


def test_new_assignment_replaces_the_one_that_is_being_taken_up() -> None:
    """As `testDelayedReconciliationResultAppliedWhenTargetChangedWithNoReconciliationInProgress`."""
    member = Member()
    member.join(2, t=(0, 1, 2))
    member.hear(beaten(2, t=(0, 1)))
    overtaken = member.call(CompleteJoin)
    member.hear(beaten(2, t=(0,)))
    member.handle(JoinDelivered(overtaken.call_id))
    assert member.state() is RECONCILING
    member.take_up()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))


def test_member_keeps_unresolved_assignment_waiting_for_metadata_until_resolved() -> None:
    member = Member(topics=("t", "u"))
    member.start()
    member.answer(beaten(2, t=(0,), u=(5,)))
    member.answer(names(T, unknown=(U,)))
    # the named part goes ahead, and is acknowledged
    member.take_up()
    assert member.taken[-1] == {TopicPartition("t", 0)}
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    assert member.state() is RECONCILING
    assert member.view.call is None
    member.answer(beaten(2))
    member.advance(1_000)
    member.name()
    member.take_up()
    member.answer(beaten(2))  # to the heartbeat that went out meanwhile
    assert member.taken[-1] == {TopicPartition("t", 0), TopicPartition("u", 5)}
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,), u=(5,))
    assert member.state() is STABLE


def test_new_assignment_replaces_previous_one_waiting_on_metadata() -> None:
    member = Member(topics=("t", "u"))
    member.start()
    member.answer(beaten(2, u=(5,)))
    member.answer(names(unknown=(U,)))
    assert member.view.call is None
    member.hear(beaten(3, t=(0,)))
    member.take_up()  # the coordinator waits to hear that what was never taken is given up
    assert member.heartbeats[-1].topic_partitions == ()
    member.answer(beaten(3))
    member.answer(names(unknown=(U,)))
    member.advance(1_000)
    asked = member.sent(MetadataRequest)[-1]
    assert [each.topic_id for each in asked.topics or ()] == [T]
    member.name()
    member.take_up()
    assert member.taken[-1] == {TopicPartition("t", 0)}


def test_names_that_are_missing_are_asked_for_with_a_backoff() -> None:
    member = Member(topics=("u",))
    member.start()
    member.answer(beaten(2, u=(5,)))
    for _ in range(20):
        member.answer(names(unknown=(U,)))
        member.advance(1_200)
        if any(send.request.api.key.name == "DESCRIBE_CONFIGS" for send in member.outstanding):
            member.name()
            break
        if member.heartbeats and any(
            send.request is member.heartbeats[-1] for send in member.outstanding
        ):
            member.answer(beaten(2))
    asked = member.sent_at(MetadataRequest)
    assert all(later - earlier >= 80 for earlier, later in pairwise(asked))


@each_case("code", FENCING)
def test_member_id_and_epoch_reset_on_fenced_members(code: ErrorCode) -> None:
    """As `testFencingWhenStateIsStable`: partitions are lost first, and then it joins with its id."""
    member = Member()
    member.join(4, t=(0, 1))
    member.hear(refused(code))
    assert member.state() is ConsumerMemberState.FENCED
    assert member.epoch == -1
    assert not member.view.holds_at(member.now_ms)
    assert member.call(PrepareJoin).run_callback
    sent = len(member.heartbeats)
    member.advance(INTERVAL_MS * 3)
    assert len(member.heartbeats) == sent  # nothing while fenced
    member.prepare()
    assert member.lost == 2  # the first time before the first join
    assert member.state() is ConsumerMemberState.JOINING
    assert member.heartbeats[-1].topic_partitions == ()


def test_fencing_when_state_is_reconciling_gives_the_reconciliation_up() -> None:
    """As `testFencingWhenStateIsReconciling` and `testDelayedReconciliationResultDiscarded...`."""
    member = Member()
    member.join(2, t=(0, 1))
    member.hear(beaten(2, t=(0,)))
    call = member.call(CompleteJoin)
    member.hear(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    member.handle(JoinDelivered(call.call_id))
    assert member.state() is ConsumerMemberState.FENCED
    assert isinstance(member.view.call, PrepareJoin)


def test_a_join_to_a_group_of_another_type_is_told_and_repeated_with_backoff(
    member: Member,
) -> None:
    """While a member is away its group may be forgotten, or become a classic one; a join tells the two apart."""
    member.hear(refused(ErrorCode.GROUP_ID_NOT_FOUND))
    member.prepare()
    assert member.heartbeats[-1].member_epoch == 0
    member.answer(refused(ErrorCode.GROUP_ID_NOT_FOUND))
    assert not member.raise_failure().fatal
    assert member.state() is ConsumerMemberState.JOINING
    refused_ms = member.now_ms
    assert member.beat().member_epoch == 0
    assert member.now_ms > refused_ms
    member.assigned(3, t=(0,))
    member.take_up()
    assert member.state() is STABLE


def test_fenced_member_that_has_nothing_joins_without_its_caller() -> None:
    member = Member()
    member.start()
    member.answer(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    assert member.state() is ConsumerMemberState.JOINING
    assert member.view.call is None


def test_a_coordinator_that_always_fences_does_not_make_the_member_spin() -> None:
    member = Member()
    member.start()
    began_ms = member.now_ms
    for _ in range(20):
        if not member.outstanding:
            member.beat()
        member.answer(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    assert member.now_ms - began_ms > 10_000


def test_same_assignment_reconciled_again_when_fenced() -> None:
    member = Member()
    member.join(2, t=(0, 1))
    member.hear(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    member.prepare()
    member.assigned(3, t=(0, 1))
    member.take_up()
    assert member.taken[-2:] == [{TopicPartition("t", 0), TopicPartition("t", 1)}] * 2
    assert member.state() is STABLE


@each_case(
    "code",
    (
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
    ),
)
def test_listeners_get_notified_on_transitions_to_fatal(code: ErrorCode) -> None:
    """As `testTransitionToFatal`: lost partitions are told first, then every call raises."""
    member = in_group()
    member.hear(refused(code, "why"))
    assert member.state() is ConsumerMemberState.FATAL
    assert member.view.failure is None
    member.prepare()
    assert member.lost == 2
    for _ in range(3):
        error = member.raise_failure()
        assert code.name in str(error)
        assert error.fatal
        member.poll()
    sent = len(member.actions(Send))
    member.advance(600_000)
    assert len(member.actions(Send)) == sent
    assert not member.looking


def test_a_listener_that_raises_on_fatal_does_not_hide_the_error(member: Member) -> None:
    member.hear(refused(ErrorCode.FENCED_INSTANCE_ID))
    member.fail_call()
    assert member.view.failure is not None


@each_case(
    ("instance_id", "operation", "epoch"),
    (
        (None, GroupMembershipOperation.DEFAULT, -1),
        (None, GroupMembershipOperation.LEAVE_GROUP, -1),
        (None, GroupMembershipOperation.REMAIN_IN_GROUP, None),
        ("i", GroupMembershipOperation.DEFAULT, -2),
        ("i", GroupMembershipOperation.LEAVE_GROUP, -1),
        ("i", GroupMembershipOperation.REMAIN_IN_GROUP, -2),
    ),
)
def test_leave_group_epoch(
    instance_id: str | None, operation: GroupMembershipOperation, epoch: int | None
) -> None:
    """As `testLeaveGroupEpoch` and the tests of `CloseOptions`."""
    member = in_group(group_instance_id=instance_id)
    sent = len(member.heartbeats)
    member.handle(CloseRequested(operation, 5_000, "done"))
    left = [each.member_epoch for each in member.heartbeats[sent:]]
    assert left == ([] if epoch is None else [epoch])
    if epoch is None:
        assert member.stopped
        return
    assert not member.stopped
    member.answer(beaten(epoch))
    assert member.stopped


def test_leave_group_when_the_member_is_out_already_says_nothing(member: Member) -> None:
    """As `testLeaveGroupWhenMemberFenced...`: FENCED, STALE and FATAL send nothing."""
    member.hear(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    sent = len(member.actions(Send))
    member.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 5_000, "done"))
    assert len(member.actions(Send)) == sent
    assert member.stopped


def test_leave_group_sends_the_leave_though_a_heartbeat_is_in_flight(member: Member) -> None:
    member.beat()
    member.handle(LeaveRequested("enough"))
    assert member.heartbeats[-1].member_epoch == -1
    assert member.state() is ConsumerMemberState.UNSUBSCRIBED
    # the answer to the heartbeat before brings no epoch back
    member.answer(beaten(2))
    member.answer(beaten(-1))
    assert member.epoch == -1
    assert member.state() is ConsumerMemberState.UNSUBSCRIBED


def test_a_member_that_left_joins_again_at_the_next_poll(member: Member) -> None:
    member.handle(LeaveRequested("enough"))
    member.answer(beaten(-1))
    member.advance(60_000)
    assert member.state() is ConsumerMemberState.UNSUBSCRIBED
    member.poll()
    member.prepare()
    assert member.state() is ConsumerMemberState.JOINING
    assert "enough" in str(member.membership._join_reason)


def test_a_join_waits_for_the_answer_to_the_leave_before(member: Member) -> None:
    member.handle(LeaveRequested("enough"))
    member.poll()
    member.prepare()
    assert member.heartbeats[-1].member_epoch == -1
    member.answer(beaten(-1))
    assert member.heartbeats[-1].member_epoch == 0
    member.answer(beaten(3, t=(0,)))
    assert member.epoch == 3


@each_case(("instance_id", "epoch"), ((None, -1), ("i", -2)))
def test_heartbeat_sent_on_stale_member(instance_id: str | None, epoch: int) -> None:
    """As `testStaleMemberDoesNotSendHeartbeatAndAllowsTransitionToJoiningToRecover`."""
    member = in_group(group_instance_id=instance_id)
    for _ in range(100):
        if member.state() is ConsumerMemberState.STALE:
            break
        if member.outstanding:
            member.answer(beaten(member.epoch))
        else:
            member.beat()
    assert member.state() is ConsumerMemberState.STALE
    assert member.heartbeats[-1].member_epoch == epoch
    sent = len(member.heartbeats)
    member.answer(beaten(epoch))
    member.advance(600_000)
    assert len(member.heartbeats) == sent


def test_stale_member_rejoins_when_timer_resets_after_its_caller_heard_of_the_loss(
    member: Member,
) -> None:
    while member.state() is not ConsumerMemberState.STALE:
        if member.outstanding:
            member.answer(beaten(member.epoch))
        else:
            member.beat()
    member.answer(beaten(-1))
    member.poll()
    assert member.state() is ConsumerMemberState.STALE
    if member.looking:
        member.found()
    member.prepare()
    assert member.lost == 2
    assert member.state() is ConsumerMemberState.JOINING
    assert member.heartbeats[-1].member_epoch == 0


def test_a_listener_that_raises_is_handed_the_same_assignment_again() -> None:
    """As `testListenerCallbacksThrows...`: no acknowledgement before it has returned."""
    member = Member()
    member.join(2, t=(0, 1))
    member.hear(beaten(2, t=(0,)))
    sent = len(member.heartbeats)
    call = member.call(CompleteJoin)
    member.fail_call()
    assert member.call(CompleteJoin) == call
    assert member.state() is RECONCILING
    assert len(member.heartbeats) == sent
    member.take_up()
    assert member.state() is STABLE


def test_subscription_changes_are_told_at_once_and_only_they(member: Member) -> None:
    sent = len(member.heartbeats)
    member.subscription = HeartbeatSubscription(frozenset({"t", "u"}))
    member.handle(RejoinRequested("the subscription has changed"))
    call = member.call(PrepareJoin)
    assert not call.run_callback
    assert member.view.holds_at(member.now_ms)
    member.prepare()
    (told,) = member.heartbeats[sent:]
    assert told.subscribed_topic_names == ("t", "u")
    assert told.topic_partitions is None
    assert told.member_epoch == 2
    member.assigned(3, t=(0,), u=(1,))
    member.take_up()
    assert member.view.events[-1].reason.startswith("the subscription has changed: ")


def test_failed_prepare_of_a_stable_member_is_retried_after_a_backoff(member: Member) -> None:
    member.handle(RejoinRequested("the subscription has changed"))
    asked = member.call(PrepareJoin)
    member.fail_call()
    member.advance(100)
    assert member.call(PrepareJoin).call_id > asked.call_id
    assert member.state() is STABLE


def test_a_loss_after_prepare_has_raised_is_told_before_the_next_join(member: Member) -> None:
    """Found by the simulation: the caller that raised while it was asked for its subscription still owns."""
    member.handle(RejoinRequested("the subscription has changed"))
    member.fail_call()
    member.hear(refused(ErrorCode.UNKNOWN_MEMBER_ID))
    assert member.state() is ConsumerMemberState.FENCED
    assert member.call(PrepareJoin).run_callback


def test_events_say_what_changed_and_how_long_each_step_took() -> None:
    member = Member()
    member.join(2, t=(0, 1))
    member.hear(beaten(2, t=(0,)))
    member.advance(70)
    member.take_up()
    first, second = member.view.events
    assert first.reason == "the member joins for the first time"
    assert first.broker_assigns
    assert second.reason == "the group coordinator takes 1 partitions away and adds 0"
    assert dict(second.phases)["complete"] == 70
    assert second.outcome == "completed"
