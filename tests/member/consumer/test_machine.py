"""The behaviours of Kafka's `ConsumerHeartbeatRequestManager`, and what belief by the own clock is worth."""

from itertools import pairwise

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    DecodeError,
    EncodeError,
    GroupAuthorizationError,
    GroupSdkError,
    UnsupportedVersionError,
)
from groupsdk.member.consumer.broker_pace import ASK_EVERY_MS, SESSION_IN_INTERVALS
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.events import (
    CloseRequested,
    CredentialsChanged,
    GroupAssigned,
    JoinGivenUp,
    JoinPrepared,
    RequestRefused,
)
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata
from groupsdk.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from tests.member.consumer.driving import (
    INTERVAL_MS,
    OTHER_NODE,
    SESSION_MS,
    Member,
    beaten,
    in_group,
    owned,
    refused,
)
from tests.member.driving import NODE
from tests.support.cases import each_case


STABLE = ConsumerMemberState.STABLE


def idle(member: Member) -> None:
    """Let the early heartbeats after a change pass, so that the next comes after the interval."""
    for _ in range(12):
        member.hear(beaten(member.epoch))
        if member.beat_times_ms[-1] - member.beat_times_ms[-2] >= INTERVAL_MS:
            return
        member.poll()
    raise AssertionError("the heartbeats never came at the interval")


def test_first_heartbeat_includes_required_info_to_join_group_and_get_assignments() -> None:
    member = Member(server_assignor="range", rack_id="r1", group_instance_id="i")
    join = member.start()
    assert join.member_epoch == 0
    assert join.rebalance_timeout_ms == 60_000
    assert join.subscribed_topic_names == ("t",)
    assert join.topic_partitions == ()
    assert (join.server_assignor, join.rack_id, join.instance_id) == ("range", "r1", "i")


def test_heartbeat_state_sends_only_what_has_changed() -> None:
    """As `testHeartbeatState` and `testValidateConsumerGroupHeartbeatRequest`."""
    member = in_group(server_assignor="range", rack_id="r1", group_instance_id="i")
    beat = member.beat()
    assert beat.instance_id == "i"
    assert beat.member_epoch == 2
    assert beat.rebalance_timeout_ms == -1
    changes = (
        *(beat.subscribed_topic_names, beat.subscribed_topic_regex, beat.server_assignor),
        *(beat.rack_id, beat.topic_partitions),
    )
    assert changes == (None,) * 5


def test_network_failure_resends_all_fields() -> None:
    """As `testHeartbeatOnFailure...ResetsSentFields`: the answer may have been lost."""
    member = in_group(server_assignor="range", rack_id="r1")
    member.beat()
    member.disconnect()
    member.found()
    full = member.heartbeats[-1]
    assert full.member_epoch == 2
    assert full.rebalance_timeout_ms == 60_000
    assert full.subscribed_topic_names == ("t",)
    assert full.server_assignor == "range"
    assert full.topic_partitions == owned(t=(0,))
    assert full.rack_id is None  # only when joining
    member.answer(beaten(2, t=(0,)))
    assert member.state() is STABLE


def test_a_second_lost_connection_resends_all_fields_at_once(member: Member) -> None:
    """Also where a heartbeat of the session before it said everything."""
    for node in (OTHER_NODE, NODE):
        member.beat()
        member.disconnect()
        member.found(node)
        assert member.heartbeats[-1].subscribed_topic_names == ("t",)
        assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
        member.answer(beaten(2))


def test_heartbeats_come_at_the_interval_of_the_last_answer(member: Member) -> None:
    """As `testTimerNotDue` and `testHeartbeatResponseOnErrorHandling...`: the broker sets the pace."""
    idle(member)
    member.beat()
    response = ConsumerGroupHeartbeatResponse(member_epoch=2, heartbeat_interval_ms=700)
    member.answer(response)
    before_ms = member.beat_times_ms[-1]
    for _ in range(4):
        member.hear(response)
    times_ms = [before_ms, *member.beat_times_ms[-4:]]
    assert [b - a for a, b in pairwise(times_ms)] == [700] * 4


def test_a_new_epoch_has_the_next_heartbeats_come_early(member: Member) -> None:
    """The group has a new assignment, and others may be about to free partitions for this member."""
    idle(member)
    member.hear(beaten(3))
    told_ms = member.now_ms
    member.beat()
    assert member.beat_times_ms[-1] - told_ms <= 100
    member.answer(beaten(3))
    idle(member)


@each_case("interval_ms", (0, -1, -(2**31)))
def test_an_interval_that_is_none_is_passed_over(interval_ms: int) -> None:
    member = Member()
    member.start()
    member.answer(ConsumerGroupHeartbeatResponse(member_epoch=2, heartbeat_interval_ms=interval_ms))
    member.take_up()
    member.answer(beaten(2))
    idle(member)


def test_heartbeat_not_sent_if_another_one_in_flight(member: Member) -> None:
    member.beat()
    sent = len(member.heartbeats)
    member.advance(INTERVAL_MS * 3)
    assert len(member.heartbeats) == sent


