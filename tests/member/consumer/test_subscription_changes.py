"""A subscription that changes, in each state of a member."""

from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.member.actions import CompleteJoin, PrepareJoin
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.member.events import JoinDelivered, LeaveRequested, RejoinRequested
from tests.member.consumer.driving import Member, beaten, in_group, owned, refused


STABLE = ConsumerMemberState.STABLE
RECONCILING = ConsumerMemberState.RECONCILING
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def subscribe(member: Member, *topics: str, pattern: str | None = None) -> None:
    """Have the caller subscribe to other topics."""
    member.subscription = HeartbeatSubscription(frozenset(topics), pattern)
    member.handle(RejoinRequested("the subscription has changed"))


def stale(member: Member) -> None:
    """Have the caller be away for so long that the member leaves."""
    while member.state() is not ConsumerMemberState.STALE:
        if member.outstanding:
            member.answer(beaten(member.epoch))
        else:
            member.beat()


def take_all_up(member: Member) -> None:
    """Have the caller do all that it is asked to."""
    while member.view.call is not None:
        member.take_up()


def test_before_the_first_join_the_newest_one_is_joined_with() -> None:
    member = Member()
    subscribe(member, "u")
    assert member.start().subscribed_topic_names == ("u",)


def test_while_joining_the_next_heartbeat_tells() -> None:
    member = Member()
    member.start()
    subscribe(member, "t", "u")
    member.prepare()
    member.answer(beaten(2, t=(0,)))
    assert member.heartbeats[-1].member_epoch == 2
    assert member.heartbeats[-1].subscribed_topic_names == ("t", "u")


def test_while_joining_a_join_that_is_repeated_tells() -> None:
    member = Member()
    member.start()
    subscribe(member, "u")
    member.prepare()
    member.disconnect()
    member.found()
    assert member.heartbeats[-1].member_epoch == 0
    assert member.heartbeats[-1].subscribed_topic_names == ("u",)


def test_while_stable_what_is_not_subscribed_to_any_more_is_kept_until_the_broker_says_so() -> None:
    """As Java: the coordinator answers with the rest, and waits until that is acknowledged."""
    member = Member(topics=("t", "u"))
    member.join(2, t=(0,), u=(1,))
    subscribe(member, "t")
    member.prepare()
    assert member.state() is STABLE
    assert member.heartbeats[-1].subscribed_topic_names == ("t",)
    assert member.heartbeats[-1].topic_partitions is None
    member.answer(beaten(2, t=(0,)))
    member.take_up()
    assert member.taken[-1] == {T0}
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))


def test_while_reconciling_a_pending_target_is_trimmed() -> None:
    """Partitions of a topic that was subscribed to when they were assigned are not taken any more."""
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0, 1), u=(1,)))  # u has no name yet
    subscribe(member, "t")  # while the part that has names was on its way to the caller
    member.prepare()
    member.take_up()
    member.name()
    member.poll()
    take_all_up(member)
    assert member.taken[-1] == {T0, T1}
    member.answer(beaten(3))
    member.answer(beaten(3, t=(0, 1)))  # to the subscription
    take_all_up(member)
    assert member.taken[-1] == {T0, T1}
    assert member.state() is STABLE
    assert all(TopicPartition("u", 1) not in each for each in member.taken)


def test_a_trimmed_topic_that_is_subscribed_to_again_is_taken() -> None:
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0,), u=(1,)))
    subscribe(member, "t")
    member.prepare()
    member.name()
    assert member.view.call is None
    subscribe(member, "t", "u")
    member.prepare()
    member.take_up()
    assert member.taken[-1] == {T0, TopicPartition("u", 1)}


def test_a_pattern_of_the_broker_trims_nothing(member: Member) -> None:
    """Only the coordinator knows what it matches."""
    subscribe(member, pattern="u.*")
    member.prepare()
    assert member.heartbeats[-1].subscribed_topic_regex == "u.*"
    member.assigned(3, u=(1,))
    member.take_up()  # that t is gone, while u has no name yet
    member.answer(beaten(3))
    member.take_up()
    assert member.taken[-1] == {TopicPartition("u", 1)}


