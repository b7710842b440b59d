"""Tests what is told of the cluster, its disks and its producers."""

from pathlib import Path

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.cluster import (
    DescribableLogDirTopic,
    DescribeClusterRequest,
    DescribeLogDirsRequest,
)
from groupsdk.wire.messages.transactions import DescribeProducersRequest, TopicRequest
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


def test_the_disk_is_told_as_by_kafka(kafka: LocalKafka, tmp_path: Path) -> None:
    with (
        EmbeddedBroker(data_dir=tmp_path / "data") as broker,
        connect(broker) as client,
        connect(kafka) as other,
    ):
        for each in (client, other):
            for version in (4, 5):
                (found,) = each.ask(DescribeLogDirsRequest(()), version).results
                assert 0 < found.usable_bytes <= found.total_bytes
                assert not found.is_cordoned


def test_memory_has_no_size(client: Client) -> None:
    (found,) = client.ask(DescribeLogDirsRequest(()), 5).results
    assert (found.usable_bytes, found.total_bytes) == (-1, -1)


def test_producers_are_told(client: Client) -> None:
    produce(client, "t", batch(b"v", producer_id=5, producer_epoch=2, base_sequence=0))
    answer = client.ask(DescribeProducersRequest((TopicRequest("t", (0, 1, 9)),)), 0)
    first, second, third = answer.topics[0].partitions
    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (5, 2, 0)
    assert producer.current_txn_start_offset == -1
    assert second.active_producers == ()
    assert third.error_code == 3