def test_a_silent_coordinator_is_given_up_after_the_session() -> None:
    member = Member()
    member.session_ms = 6_000
    member.join(2, t=(0,))
    member.poll()
    member.beat()
    member.advance(6_000)
    assert member.looking
    assert member.view.coordinator is None


@each_case("code", (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE))
def test_coordinator_moved_is_looked_up_and_told_everything_at_once(code: ErrorCode) -> None:
    member = in_group()
    member.hear(refused(code))
    assert member.looking
    member.found(OTHER_NODE)
    assert member.outstanding[-1].node == OTHER_NODE
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    assert member.state() is STABLE


@each_case("session_ms", (6_000, 2 * INTERVAL_MS))
def test_after_a_lost_answer_a_heartbeat_of_each_session_says_everything(session_ms: int) -> None:
    """A heartbeat of the old connection may be read after the first one of the new, and take its answer with it."""
    member = Member()
    member.session_ms = session_ms
    member.join(2, t=(0,))
    member.disconnect()
    member.found(OTHER_NODE)
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    sent, first_ms = len(member.heartbeats) - 1, member.now_ms
    while member.now_ms < first_ms + 40_000:
        member.answer(beaten(2))
        member.beat()
    full = [
        at_ms
        for at_ms, each in zip(member.beat_times_ms[sent:], member.heartbeats[sent:], strict=True)
        if each.topic_partitions == owned(t=(0,)) and each.subscribed_topic_names == ("t",)
    ]
    assert len(full) >= 3
    apart = [after - before for before, after in pairwise(full)]
    assert all(session_ms <= each <= session_ms + INTERVAL_MS for each in apart)
    # a heartbeat that is due at the end of the session is not one too early
    assert apart[-1] == -(-session_ms // INTERVAL_MS) * INTERVAL_MS


def test_coordinator_load_in_progress_backs_off() -> None:
    member = Member()
    member.start()
    for _ in range(5):
        sent_ms = member.now_ms
        member.answer(refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        member.beat()
        assert 80 <= member.now_ms - sent_ms <= 1_200
        assert member.heartbeats[-1].member_epoch == 0


@each_case(
    "code",
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ),
)
def test_an_error_that_may_pass_is_raised_once_and_the_member_goes_on(code: ErrorCode) -> None:
    """As `testTopicAuthorizationFailed...`; an assignor of the broker that raises is no end either."""
    member = in_group()
    member.hear(refused(code))
    assert member.state() is STABLE
    assert member.view.holds_at(member.now_ms)
    member.raise_failure()
    assert member.view.failure is None
    member.hear(beaten(2))
    assert member.state() is STABLE


def test_a_right_to_the_group_that_comes_back_lets_a_member_join() -> None:
    """As in the classic protocol: each refusal is raised, and the caller may poll on until it is allowed."""
    member = Member()
    member.start()
    for _ in range(3):
        member.answer(refused(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        assert isinstance(member.raise_failure(), GroupAuthorizationError)
        member.beat()
    member.assigned(2, t=(0,))
    member.take_up()
    assert member.state() is STABLE


def test_a_right_to_the_group_that_stays_away_ends_the_belief_with_the_session(
    member: Member,
) -> None:
    member.beat()
    sent_ms = member.now_ms
    while member.now_ms < sent_ms + SESSION_MS:
        if member.looking:
            member.found()
        if member.outstanding:
            member.answer(refused(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            member.raise_failure()
        member.poll()
        member.advance(100)
    assert not member.view.holds_at(member.now_ms)


def test_unknown_error_codes_are_fatal() -> None:
    member = Member()
    member.start()
    member.answer(ConsumerGroupHeartbeatResponse(error_code=9_999))
    assert member.state() is ConsumerMemberState.FATAL
    assert "9999" in str(member.raise_failure())


def test_a_broker_without_the_protocol_is_named_with_what_to_do() -> None:
    member = Member()
    member.start()
    (sent,) = member.outstanding
    member.outstanding.clear()
    error = UnsupportedVersionError("broker-1:9092 has no CONSUMER_GROUP_HEARTBEAT")
    member.handle(RequestRefused(sent.request_id, error))
    assert "group.protocol=classic" in str(member.raise_failure())


@each_case(
    "error",
    (
        UnsupportedVersionError("broker-1:9092 has no CONSUMER_GROUP_HEARTBEAT"),
        EncodeError("ConsumerGroupHeartbeatRequest.subscribed_topic_regex is not in version 0"),
    ),
)
def test_a_pattern_that_no_request_can_carry_names_the_release_and_a_pattern_of_the_client(
    error: GroupSdkError,
) -> None:
    member = Member()
    member.subscription = HeartbeatSubscription(frozenset(), "a.*")
    member.start()
    (sent,) = member.outstanding
    member.outstanding.clear()
    member.handle(RequestRefused(sent.request_id, error))
    told = member.raise_failure()
    assert isinstance(told, UnsupportedVersionError)
    assert told.fatal
    for each in ("Apache Kafka 4.0", "group.version=1", "re.compile", str(error)):
        assert each in str(told)


@each_case("epoch", (0, -1, -2))
def test_an_answer_with_an_impossible_epoch_does_not_make_the_member_one(epoch: int) -> None:
    member = Member()
    member.start()
    member.answer(beaten(epoch, t=(0,)))
    assert isinstance(member.raise_failure(), DecodeError)
    assert member.state() is ConsumerMemberState.JOINING
    member.hear(beaten(2, t=(0,)))
    assert member.epoch == 2


def test_an_epoch_never_goes_back() -> None:
    member = Member()
    member.join(5, t=(0,))
    member.hear(beaten(4))
    assert isinstance(member.raise_failure(), DecodeError)
    assert member.epoch == 5


def test_belief_ends_a_session_after_the_last_accepted_heartbeat_was_sent() -> None:
    member = Member()
    member.session_ms = 20_000
    member.join(2, t=(0,))
    member.beat()
    sent_ms = member.now_ms
    member.advance(1_000)
    member.answer(beaten(2))
    assert member.view.held_until_ms == sent_ms + 20_000
    assert member.view.believes_at(sent_ms + 19_999)
    assert not member.view.believes_at(sent_ms + 20_000)


def test_until_the_session_is_known_it_is_taken_for_three_intervals() -> None:
    member = Member()
    member.session_ms = None
    member.join(2, t=(0,))
    joined_ms = member.beat_times_ms[1]
    assert member.view.valid_until_ms == joined_ms + INTERVAL_MS * SESSION_IN_INTERVALS
    refusal = DescribeConfigsResponse()
    member.answer(refusal)
    assert member.view.valid_until_ms == joined_ms + INTERVAL_MS * SESSION_IN_INTERVALS


def test_the_session_is_asked_for_again_and_again(member: Member) -> None:
    until_ms = member.now_ms + ASK_EVERY_MS * 3
    while member.now_ms < until_ms:
        member.beat()
        member.name()
        member.answer(beaten(2))
        member.poll()
    asked = member.sent(DescribeConfigsRequest)
    assert len(asked) in (3, 4)


def test_belief_ends_with_the_rebalance_timeout_of_a_revocation() -> None:
    """The coordinator removes a member that does not give up in time, however well it heartbeats."""
    member = Member(max_poll_interval_ms=8_000, rebalance_timeout_ms=8_000)
    member.join(2, t=(0, 1))
    member.beat()
    told_ms = member.now_ms
    member.answer(beaten(2, t=(0,)))
    for _ in range(3):
        member.poll()
        member.hear(beaten(2))
        assert member.view.valid_until_ms == told_ms + 8_000
    member.take_up()
    acknowledged_ms = member.now_ms
    member.answer(beaten(3))
    assert member.view.valid_until_ms == acknowledged_ms + 8_000


def test_belief_ends_with_the_rebalance_timeout_though_nothing_was_acknowledged_yet() -> None:
    """Found by the simulation: the caller may have what it was handed, so that the coordinator waits for it."""
    member = Member(max_poll_interval_ms=8_000, rebalance_timeout_ms=8_000)
    member.start()
    member.assigned(2, t=(0, 1))
    member.beat()
    told_ms = member.now_ms
    member.answer(beaten(2, t=(0,)))
    for _ in range(3):
        member.poll()
        member.hear(beaten(2))
        assert member.view.valid_until_ms == told_ms + 8_000


def test_a_member_that_reconciles_may_commit_and_is_stable_in_classic_terms() -> None:
    member = Member()
    member.join(2, t=(0, 1))
    member.hear(beaten(2, t=(0,)))
    assert member.view.believes_at(member.now_ms)
    assert member.view.joining


def test_events_of_the_classic_protocol_alone_change_nothing(member: Member) -> None:
    member.handle(JoinGivenUp())
    member.handle(GroupAssigned(99, {}))
    member.handle(CredentialsChanged("u", "p"))
    assert member.state() is STABLE


def test_metadata_that_is_no_subscription_is_raised_and_does_not_end_the_member() -> None:
    member = Member()
    member.poll()
    member.found()
    call = member.view.call
    assert call is not None
    offer = (ProtocolMetadata("mine", b""),)
    member.handle(JoinPrepared(call.call_id, "consumer", offer))
    assert "HeartbeatSubscription" in str(member.raise_failure())
    member.prepare()
    assert member.state() is ConsumerMemberState.JOINING


def test_close_does_not_wait_beyond_its_timeout(member: Member) -> None:
    member.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 500, "done"))
    member.advance(500)
    assert member.stopped


def test_metrics_are_those_of_javas_new_consumer(member: Member) -> None:
    values = member.machine.metrics(member.now_ms)
    assert values["heartbeat-total"] == 2
    assert values["rebalance-total"] == 1
    assert not [name for name in values if name.startswith(("join-", "sync-"))]