def test_an_assignment_that_waits_for_the_caller_comes_without_topics_it_has_given_up() -> None:
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0,), u=(0,)))
    member.name()
    member.call(CompleteJoin)
    subscribe(member, "t")
    member.prepare()
    member.poll()
    assert not isinstance(member.view.call, CompleteJoin), "the member has t already"
    told = member.heartbeats[-1]
    assert (told.subscribed_topic_names, told.topic_partitions) == (("t",), None)
    member.answer(beaten(3, t=(0,)))
    take_all_up(member)
    assert member.heartbeats[-1].topic_partitions == owned(t=(0,))
    assert all(TopicPartition("u", 0) not in each for each in member.taken)


def test_an_assignment_that_is_being_taken_up_is_handed_over_again() -> None:
    """A listener that subscribes to something else in the midst of it: the acknowledgement waits for the rest."""
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0, 1)))
    begun = member.call(CompleteJoin)
    subscribe(member, "t")
    sent = len(member.heartbeats)
    member.handle(JoinDelivered(begun.call_id))
    assert len(member.heartbeats) == sent
    member.prepare()
    assert member.call(CompleteJoin).assignment == begun.assignment
    member.take_up()
    member.answer(beaten(3))  # to the subscription
    assert member.heartbeats[-1].topic_partitions == owned(t=(0, 1))


def test_a_topic_that_is_given_up_and_wanted_again_before_the_caller_was_asked_is_taken() -> None:
    member = in_group(topics=("t", "u"))
    member.hear(beaten(3, t=(0,), u=(0,)))
    member.name()
    subscribe(member, "t")
    subscribe(member, "t", "u")
    member.prepare()
    member.prepare()
    member.take_up()
    assert member.taken[-1] == {T0, TopicPartition("u", 0)}


def test_while_fenced_it_joins_again_with_the_newest_one(member: Member) -> None:
    member.hear(refused(ErrorCode.FENCED_MEMBER_EPOCH))
    subscribe(member, "u")
    assert member.call(PrepareJoin).run_callback
    member.prepare()
    assert member.heartbeats[-1].subscribed_topic_names == ("u",)
    assert member.heartbeats[-1].topic_partitions == ()


def test_while_the_caller_was_away_it_joins_again_with_the_newest_one(member: Member) -> None:
    stale(member)
    member.answer(beaten(-1))
    subscribe(member, "u")
    member.poll()
    if member.looking:
        member.found()
    member.prepare()
    assert member.heartbeats[-1].member_epoch == 0
    assert member.heartbeats[-1].subscribed_topic_names == ("u",)


def test_after_a_leave_it_joins_again_with_the_newest_one(member: Member) -> None:
    member.handle(LeaveRequested("enough"))
    member.answer(beaten(-1))
    subscribe(member, "u")
    member.poll()
    member.prepare()
    assert member.heartbeats[-1].subscribed_topic_names == ("u",)


def test_after_a_refusal_for_good_nothing_is_sent() -> None:
    member = Member()
    member.start()
    member.answer(refused(ErrorCode.INVALID_REQUEST))
    sent = len(member.heartbeats)
    subscribe(member, "u")
    member.poll()
    member.advance(60_000)
    assert member.state() is ConsumerMemberState.FATAL
    assert len(member.heartbeats) == sent


def test_the_same_subscription_is_not_told_again(member: Member) -> None:
    sent = len(member.heartbeats)
    subscribe(member, "t")
    member.prepare()
    assert len(member.heartbeats) == sent


def test_a_static_member_ends_the_pattern_of_whoever_had_its_place() -> None:
    """The coordinator keeps a field that is not sent, and would give it partitions that it never takes."""
    member = in_group(topics=("t",), group_instance_id="i")
    member.hear(beaten(2, t=(0,), u=(1,)))
    member.name()
    said = [member.beat().subscribed_topic_regex]
    member.answer(beaten(2, t=(0,)))
    said.append(member.beat().subscribed_topic_regex)
    assert said == ["", None]


def test_a_member_whose_place_is_new_has_no_pattern_to_end() -> None:
    member = in_group(topics=("t",))
    member.hear(beaten(2, t=(0,), u=(1,)))
    member.name()
    member.beat()
    assert member.heartbeats[-1].subscribed_topic_regex is None
