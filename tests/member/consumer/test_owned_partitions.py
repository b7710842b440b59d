"""What heartbeats say is owned, and when it is safe to take more: the coordinator gives away what is not in the list."""

from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.member.actions import CompleteJoin
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.events import JoinDelivered
from tests.member.consumer.driving import Member, T, U, beaten, in_group, names, owned, refused
from tests.support.cases import each_case


STABLE = ConsumerMemberState.STABLE
RECONCILING = ConsumerMemberState.RECONCILING


def reconnect(member: Member) -> None:
    member.disconnect()
    if not member.looking:  # after two losses in a row there is a backoff
        member.advance(1_000)
    member.found()


def test_a_full_heartbeat_while_partitions_are_taken_up_names_them(member: Member) -> None:
    """The caller may work on them before its acknowledgement; Java names only those acknowledged before."""
    member.hear(beaten(3, t=(0, 1)))
    call = member.call(CompleteJoin)
    reconnect(member)
    assert member.heartbeats[-1].topic_partitions == owned(t=(0, 1))
    member.handle(JoinDelivered(call.call_id))
    member.answer(beaten(3, t=(0, 1)))
    assert member.heartbeats[-1].topic_partitions == owned(t=(0, 1))  # the acknowledgement
    assert member.state() is STABLE


def test_after_a_full_heartbeat_nothing_is_acknowledged_before_the_caller_reports(
    member: Member,
) -> None:
    """Found by the simulation: the next heartbeat listed only what had been acknowledged before."""
    member.hear(beaten(3, t=(0, 1)))
    reconnect(member)
    member.answer(beaten(3, t=(0,)))
    assert member.beat().topic_partitions is None
    member.answer(beaten(3))
    member.take_up()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))


def test_a_full_heartbeat_while_partitions_are_given_up_still_names_them() -> None:
    member = Member()
    member.join(2, t=(0, 1))
    member.hear(beaten(2, t=(0,)))
    reconnect(member)
    assert member.heartbeats[-1].topic_partitions == owned(t=(0, 1))
    member.answer(beaten(2, t=(0,)))
    member.take_up()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))


def test_delivered_partitions_are_reported_until_the_caller_has_taken_their_successor(
    member: Member,
) -> None:
    member.hear(beaten(3, t=(0, 1)))
    overtaken = member.call(CompleteJoin)
    member.hear(beaten(3, t=(0,)))
    member.handle(JoinDelivered(overtaken.call_id))  # the caller has it, though the answer is stale
    reconnect(member)
    assert member.heartbeats[-1].topic_partitions == owned(t=(0, 1))
    member.answer(beaten(3, t=(0,)))
    member.take_up()
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))


def test_a_full_heartbeat_names_nothing_that_was_not_handed_over() -> None:
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0,), u=(1,)))  # u has no name yet
    reconnect(member)
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))


@each_case("lost", (False, True))
def test_nothing_is_taken_while_the_list_of_what_is_owned_is_unanswered(lost: bool) -> None:
    """If the coordinator takes `u` away with this heartbeat, another member gets it at once."""
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0,), u=(1,)))
    reconnect(member)
    member.advance(1_000)
    member.name()
    assert member.view.call is None
    if lost:
        reconnect(member)
        member.advance(1_000)
        member.name()
        assert member.view.call is None
    member.answer(beaten(3, t=(0,), u=(1,)))
    member.take_up()
    assert member.taken[-1] == {TopicPartition("t", 0), TopicPartition("u", 1)}


def test_a_refused_list_does_not_stop_the_member_after_it_joins_again(member: Member) -> None:
    member.beat()
    reconnect(member)
    member.answer(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    member.prepare()
    member.assigned(3, t=(0,))
    member.take_up()
    assert member.state() is STABLE


def test_a_withdrawn_part_that_was_never_taken_is_acknowledged_while_names_are_missing() -> None:
    """As `testSameAssignmentReconciledAgainWithMissingTopic`: the coordinator waits for that."""
    member = Member(topics=("t", "u"))
    member.start()
    member.answer(beaten(2, t=(0, 1), u=(5,)))
    member.answer(names(T, unknown=(U,)))
    member.take_up()
    member.answer(beaten(2))
    member.hear(beaten(3, t=(0, 1, 2), u=(5,)))
    member.fail_call()
    member.hear(beaten(3, t=(0, 1), u=(5,)))
    sent = len(member.heartbeats)
    member.take_up()
    assert member.heartbeats[sent].topic_partitions == owned(t=(0, 1))
    assert member.state() is RECONCILING
