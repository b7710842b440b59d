"""Tests offsets found by time, and the ends of leader epochs."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.clients import Client, batch, connect, produce
from tests.support.workers import eventually


def listed(
    client: Client,
    timestamp: int,
    version: int = 10,
    *,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsTopic(topic, (ListOffsetsPartition(partition, epoch, timestamp),))
    return client.ask(ListOffsetsRequest(-1, topics=(asked,)), version).topics[0].partitions[0]


def epoch_end(
    client: Client, epoch: int, *, topic: str = "t", current: int = -1
) -> tuple[int, int, int]:
    """Asks where a leader epoch ends: error, epoch, offset."""
    wanted = OffsetForLeaderPartition(0, current, epoch)
    topics = (OffsetForLeaderTopic(topic, (wanted,)),)
    found = client.ask(OffsetForLeaderEpochRequest(-1, topics), 4).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(1, 12))
def test_ends_and_times(client: Client, version: int) -> None:
    produce(client, "t", batch(b"a", b"b", timestamp=100))
    produce(client, "t", batch(b"c", timestamp=300))
    assert listed(client, -1, version).offset == 3
    assert listed(client, -2, version).offset == 0
    found = listed(client, 200, version)
    assert (found.offset, found.timestamp) == (2, 300)
    missing = listed(client, 301, version)
    assert (missing.error_code, missing.offset, missing.timestamp) == (0, -1, -1)


def test_special_times_came_with_their_versions(client: Client) -> None:
    produce(client, "t", batch(b"a", timestamp=500))
    produce(client, "t", batch(b"b", timestamp=100))
    assert (listed(client, -3, 7).offset, listed(client, -3, 7).timestamp) == (0, 500)
    assert listed(client, -3, 6).error_code == 35
    assert listed(client, -4, 8).offset == 0
    assert listed(client, -5, 9).offset == -1
    waiting = listed(client, -6, 11)
    assert (waiting.error_code, waiting.offset) == (0, -1)
    assert listed(client, -6, 10).error_code == 35


def check_an_empty_partition(client: Client, topic: str) -> None:
    """Asks for both ends of a partition without records: the epoch is the leader's, and known from its election on."""
    for timestamp in (-1, -2, -4):
        for version in (8, 10):
            found = listed(client, timestamp, version, topic=topic)
            assert (found.error_code, found.offset, found.leader_epoch) == (0, 0, 0)
    for epoch, expected in ((0, (0, 0)), (1, (-1, -1))):
        assert epoch_end(client, epoch, topic=topic) == (0, *expected)


def test_an_empty_partition_has_the_epoch_of_its_leader(client: Client) -> None:
    check_an_empty_partition(client, "t")


def test_kafka_says_the_same_of_an_empty_partition(kafka: LocalKafka, group_id: str) -> None:
    with connect(kafka) as client:
        topic = CreatableTopic(group_id, 1, 1)
        assert client.ask(CreateTopicsRequest((topic,))).topics[0].error_code == 0
        eventually(lambda: listed(client, -1, topic=group_id).error_code == 0)
        check_an_empty_partition(client, group_id)


def test_list_offsets_errors_are_kafkas(client: Client) -> None:
    assert listed(client, -1, partition=9).error_code == 3
    assert listed(client, -1, epoch=5).error_code == 75
    with EmbeddedBroker(nodes=2, topics={"t": 1}) as broker, connect(broker, 2) as other:
        assert listed(other, -1).error_code == 6


def test_the_end_of_a_leader_epoch_is_told() -> None:
    with (
        EmbeddedBroker(nodes=2, topics={"t": 1}) as broker,
        connect(broker, 1) as one,
        connect(broker, 2) as two,
    ):
        produce(one, "t", batch(b"a", b"b"))
        broker.move_leader("t", 0, 2)
        assert listed(two, -1).leader_epoch == 1
        assert listed(two, -2).leader_epoch == 0
        assert epoch_end(two, 0) == (0, 0, 2)
        assert epoch_end(two, 1) == (0, 1, 2)
        produce(two, "t", batch(b"c"))

        assert epoch_end(two, 0) == (0, 0, 2)
        assert epoch_end(two, 1) == (0, 1, 3)
        assert epoch_end(two, 1, current=0)[0] == 74
        assert listed(two, -1).leader_epoch == 1
