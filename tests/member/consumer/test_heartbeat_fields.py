from uuid import UUID

from groupsdk.member.consumer.heartbeat_fields import (
    NO_ASSIGNMENT,
    HeartbeatFields,
    HeartbeatSubscription,
    LocalAssignment,
    in_wire_form,
    of_wire_form,
)
from groupsdk.settings.config import ConsumerMemberConfig
from groupsdk.wire.messages.consumer_groups import TopicPartitions
from tests.member.consumer.driving import SETTINGS, T, U


TOPICS = HeartbeatSubscription(frozenset({"t"}))
PATTERN = HeartbeatSubscription(frozenset(), "t.*")


def fields() -> HeartbeatFields:
    return HeartbeatFields(ConsumerMemberConfig(**SETTINGS), "m")


def test_the_owned_list_goes_out_where_it_is_given_and_is_known_to_be_missing_after_an_error() -> (
    None
):
    sent = fields()
    sent.join(TOPICS)
    partitions = {T: frozenset({0})}
    assert sent.heartbeat(2, TOPICS, partitions).topic_partitions == in_wire_form(partitions)
    assert sent.heartbeat(2, TOPICS, None).topic_partitions is None
    known = [sent.knows_owned]
    sent.forget()
    known.append(sent.knows_owned)
    sent.heartbeat(2, TOPICS, None)
    assert [*known, sent.knows_owned] == [True, False, False]


def test_a_pattern_is_taken_back_by_an_empty_one() -> None:
    """As `testRegexInHeartbeat...` and `testSubscribedTopicRegex...`: null would mean unchanged."""
    sent = fields()
    assert sent.join(TOPICS).subscribed_topic_regex is None
    assert sent.heartbeat(2, PATTERN, None).subscribed_topic_regex == "t.*"
    assert sent.heartbeat(2, PATTERN, None).subscribed_topic_regex is None
    removed = sent.heartbeat(2, TOPICS, None)
    assert removed.subscribed_topic_regex == ""
    assert removed.subscribed_topic_names == ("t",)
    assert sent.heartbeat(2, TOPICS, None).subscribed_topic_regex is None
    # that may have been lost, and a broker keeps what it is not told of
    sent.forget()
    assert sent.heartbeat(2, TOPICS, None).subscribed_topic_regex == ""
    assert sent.join(TOPICS).subscribed_topic_regex == ""


def test_a_pattern_alone_joins_with_an_empty_list_of_names() -> None:
    join = fields().join(PATTERN)
    assert join.subscribed_topic_names == ()
    assert join.subscribed_topic_regex == "t.*"


def test_a_leave_says_no_more_than_who_leaves() -> None:
    leave = fields().leave(-1)
    assert leave.subscribed_topic_names is None
    assert leave.topic_partitions is None
    assert (leave.member_id, leave.member_epoch) == ("m", -1)


def test_partitions_survive_the_way_over_the_wire() -> None:
    partitions = {T: frozenset({2, 0}), U: frozenset({1})}
    assert of_wire_form(in_wire_form(partitions)) == partitions
    twice = (
        TopicPartitions(topic_id=T, partitions=(0,)),
        TopicPartitions(topic_id=T, partitions=(1,)),
        TopicPartitions(topic_id=UUID(int=9), partitions=()),
    )
    assert of_wire_form(twice) == {T: frozenset({0, 1})}


def test_the_same_assignment_is_the_next_only_where_there_was_none() -> None:
    first = NO_ASSIGNMENT.followed_by({})
    assert first == LocalAssignment(0, {})
    assert first.followed_by({}) is first
    assert first.followed_by({T: frozenset({0})}).number == 1
