"""A topic that is read from a broker that answers oddly: all of it is read, or it is said why not."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from groupsdk.admin import cluster
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, ConfigError, DecodeError, GroupSdkError
from groupsdk.history.sources.topic_reader import DataLossError, TopicReader
from groupsdk.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from groupsdk.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupsdk.wire.records.record import Record, build_batch
from groupsdk.wire.schema import ApiKey
from tests.support.scripted_broker import ScriptedBroker
from tests.support.scripted_steps import KAFKA_4_3, Step, shortened


TOPIC = "__consumer_offsets"
END = 4


def batch(base: int, count: int) -> bytes:
    """Write a batch of small records."""
    return build_batch([Record(base + n, 1000, b"k", b"v") for n in range(count)], base)


def fetched(data: bytes | None, **more: Any) -> FetchResponse:
    """Answer a fetch of the partition."""
    part = PartitionData(0, 0, END, END, 0, records=data)
    return FetchResponse(
        responses=(FetchableTopicResponse(TOPIC, partitions=(replace(part, **more),)),)
    )


THROTTLED = FetchResponse(throttle_time_ms=30)
BEHIND = fetched(b"", high_watermark=2, last_stable_offset=2)
ALL = fetched(batch(0, 2) + batch(2, 2))


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_BACKOFF_S", 0.001)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """One that leads the only partition of the topic."""
    offers = {ApiKey.FETCH: (4, 12), ApiKey.LIST_OFFSETS: (1, 7)}
    with ScriptedBroker(versions={**KAFKA_4_3, **offers}) as found:
        led = MetadataResponsePartition(partition_index=0, leader_id=7)
        answer = MetadataResponse(
            brokers=(MetadataResponseBroker(7, found.host, found.port),),
            topics=(MetadataResponseTopic(name=TOPIC, partitions=(led,)),),
        )
        found.script(ApiKey.METADATA, Step(answer=answer), forever=True)
        yield found


def offsets(broker: ScriptedBroker, *steps: Step, forever: Step | None = None) -> list[int]:
    """Read the partition while its fetches are answered so."""
    broker.script(ApiKey.FETCH, *steps)
    if forever is not None:
        broker.script(ApiKey.FETCH, forever, forever=True)
    # what lasts is not waited for
    timeout_s = 15.0 if forever is None else 0.2
    with TopicReader({"bootstrap.servers": broker.address}, timeout_s=timeout_s) as reader:
        return [
            int(offset) for each in reader.read(TOPIC, 0, 0, END) for offset in each.records.offsets
        ]


def test_a_reader_that_used_up_its_quota_waits_and_reads_on(broker: ScriptedBroker) -> None:
    first = Step(answer=fetched(batch(0, 2)))
    rest = Step(answer=fetched(batch(2, 2)))
    throttled = Step(answer=THROTTLED)
    assert offsets(broker, first, throttled, throttled, rest) == [0, 1, 2, 3]
    at = [each.at_ms for each in broker.seen(ApiKey.FETCH)]
    assert all(later - earlier >= 25 for earlier, later in pairwise(at[1:]))


def test_a_new_leader_that_does_not_know_the_end_yet_is_asked_again(
    broker: ScriptedBroker,
) -> None:
    first = Step(answer=fetched(batch(0, 2)))
    rest = Step(answer=fetched(batch(2, 2)))
    assert offsets(broker, first, Step(answer=BEHIND), rest) == [0, 1, 2, 3]


def test_read_fails_where_the_end_offset_does_not_come_back(broker: ScriptedBroker) -> None:
    with pytest.raises(BrokerError, match="OFFSET_NOT_AVAILABLE"):
        offsets(broker, Step(answer=fetched(batch(0, 2))), forever=Step(answer=BEHIND))
    with pytest.raises(BrokerError, match="THROTTLING_QUOTA_EXCEEDED"):
        offsets(broker, forever=Step(answer=replace(THROTTLED, throttle_time_ms=1)))


def test_gap_compacted_up_to_the_end_is_no_loss(broker: ScriptedBroker) -> None:
    done = Step(answer=fetched(None))
    assert offsets(broker, Step(answer=fetched(batch(0, 2))), done) == [0, 1]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (fetched(batch(0, 4)[:-1]), "nothing from offset 0"),
        (fetched(b"\0" * 5), "nothing from offset 0"),
        (fetched(b"\xff" * 200), "offset|batch|length|magic"),
        (fetched(batch(0, 4), partition_index=3), "no such partition"),
        (FetchResponse(), "no such partition"),
    ],
)
def test_an_answer_that_is_none_says_so(
    broker: ScriptedBroker, answer: FetchResponse, says: str
) -> None:
    with pytest.raises(DecodeError, match=says):
        offsets(broker, forever=Step(answer=answer))


def test_the_same_batch_again_is_no_progress(broker: ScriptedBroker) -> None:
    first = Step(answer=fetched(batch(0, 2)))
    with pytest.raises(DecodeError, match="nothing from offset 2"):
        offsets(broker, first, forever=first)


@pytest.mark.parametrize(
    "leader",
    [
        *(MetadataResponseBroker(7, "", 0), MetadataResponseBroker(7, "127.0.0.1", 99_999)),
        *(MetadataResponseBroker(7, "127.0.0.1", -1), MetadataResponseBroker(7, "a" * 300, 9)),
        *(MetadataResponseBroker(7, "a..b\0", 9), MetadataResponseBroker(8, "127.0.0.1", 9)),
    ],
)
def test_a_leader_that_cannot_be_is_an_error_of_ours(
    broker: ScriptedBroker, leader: MetadataResponseBroker
) -> None:
    led = MetadataResponsePartition(partition_index=0, leader_id=7)
    topic = MetadataResponseTopic(name=TOPIC, partitions=(led,))
    wrong = MetadataResponse(brokers=(leader,), topics=(topic,))
    broker.script(ApiKey.METADATA, Step(answer=wrong), forever=True)
    with pytest.raises(GroupSdkError):
        offsets(broker, forever=Step(answer=ALL))


@pytest.mark.parametrize(
    "answer",
    [
        ListOffsetsResponse(),
        ListOffsetsResponse(topics=(ListOffsetsTopicResponse(TOPIC),)),
        ListOffsetsResponse(
            topics=(ListOffsetsTopicResponse(TOPIC, (ListOffsetsPartitionResponse(5, 0, -1, 9),)),)
        ),
    ],
)
def test_ends_that_are_left_out_are_missed(
    broker: ScriptedBroker, answer: ListOffsetsResponse
) -> None:
    broker.script(ApiKey.LIST_OFFSETS, Step(answer=answer), forever=True)
    with (
        TopicReader({"bootstrap.servers": broker.address}) as reader,
        pytest.raises(DecodeError, match="other partitions than the question"),
    ):
        reader.spans(TOPIC, [0])


def test_an_answer_that_is_cut_short_is_an_error_of_ours(broker: ScriptedBroker) -> None:
    with pytest.raises(GroupSdkError):
        offsets(broker, forever=Step(answer=ALL, garble=shortened(9).garble))


def test_read_from_an_offset_that_retention_deleted_is_a_data_loss(broker: ScriptedBroker) -> None:
    gone = fetched(None, error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
    begin = ListOffsetsTopicResponse(TOPIC, (ListOffsetsPartitionResponse(0, 0, -1, 3),))
    broker.script(ApiKey.LIST_OFFSETS, Step(answer=ListOffsetsResponse(topics=(begin,))))
    with pytest.raises(DataLossError, match="the log now begins at 3"):
        offsets(broker, Step(answer=gone))


def test_partition_that_does_not_exist_is_a_config_error(broker: ScriptedBroker) -> None:
    with (
        TopicReader({"bootstrap.servers": broker.address}) as reader,
        pytest.raises(ConfigError, match="has no partition 9"),
    ):
        reader.spans(TOPIC, [0, 9])
    with (
        TopicReader({"bootstrap.servers": broker.address}) as reader,
        pytest.raises(ConfigError, match="has no partition 9"),
    ):
        list(reader.read(TOPIC, 9, 0, 1))
