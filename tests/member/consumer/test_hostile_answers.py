"""Answers that no honest broker gives, or that come at the wrong moment: an error or no effect, never a wrong belief."""

from itertools import count
from random import Random
from secrets import randbelow
from typing import Final
from uuid import UUID

from groupsdk.assignment import TopicPartition
from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, DisconnectedError
from groupsdk.member.actions import CompleteJoin, PrepareJoin, Send
from groupsdk.member.consumer.state import IN_GROUP, ConsumerMemberState
from groupsdk.member.events import (
    CloseRequested,
    Disconnected,
    LeaveRequested,
    RejoinRequested,
    ResponseReceived,
)
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.api import decode_response, encode_response
from groupsdk.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from groupsdk.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from groupsdk.wire.schema import Response
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
RUNS: Final = 60
STEPS: Final = 120
CODES: Final = (0, 0, 0, 0, 0, 14, 15, 16, 25, 29, 69, 110, -1, 9_999)


def told(epoch: int, *topics: TopicPartitions, member_id: str | None = None) -> Response:
    """An answer with an assignment."""
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=Assignment(topic_partitions=topics),
    )


@each_case("code", (0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, 9_999))
def test_whatever_a_leave_is_answered_with_the_member_is_out(code: int) -> None:
    member = in_group()
    member.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 5_000, "done"))
    member.answer(ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=-1))
    assert member.stopped
    assert member.view.failure is None


def test_answers_to_requests_of_a_membership_that_is_over_are_ignored(member: Member) -> None:
    member.beat()
    (late,) = (each for each in member.outstanding if each.request is member.heartbeats[-1])
    member.handle(LeaveRequested("enough"))
    member.handle(ResponseReceived(late.request_id, beaten(7, t=(1,))))
    assert member.epoch == -1
    assert not member.view.holds_at(member.now_ms)
    assert not isinstance(member.view.call, CompleteJoin)


def test_an_epoch_of_a_leave_in_answer_to_a_heartbeat_is_refused(member: Member) -> None:
    member.hear(beaten(-1))
    assert isinstance(member.raise_failure(), DecodeError)
    assert member.epoch == 2


def test_a_member_whose_caller_was_away_leaves_without_another_word(member: Member) -> None:
    be_away(member)
    sent = len(member.heartbeats)
    member.handle(LeaveRequested("enough"))
    assert len(member.heartbeats) == sent
    assert member.state() is ConsumerMemberState.UNSUBSCRIBED


def be_away(member: Member) -> None:
    """Let the caller be away for so long that the member leaves; one that joins is told to wait."""
    while member.state() is not ConsumerMemberState.STALE:
        member.name()
        if member.looking:  # it looks again where nothing was taken for the length of a session
            member.found()
        joining = member.state() is ConsumerMemberState.JOINING
        waiting = [type(each.request) for each in member.outstanding]
        if ConsumerGroupHeartbeatRequest in waiting:
            loading = refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            member.answer(loading if joining else beaten(member.epoch))
        else:
            assert member.wake_at_ms is not None
            member.advance(max(0, member.wake_at_ms - member.now_ms))


@each_case("step", ("joining", "reconciling", "acknowledging"))
def test_the_caller_may_be_away_in_every_state(step: str) -> None:
    member = Member()
    member.start()
    if step != "joining":
        member.assigned(2, t=(0,))
    if step == "acknowledging":
        member.beat()  # in flight, so that the acknowledgement has to wait
        member.take_up()
    be_away(member)
    assert member.heartbeats[-1].member_epoch == -1
    assert not member.view.holds_at(member.now_ms)


def test_an_empty_assignment_replaces_one_that_waits_for_names() -> None:
    member = Member(topics=("u",))
    member.start()
    member.answer(beaten(2, u=(5,)))
    member.answer(names(unknown=(U,)))
    member.hear(told(3))
    member.take_up()
    assert member.taken == [set()]
    assert member.heartbeats[-1].topic_partitions == ()
    assert member.state() is STABLE


