"""Tests topics being made, grown and deleted, and records deleted."""

from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.broker.clients import Client, batch, connect, end_offset, produce


def create(client: Client, name: str = "n", version: int = 7, **more: Any) -> CreatableTopicResult:
    given = {"num_partitions": 2, "replication_factor": 1, **more}
    return client.ask(CreateTopicsRequest((CreatableTopic(name, **given),)), version).topics[0]


def test_every_version_creates_topics(broker: EmbeddedBroker, client: Client) -> None:
    for version in range(2, 8):
        name = f"v{version}"
        configs = (CreatableTopicConfig("cleanup.policy", "compact"),)
        result = create(client, name, version, configs=configs)
        assert result.error_code == 0
        assert broker.leader(name, 1) == 1
        if version >= 5:
            shown = {each.name: each.value for each in result.configs or ()}
            assert shown["cleanup.policy"] == "compact"
            assert result.num_partitions == 2


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"name": "t"}, 36),
        ({"name": "a b"}, 17),
        ({"name": ""}, 17),
        ({"num_partitions": 0}, 37),
        ({"num_partitions": 10_001}, 44),
        ({"num_partitions": 2**31 - 1}, 44),
        ({"replication_factor": 2}, 38),
        ({"replication_factor": 0}, 38),
        ({"configs": (CreatableTopicConfig("no.such", "1"),)}, 40),
        ({"configs": (CreatableTopicConfig("retention.ms", "soon"),)}, 40),
        ({"assignments": (CreatableReplicaAssignment(0, (1,)),)}, 42),
    ],
)
def test_topics_that_cannot_be(client: Client, more: dict[str, Any], error: int) -> None:
    assert create(client, **more).error_code == error


def test_defaults_assignments_and_trial_runs(client: Client) -> None:
    assert create(client, "d", num_partitions=-1, replication_factor=-1).num_partitions == 1
    placed = {"num_partitions": -1, "replication_factor": -1}
    good = (CreatableReplicaAssignment(0, (1,)), CreatableReplicaAssignment(1, (1,)))
    assert create(client, "a", assignments=good, **placed).num_partitions == 2
    gap = (CreatableReplicaAssignment(1, (1,)),)
    assert create(client, "b", assignments=gap, **placed).error_code == 39
    for brokers, text in (
        (
            (9,),
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ((1, 1), "The manual partition assignment includes the broker 1 more than once."),
        ((), "The manual partition assignment includes an empty replica list."),
    ):
        wrong = (CreatableReplicaAssignment(0, brokers),)
        result = create(client, "b", assignments=wrong, **placed)
        assert (result.error_code, result.error_message) == (39, text)
    trial = CreateTopicsRequest((CreatableTopic("x", 1, 1),), validate_only=True)
    assert client.ask(trial, 7).topics[0].error_code == 0
    assert create(client, "x").error_code == 0


def test_a_name_may_be_asked_for_once(client: Client) -> None:
    twice = CreateTopicsRequest((CreatableTopic("x", 1, 1), CreatableTopic("x", 1, 1)))
    (result,) = client.ask(twice, 7).topics
    assert result.error_code == 42
    assert create(client, "a.b").error_code == 0
    assert create(client, "a_b").error_code == 17


def test_topics_are_deleted_by_name_and_id(broker: EmbeddedBroker, client: Client) -> None:
    made = create(client, "x")
    produce(client, "t", batch(b"v"))
    assert (
        client.ask(DeleteTopicsRequest(topic_names=("t", "none")), 5).responses[1].error_code == 3
    )
    assert broker.leader("t", 0) is None
    by_id = DeleteTopicsRequest((DeleteTopicState(topic_id=made.topic_id),))
    assert client.ask(by_id, 6).responses[0].name == "x"
    assert client.ask(by_id, 6).responses[0].error_code == 100
    # a topic of the same name starts anew
    assert create(client, "t").error_code == 0
    assert end_offset(client, "t") == 0


def test_a_topic_placed_by_hand_after_a_failed_deletion_keeps_its_records(
    broker: EmbeddedBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(client, "t", batch(b"old"))
    rename = MemoryFiles.rename

    def fail(files: MemoryFiles, source: str, target: str, *, sync: bool = True) -> None:
        if source.endswith("/t-0"):
            raise OSError(5, "Input/output error", source)
        rename(files, source, target, sync=sync)

    monkeypatch.setattr(MemoryFiles, "rename", fail)
    (deleted,) = client.ask(DeleteTopicsRequest(topic_names=("t",)), 5).responses
    assert deleted.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    monkeypatch.undo()

    placed = (CreatableReplicaAssignment(0, (1,)),)
    made = create(client, "t", num_partitions=-1, replication_factor=-1, assignments=placed)
    assert made.error_code == 0
    produce(client, "t", batch(b"new"))
    assert end_offset(client, "t") == 1
    # a start removes the records of deleted topics, which this one is no more
    broker.restart()
    with connect(broker) as again:
        assert end_offset(again, "t") == 1


def test_a_topic_to_delete_is_named_in_one_way(broker: EmbeddedBroker, client: Client) -> None:
    (made,) = client.ask(MetadataRequest((MetadataRequestTopic(name="t"),)), 12).topics
    for unclear in (DeleteTopicState(None), DeleteTopicState("t", made.topic_id)):
        asked = DeleteTopicsRequest((unclear,))
        assert client.ask(asked, 6).responses[0].error_code == 42
    assert broker.leader("t", 0) == 1


def test_some_topics_stay() -> None:
    with (
        EmbeddedBroker(delete_topic_enable=False, topics=["t"]) as broker,
        connect(broker) as client,
    ):
        assert client.ask(DeleteTopicsRequest(topic_names=("t",)), 5).responses[0].error_code == 73


def test_create_partitions_grows_a_topic(broker: EmbeddedBroker, client: Client) -> None:
    def grow(name: str, count: int) -> int:
        asked = CreatePartitionsRequest((CreatePartitionsTopic(name, count, None),))
        return client.ask(asked, 3).results[0].error_code

    assert grow("t", 5) == 0
    assert broker.leader("t", 4) == 1
    assert produce(client, "t", batch(b"v"), partition=4).error_code == 0
    assert grow("t", 5) == 37
    assert grow("t", 4) == 37
    assert grow("none", 4) == 3
    assert grow("t", 2**31 - 1) == 44
    broker.coordinator("g")
    assert grow("__consumer_offsets", 60) == 42


def test_records_are_deleted(client: Client) -> None:
    produce(client, "t", batch(b"a", b"b"))

    def delete(offset: int, partition: int = 0, topic: str = "t") -> tuple[int, int]:
        wanted = (DeleteRecordsTopic(topic, (DeleteRecordsPartition(partition, offset),)),)
        found = client.ask(DeleteRecordsRequest(wanted), 2).topics[0].partitions[0]
        return found.error_code, found.low_watermark

    assert delete(1) == (0, 1)
    assert delete(5) == (1, -1)
    assert delete(-1) == (0, 2)
    assert delete(0, partition=9) == (3, -1)
