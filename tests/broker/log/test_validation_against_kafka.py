"""Tests that batches of every kind, good and bad, are answered and stored as by a real Kafka."""

import time
from typing import Final

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupsdk.wire.messages.produce import PartitionProduceResponse
from groupsdk.wire.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from groupsdk.wire.records.batch import read_header
from groupsdk.wire.records.record import read_records
from tests.broker.clients import Client, connect, end_offset, produce
from tests.broker.log.bad_batches import BAD


_TOPIC: Final = "good-and-bad-batches"
_COMPACTED: Final = "good-and-bad-batches-compacted"
_OTHERWISE: Final = {
    "longer than its batch, compressed": (0, 87),
    "offset delta again": (0, 87),
    "offset delta again, compressed": (-1, 87),
    "null of length -2": (0, 87),
    "delete horizon": (0, 87),
}
"""What Kafka stores, or has no name for, and is refused here: no consumer can read it as it was meant."""


@pytest.fixture
def theirs(kafka: LocalKafka) -> Client:
    """A connection to Kafka, with the topics."""
    return connect(kafka)


def topic_of(name: str) -> str:
    return _COMPACTED if name.startswith("no key") else _TOPIC


def with_topics(client: Client) -> None:
    """Makes the topics, and waits until they can be written."""
    compacted = (CreatableTopicConfig("cleanup.policy", "compact"),)
    topics = (CreatableTopic(_TOPIC, 1, 1), CreatableTopic(_COMPACTED, 1, 1, (), compacted))
    assert {each.error_code for each in client.ask(CreateTopicsRequest(topics), 5).topics} <= {
        0,
        36,
    }
    for topic in (_TOPIC, _COMPACTED):
        while produce(client, topic, BAD["good"](1_000_000)).error_code:
            time.sleep(0.05)


def stored(client: Client, topic: str, offset: int) -> tuple[int, ...]:
    """Reads the batch at an offset; gives what a broker may change in it, and its records' times."""
    wanted = (FetchTopic(topic, partitions=(FetchPartition(0, -1, offset),)),)
    request = FetchRequest(max_wait_ms=10_000, min_bytes=1, max_bytes=1 << 20, topics=wanted)
    found = client.ask(request, 11).responses[0].partitions[0]
    assert found.error_code == 0
    assert found.records
    header = read_header(found.records)
    assert header.base_offset == offset
    times = tuple(each.timestamp for each in read_records(found.records))
    return (header.attributes, header.max_timestamp, header.records_count, *times)


def told(answer: PartitionProduceResponse) -> tuple[int, list[int]]:
    return answer.error_code, [each.batch_index for each in answer.record_errors]


def test_batches_of_all_kinds_end_as_with_kafka(theirs: Client) -> None:
    now_ms = int(time.time() * 1000)  # noqa: TID251 - Kafka's timestamps are bounded by real time
    with EmbeddedBroker() as broker, connect(broker) as ours, theirs:
        with_topics(ours)
        with_topics(theirs)
        refused = 0
        for name, build in BAD.items():
            topic = topic_of(name)
            ends = [end_offset(each, topic) for each in (ours, theirs)]
            found = [produce(each, topic, build(now_ms)) for each in (ours, theirs)]
            if name in _OTHERWISE:
                assert (found[1].error_code, found[0].error_code) == _OTHERWISE[name], name
                continue
            assert told(found[0]) == told(found[1]), name
            refused += found[0].error_code != 0
            if found[0].error_code == 0:
                assert stored(ours, topic, ends[0]) == stored(theirs, topic, ends[1]), name
            else:
                assert end_offset(ours, topic) == ends[0], name
        assert refused > 30
        for name in ("good", "garbage", "wrong checksum", "cut", "nothing", "two"):
            answers = [produce(each, _TOPIC, BAD[name](now_ms), acks=7) for each in (ours, theirs)]
            assert told(answers[0]) == told(answers[1]), name