def test_an_answer_for_another_member_is_refused(member: Member) -> None:
    member.hear(told(3, TopicPartitions(T, partitions=(1,)), member_id="somebody"))
    assert "somebody" in str(member.raise_failure())
    assert (member.epoch, member.state()) == (2, STABLE)


def test_a_partition_below_zero_is_refused(member: Member) -> None:
    member.hear(told(2, TopicPartitions(T, partitions=(1, -3))))
    assert "-3" in str(member.raise_failure())
    assert member.view.call is None


def test_a_topic_that_is_told_twice_counts_with_all_of_its_partitions_once() -> None:
    member = Member()
    member.start()
    member.answer(
        told(2, TopicPartitions(T, partitions=(1, 1)), TopicPartitions(T, partitions=(0,)))
    )
    member.name()
    member.take_up()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0, 1))


def test_ids_that_no_broker_knows_are_asked_for_ever_more_rarely_and_hold_nothing_up() -> None:
    member = Member(topics=("t", "u"))
    member.start()
    nobody = tuple(TopicPartitions(UUID(int=1_000 + n), partitions=(0,)) for n in range(50))
    member.answer(told(2, TopicPartitions(T, partitions=(0,)), *nobody))
    asked = len(member.sent(MetadataRequest))
    member.answer(names(T, unknown=tuple(each.topic_id for each in nobody)))
    member.take_up()
    assert member.taken[-1] == {TopicPartition("t", 0)}
    for _ in range(200):
        member.poll()
        member.advance(200)
        for send in list(member.outstanding):
            member.outstanding.remove(send)
            if isinstance(send.request, MetadataRequest):
                member.handle(ResponseReceived(send.request_id, MetadataResponse()))
            elif isinstance(send.request, ConsumerGroupHeartbeatRequest):
                member.handle(ResponseReceived(send.request_id, beaten(2)))
    asked = len(member.sent(MetadataRequest)) - asked
    assert 20 < asked < 80  # in 40 s, with a backoff of a second


def test_names_of_topics_that_nobody_asked_for_are_not_kept() -> None:
    member = Member()
    member.start()
    member.answer(beaten(2, t=(0,)))
    flood = tuple(
        MetadataResponseTopic(topic_id=UUID(int=n), name=f"x{n}") for n in range(10, 5_000)
    )
    member.answer(MetadataResponse(topics=flood))
    assert not member.membership.reconciliation._names._names


def test_an_assignment_of_very_many_partitions_is_taken_up() -> None:
    member = Member()
    member.start()
    member.answer(told(2, TopicPartitions(T, partitions=tuple(range(200_000)))))
    member.name()
    member.take_up()
    assert len(member.taken[-1]) == 200_000
    assert member.state() is STABLE


def random_answer(random: Random, request: object, member: Member) -> Response | None:
    """Return what may come in answer to a request: honest, wrong, or for somebody else."""
    if isinstance(request, MetadataRequest):
        ids = [each.topic_id for each in request.topics or ()]
        known = [each for each in ids if random.random() < 0.7]
        return MetadataResponse(
            topics=tuple(
                MetadataResponseTopic(topic_id=each, name=random.choice(("t", "u", "", None)))
                for each in (*known, UUID(int=random.randrange(9)))
            )
        )
    if isinstance(request, DescribeConfigsRequest):
        value = random.choice(("6000", "45000", "-1", "x", "", None, str(2**40)))
        result = DescribeConfigsResourceResult(name="consumer.session.timeout.ms", value=value)
        return DescribeConfigsResponse(results=(DescribeConfigsResult(configs=(result,)),))
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    epoch = member.epoch + random.choice((0, 0, 0, 1, 1, 2, -1, -5, 2**20))
    assignment = None
    if random.random() < 0.5:
        topics = [
            TopicPartitions(
                random.choice((T, U, UUID(int=random.randrange(9)))),
                partitions=tuple(random.choices(range(-1 if random.random() < 0.1 else 0, 6), k=3)),
            )
            for _ in range(random.randrange(4))
        ]
        assignment = Assignment(topic_partitions=tuple(topics))
    return ConsumerGroupHeartbeatResponse(
        error_code=random.choice(CODES),
        member_id=random.choice((None, None, None, member.member_id, "other")),
        member_epoch=epoch,
        heartbeat_interval_ms=random.choice((500, 5_000, 0, -7, 2**31 - 1)),
        assignment=assignment,
    )


