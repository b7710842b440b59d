"""Tests what a client is told of nodes and topics."""

from uuid import uuid4

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.messages.cluster import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from groupsdk.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from tests.broker.clients import Client, connect


def ask(
    client: Client, name: str, version: int = 12, *, create: bool = False
) -> MetadataResponseTopic:
    asked = MetadataRequest((MetadataRequestTopic(name=name),), allow_auto_topic_creation=create)
    return client.ask(asked, version).topics[0]


def test_every_version_describes_nodes_and_topics(broker: EmbeddedBroker, client: Client) -> None:
    for version in range(14):
        topics = () if version == 0 else None
        answer = client.ask(MetadataRequest(topics), version)
        (node,) = answer.brokers
        assert f"{node.host}:{node.port}" == broker.bootstrap_servers
        (topic,) = answer.topics
        assert (topic.name, len(topic.partitions)) == ("t", 3)
        assert {each.leader_id for each in topic.partitions} == {1}
        if version >= 1:
            assert client.ask(MetadataRequest(()), version).topics == ()
            assert answer.controller_id == 1


def test_a_topic_is_created_where_that_is_asked_and_allowed(client: Client) -> None:
    assert ask(client, "new").error_code == 3
    # as with Kafka, whose controller is still at it
    assert ask(client, "new", create=True).error_code == 3
    assert len(ask(client, "new").partitions) == 1
    assert ask(client, "not allowed", create=True).error_code == 17
    assert ask(client, "not allowed").error_code == 17
    # before version 4 a client cannot say that it wants none
    old = MetadataRequest((MetadataRequestTopic(name="old"),))
    assert [client.ask(old, 3).topics[0].error_code for _ in range(2)] == [3, 0]
    with EmbeddedBroker(auto_create_topics_enable=False) as broker, connect(broker) as strict:
        assert ask(strict, "new", create=True).error_code == 3


def test_an_internal_topic_gets_its_own_partitions(client: Client) -> None:
    assert ask(client, "__consumer_offsets", create=True).error_code == 3
    topic = ask(client, "__consumer_offsets")
    assert topic.is_internal
    assert len(topic.partitions) == 50


def test_topics_are_found_by_their_id(client: Client) -> None:
    topic = ask(client, "t")
    by_id = MetadataRequest((MetadataRequestTopic(topic_id=topic.topic_id, name=None),))
    assert client.ask(by_id, 12).topics[0].name == "t"
    unknown = MetadataRequest((MetadataRequestTopic(topic_id=uuid4(), name=None),))
    assert client.ask(unknown, 12).topics[0].error_code == 100


def test_metadata_returns_authorized_operations_on_request(client: Client) -> None:
    asked = MetadataRequest(
        (MetadataRequestTopic(name="t"),), include_topic_authorized_operations=True
    )
    assert client.ask(asked, 12).topics[0].topic_authorized_operations == 0b110111111000
    assert ask(client, "t").topic_authorized_operations == -(2**31)


def test_a_partition_without_its_leader_is_shown_so() -> None:
    with EmbeddedBroker(nodes=1, topics={"t": 1}) as broker, connect(broker) as client:
        broker._on_loop(lambda: broker._running().cluster.catalogue.move_leaders({("t", 0): 9}))
        (partition,) = ask(client, "t").partitions
        assert (partition.error_code, partition.leader_id) == (5, -1)
        assert partition.offline_replicas == (9,)


def test_topics_are_described_in_pages(broker: EmbeddedBroker, client: Client) -> None:
    broker.create_topic("u", 2)
    seen: list[tuple[str | None, int]] = []
    cursor: Cursor | None = None
    pages = 0
    while True:
        asked = DescribeTopicPartitionsRequest((), 2, cursor)
        answer = client.ask(asked, 0)
        seen += [(t.name, p.partition_index) for t in answer.topics for p in t.partitions]
        pages += 1
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert seen == [("t", 0), ("t", 1), ("t", 2), ("u", 0), ("u", 1)]
    assert pages == 3
    missing = DescribeTopicPartitionsRequest((TopicRequest("none"),))
    assert client.ask(missing, 0).topics[0].error_code == 3
