"""Tests moving partitions between nodes and directories, with a real Kafka beside what one node answers."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from groupsdk.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from groupsdk.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from groupsdk.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, connect


ASKED: list[tuple[str, int, tuple[int, ...] | None, int, str | None]] = [
    ("t", 0, (1,), 0, None),
    ("t", 0, None, 85, None),
    ("t", 9, (1,), 3, "Unable to find partition t:9."),
    ("nix", 0, (1,), 3, "Unable to find a topic named nix."),
    ("nix", 0, None, 3, "Unable to find a topic named nix."),
    ("t", 0, (7,), 39, "includes broker 7, but no such broker is registered."),
    ("t", 0, (), 39, "includes an empty replica list."),
    ("t", 0, (1, 1), 39, "includes the broker 1 more than once."),
    ("t", 0, (1, 7), 39, "includes broker 7, but no such broker is registered."),
]


def reassign(client: Client, topic: str, partition: int, replicas: tuple[int, ...] | None) -> int:
    """Reassigns one partition; returns the error."""
    asked = (ReassignableTopic(topic, (ReassignablePartition(partition, replicas),)),)
    answer = client.ask(AlterPartitionReassignmentsRequest(topics=asked), 1)
    return answer.responses[0].partitions[0].error_code


def check_one_node(client: Client) -> None:
    """Asks one node with a topic `t` of three partitions."""
    for topic, partition, replicas, code, text in ASKED:
        asked = (ReassignableTopic(topic, (ReassignablePartition(partition, replicas),)),)
        answer = client.ask(AlterPartitionReassignmentsRequest(topics=asked), 1)
        assert answer.error_code == 0
        (found,) = answer.responses[0].partitions
        assert found.error_code == code, (topic, partition, replicas)
        if text is not None:
            assert str(found.error_message).endswith(text)
    for topics in (None, (ListPartitionReassignmentsTopics("t", (0, 9)),)):
        listed = client.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (listed.error_code, listed.topics) == (0, ())
    path = client.ask(DescribeLogDirsRequest(None), 4).results[0].log_dir
    for directory, topic, expected in (
        (path, "t", {0: 0, 1: 0, 7: 3}),
        (path, "nix", {0: 3}),
        ("/nowhere", "t", {0: 57}),
        ("relative", "t", {0: 57}),
    ):
        placed = AlterReplicaLogDirTopic(topic, tuple(expected))
        request = AlterReplicaLogDirsRequest((AlterReplicaLogDir(directory, (placed,)),))
        for version in (1, 2):
            (result,) = client.ask(request, version).results
            codes = {each.partition_index: each.error_code for each in result.partitions}
            assert (result.topic_name, codes) == (topic, expected)


def test_one_node_has_nothing_to_move(client: Client) -> None:
    check_one_node(client)


def test_kafka_answers_the_same(kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        topic = CreatableTopic("t", 3, 1)
        assert client.ask(CreateTopicsRequest((topic,))).topics[0].error_code in {0, 36}
        check_one_node(client)


def test_a_partition_moves_to_another_node() -> None:
    with EmbeddedBroker(nodes=2, topics={"t": 1}) as broker, connect(broker) as client:
        for node in (2, 1):
            assert reassign(client, "t", 0, (node,)) == 0
            (found,) = client.ask(MetadataRequest(None), 12).topics
            assert found.partitions[0].leader_id == node
        assert reassign(client, "t", 0, (1, 2)) == 39  # partitions have one replica here
        broker.stop_node(2)
        assert reassign(client, "t", 0, (2,)) == 39


@pytest.mark.parametrize("name", ["__consumer_offsets"])
def test_a_coordinator_moves_with_its_partition(name: str) -> None:
    with EmbeddedBroker(nodes=2) as broker, connect(broker) as client:
        broker.create_topic("t", 1)
        assert broker.coordinator("g") in {1, 2}
        for node in (2, 1):
            topic = broker._running().cluster.internal_topic(name)
            for partition in range(len(topic.partitions)):
                assert reassign(client, name, partition, (node,)) == 0
            client.ask(MetadataRequest(None), 12)
            assert broker.coordinator("g") == node