def act_as_caller(random: Random, member: Member) -> None:
    """Do what a caller may do at any time."""
    call = member.view.call
    if isinstance(call, PrepareJoin) and random.random() < 0.8:
        member.prepare()
    elif isinstance(call, CompleteJoin) and random.random() < 0.6:
        for each in decode_assignment(call.assignment):
            assert each.partition >= 0
        member.take_up()
    elif call is not None and random.random() < 0.3:
        member.fail_call()
    elif random.random() < 0.05:
        member.handle(RejoinRequested("the subscription has changed"))
    if member.view.failure is not None and random.random() < 0.5:
        member.raise_failure()
    if random.random() < 0.8:
        member.poll()


def check_belief(member: Member, epochs: list[int]) -> None:
    """Check what must hold of a member whatever it is told."""
    view = member.view
    if view.holds_at(member.now_ms):
        assert view.consumer_state in IN_GROUP
        assert view.generation.generation_id > 0
        assert view.held_until_ms is not None
        assert view.held_until_ms <= member.now_ms + member.config.poll_interval_ms
    if view.generation.generation_id > 0 and epochs[-1] > 0:
        assert view.generation.generation_id >= epochs[-1], "an epoch went back"
    epochs.append(view.generation.generation_id)


def test_whatever_is_answered_belief_is_bounded_and_epochs_do_not_go_back() -> None:
    first = randbelow(2**40)
    print(f"from seed {first}")
    for seed in range(first, first + RUNS):
        random = Random(seed)
        member = Member(topics=("t", "u"))
        epochs = [-1]
        for _ in range(STEPS):
            for send in list(member.outstanding):
                if random.random() < 0.7 and send in member.outstanding:
                    answer = random_answer(random, send.request, member)
                    member.outstanding.remove(send)
                    if answer is not None:
                        member.handle(ResponseReceived(send.request_id, answer))
                        check_belief(member, epochs)
            if member.looking and random.random() < 0.8:
                member.found()
            elif random.random() < 0.05:
                member.outstanding.clear()
                member.handle(Disconnected(DisconnectedError("broken")))
            act_as_caller(random, member)
            check_belief(member, epochs)
            before = len(member.actions(Send))
            member.advance(random.choice((1, 100, 1_000, 8_000)))
            check_belief(member, epochs)
            assert len(member.actions(Send)) - before < 30, f"seed {seed}: it floods the broker"


def test_answers_to_requests_that_were_never_sent_do_nothing(member: Member) -> None:
    view = member.view
    for request_id in (-1, 0, 10**9):
        member.handle(ResponseReceived(request_id, told(9, TopicPartitions(T, partitions=(3,)))))
    assert (member.view.generation, member.view.call) == (view.generation, None)


def test_damaged_bytes_are_an_error_or_a_value_that_the_member_checks() -> None:
    first = randbelow(2**40)
    print(f"from seed {first}")
    whole = told(3, TopicPartitions(T, partitions=(0, 1)), TopicPartitions(U, partitions=(5,)))
    data = encode_response(whole, 1, 7)
    taken = count()
    for seed in range(first, first + 400):
        random = Random(seed)
        damaged = bytearray(data[4:])
        for _ in range(random.randrange(1, 4)):
            damaged[random.randrange(4, len(damaged))] = random.randrange(256)
        if random.random() < 0.3:
            del damaged[random.randrange(5, len(damaged)) :]
        try:
            _, answer = decode_response(ConsumerGroupHeartbeatRequest, 1, bytes(damaged))
        except DecodeError:
            continue
        member = in_group(topics=("t", "u"))
        member.beat()
        epochs = [2]
        member.answer(answer)
        check_belief(member, epochs)
        next(taken)
    assert next(taken) > 10
