"""Test what is read about topics, and when it calls for a rebalance."""

import pytest

from groupsdk.assignment import Cluster
from groupsdk.consumer.topics import TopicView, TopicWatch, read_topics, topics_request
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError
from groupsdk.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def partition(number: int, *replicas: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(partition_index=number, replica_nodes=replicas)


def test_topics_are_asked_for_by_name_or_all() -> None:
    assert topics_request(None).topics is None
    named = topics_request(["a"], create=True)
    assert [each.name for each in named.topics or ()] == ["a"]
    assert named.allow_auto_topic_creation
    assert not topics_request(["a"]).allow_auto_topic_creation


def test_metadata_answer_is_read_as_topics() -> None:
    view = read_topics(
        MetadataResponse(
            brokers=(
                MetadataResponseBroker(1, "h", 1, "r1"),
                MetadataResponseBroker(2, "h", 2, None),
            ),
            topics=(
                MetadataResponseTopic(name="a", partitions=(partition(1, 2), partition(0, 1, 2))),
                MetadataResponseTopic(name="__i", is_internal=True, partitions=(partition(0, 1),)),
                MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="gone"),
                MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name="no"),
                MetadataResponseTopic(name=None),
            ),
        )
    )
    assert view.partition_counts == {"a": 2, "__i": 1}
    assert view.replica_racks["a"] == (frozenset({"r1"}), frozenset())
    assert view.internal == {"__i"}
    assert view.unauthorized == {"no"}
    assert view.cluster(["a", "gone"], racks=False) == Cluster({"a": 2}, {})
    assert view.cluster(["a"], racks=True).replica_racks == {"a": (frozenset({"r1"}), frozenset())}


def test_other_errors_are_raised() -> None:
    broken = MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, name="a")
    with pytest.raises(BrokerError, match="Metadata of topic 'a'"):
        read_topics(MetadataResponse(topics=(broken,)))


def assigned(**counts: int) -> TopicWatch:
    watch = TopicWatch(60_000)
    watch.assigned(counts.keys(), Cluster({t: n for t, n in counts.items() if n}), racks=False)
    assert not watch.due(0, has_patterns=False)
    return watch


def test_the_leader_looks_when_its_picture_is_old() -> None:
    watch = assigned(a=2)
    assert not watch.due(59_999, has_patterns=False)
    assert watch.due(60_000, has_patterns=False)
    request = watch.asks(60_000, has_patterns=False)
    assert [each.name for each in request.topics or ()] == ["a"]
    assert not watch.due(60_001, has_patterns=False)


def test_nobody_else_looks_but_for_a_pattern() -> None:
    watch = TopicWatch(60_000)
    assert not watch.due(10**9, has_patterns=False)
    assert not watch.due(0, has_patterns=True)
    assert watch.due(60_000, has_patterns=True)
    assert watch.asks(60_000, has_patterns=True).topics is None
    assert watch.seen(TopicView({"a": 1})) is None
    led = assigned(a=1)
    led.forget()
    assert not led.due(10**9, has_patterns=False)


def test_a_missing_topic_is_looked_for_soon() -> None:
    watch = assigned(a=2, b=0)
    assert watch.due(1_000, has_patterns=False)
    assert watch.seen(TopicView({"a": 2})) is None
    assert watch.seen(TopicView({"a": 2, "b": 3})) == (
        "topic b has 3 partitions, and had 0 when the group was assigned"
    )


def test_more_partitions_and_deleted_topics_call_for_a_rebalance() -> None:
    assert "has 3 partitions, and had 2" in str(assigned(a=2).seen(TopicView({"a": 3})))
    assert "has 0 partitions" in str(assigned(a=2).seen(TopicView({})))
    assert assigned(a=2).seen(TopicView({"a": 2, "other": 9})) is None


def test_racks_count_where_members_have_them() -> None:
    racks = {"a": (frozenset({"r1"}),)}
    moved = TopicView({"a": 1}, {"a": (frozenset({"r2"}),)})
    watch = TopicWatch(60_000)
    watch.assigned({"a"}, Cluster({"a": 1}, racks), racks=True)
    assert "other racks" in str(watch.seen(moved))
    watch.assigned({"a"}, Cluster({"a": 1}), racks=False)
    assert watch.seen(moved) is None
