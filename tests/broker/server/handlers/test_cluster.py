"""Tests what is told of the cluster, its disks and its producers."""

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.messages.describe_cluster import DescribeClusterRequest
from groupsdk.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from groupsdk.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from groupsdk.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.broker.clients import Client, batch, connect, produce


def test_nodes_are_described() -> None:
    with EmbeddedBroker(nodes=2) as broker, connect(broker) as client:
        answer = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
        assert answer.cluster_id == broker.cluster_id
        assert [each.broker_id for each in answer.brokers] == [1, 2]
        assert answer.controller_id == 1
        assert answer.cluster_authorized_operations > 0
        assert client.ask(DescribeClusterRequest(endpoint_type=2), 1).error_code == 114
        assert client.ask(DescribeClusterRequest(endpoint_type=5), 1).error_code == 115


def test_sizes_are_told(client: Client) -> None:
    records = batch(b"v" * 100)
    produce(client, "t", records, partition=1)
    (found,) = client.ask(DescribeLogDirsRequest(None), 4).results
    (topic,) = found.topics
    assert [each.partition_size for each in topic.partitions] == [0, len(records), 0]
    wanted = (DescribableLogDirTopic("t", (1,)),)
    (found,) = client.ask(DescribeLogDirsRequest(wanted), 4).results
    assert [each.partition_index for each in found.topics[0].partitions] == [1]


def test_producers_are_told(client: Client) -> None:
    produce(client, "t", batch(b"v", producer_id=5, producer_epoch=2, base_sequence=0))
    answer = client.ask(DescribeProducersRequest((TopicRequest("t", (0, 1, 9)),)), 0)
    first, second, third = answer.topics[0].partitions
    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 2, 0)
    assert producer.current_txn_start_offset == -1
    assert second.active_producers == ()
    assert third.error_code == 3


def test_nothing_is_being_moved(client: Client) -> None:
    for topics in (None, (ListPartitionReassignmentsTopics("t", (0, 9)),)):
        answer = client.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
        assert (answer.error_code, answer.topics) == (0, ())
