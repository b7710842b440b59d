"""Tests what is appended, and what a producer is told where it is not."""

from uuid import uuid4

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from groupsdk.wire.messages.transactions import InitProducerIdRequest
from tests.broker.clients import (
    Client,
    batch,
    connect,
    end_offset,
    eventually,
    produce,
    produce_request,
)


@pytest.mark.parametrize("version", range(3, 13))
def test_records_get_the_next_offsets(client: Client, version: int) -> None:
    assert produce(client, "t", batch(b"a", b"b"), version=version).base_offset == 0
    assert produce(client, "t", batch(b"c"), version=version).base_offset == 2
    assert end_offset(client, "t") == 3


def test_version_13_names_topics_by_id(client: Client) -> None:
    named = client.ask(MetadataRequest((MetadataRequestTopic(name="t"),)), 12).topics[0]
    data = (PartitionProduceData(0, batch(b"v")),)

    def ask(topic_id: object) -> int:
        topics = (TopicProduceData("", topic_id, data),)  # type: ignore[arg-type]  # a UUID
        answer = client.ask(ProduceRequest(None, -1, 1000, topics), 13)
        return answer.responses[0].partition_responses[0].error_code

    assert ask(named.topic_id) == 0
    assert ask(uuid4()) == 100
    assert end_offset(client, "t") == 1


def test_without_acks_there_is_no_answer(client: Client) -> None:
    client.send(produce_request("t", batch(b"v"), acks=0), 9)
    assert client.ask(HeartbeatRequest("g", 1, "m")).error_code == 25
    assert end_offset(client, "t") == 1


def test_without_acks_a_failure_ends_the_connection(client: Client) -> None:
    client.send(produce_request("none", batch(b"v"), acks=0), 9)
    assert client.is_closed()


def corrupt() -> bytes:
    """Builds a batch with a flipped bit."""
    data = bytearray(batch(b"value"))
    data[-1] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, 87),
        (b"", 87),
        (b"short", 87),
        (corrupt(), 2),
        (batch(b"a") + batch(b"b"), 87),
        (batch(b"x" * 1_100_000), 10),
        (batch(b"a", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0), 53),
    ],
)
def test_records_that_cannot_be_appended_are_refused_with_kafkas_error(
    client: Client, records: bytes | None, error: int
) -> None:
    assert produce(client, "t", records).error_code == error
    assert end_offset(client, "t") == 0


def test_places_where_nothing_can_be_appended(client: Client) -> None:
    assert produce(client, "none", batch(b"v")).error_code == 3
    assert produce(client, "t", batch(b"v"), partition=7).error_code == 3
    assert produce(client, "t", batch(b"v"), partition=-1).error_code == 3
    assert produce(client, "__consumer_offsets", batch(b"v")).error_code == 3
    client.ask(MetadataRequest((MetadataRequestTopic(name="__consumer_offsets"),)), 12)
    assert produce(client, "__consumer_offsets", batch(b"v")).error_code == 17
    assert produce(client, "t", batch(b"v"), acks=2).error_code == 21


def test_an_idempotent_producer_is_held_to_its_numbers(client: Client) -> None:
    def numbered(sequence: int, epoch: int = 0) -> tuple[int, int]:
        records = batch(b"v", producer_id=5, producer_epoch=epoch, base_sequence=sequence)
        answer = produce(client, "t", records)
        return answer.error_code, answer.base_offset

    assert numbered(0) == (0, 0)
    assert numbered(1) == (0, 1)
    assert numbered(1) == (0, 1)
    assert numbered(5)[0] == 45
    assert numbered(0, epoch=1) == (0, 2)
    assert numbered(2, epoch=0)[0] == 47


def test_produce_at_the_wrong_node_names_the_leader() -> None:
    with EmbeddedBroker(nodes=2, topics={"t": 1}) as broker, connect(broker, 2) as client:
        answer = client.ask(produce_request("t", batch(b"v")), 11)
        partition = answer.responses[0].partition_responses[0]
        assert (partition.error_code, partition.current_leader.leader_id) == (6, 1)
        assert [each.node_id for each in answer.node_endpoints] == [1]


def test_of_a_partition_named_twice_no_batch_escapes_the_check_of_the_transaction(
    client: Client,
) -> None:
    asked = InitProducerIdRequest("x", 60_000)
    eventually(lambda: client.ask(asked, 5).error_code, 0)
    producer = client.ask(asked, 5)
    written = tuple(
        PartitionProduceData(
            0,
            batch(
                b"v",
                transactional=True,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=number,
            ),
        )
        for number in range(2)
    )
    request = ProduceRequest("x", -1, 1_000, (TopicProduceData("t", partition_data=written),))
    # the partition is not part of the transaction, and this version does not add it
    (topic,) = client.ask(request, 11).responses
    assert [each.error_code for each in topic.partition_responses] == [120, 120]
    assert end_offset(client, "t") == 0
