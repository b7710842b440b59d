"""Tests what is asked of committed offsets."""

from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.handlers import offsets
from groupsdk.wire.messages.connection import ApiVersionsRequest
from groupsdk.wire.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from groupsdk.wire.records.batch import batches
from tests.broker.clients import Client, committed_offsets, connect


STRANGE = UUID(int=77)
"""The id of no topic."""


def commit(client: Client, *places: tuple[str, int, int], version: int = 8) -> list[int]:
    """Commits offsets without being a member; returns the errors."""
    topics = tuple(
        OffsetCommitRequestTopic(
            topic, partitions=(OffsetCommitRequestPartition(partition, offset),)
        )
        for topic, partition, offset in places
    )
    answer = client.ask(OffsetCommitRequest("g", topics=topics), version)
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def test_every_version_commits_and_fetches(client: Client) -> None:
    for version in range(2, 10):
        assert commit(client, ("t", 0, version), version=version) == [0]
    for version in range(1, 8):
        old = OffsetFetchRequest("g", (OffsetFetchRequestTopic("t", (0, 1)),))
        found = client.ask(old, version).topics[0].partitions
        assert [each.committed_offset for each in found] == [9, -1]
    for version in range(8, 10):
        group = OffsetFetchRequestGroup(
            "g", topics=(OffsetFetchRequestTopics("t", partition_indexes=(0,)),)
        )
        new = client.ask(OffsetFetchRequest(groups=(group,)), version).groups[0]
        assert new.topics[0].partitions[0].committed_offset == 9


def test_only_partitions_that_exist_can_be_committed(
    broker: EmbeddedBroker, client: Client
) -> None:
    assert commit(client, ("t", 0, 5), ("t", 3, 5), ("none", 0, 5), ("t", 1, 6)) == [0, 3, 3, 0]
    assert commit(client, ("t", -1, 5)) == [3]
    stored = committed_offsets(broker, "g")
    assert {place: each.offset for place, each in stored.items()} == {("t", 0): 5, ("t", 1): 6}


def test_a_commit_of_thousands_of_topics_is_checked_in_steps_and_written_at_once(
    broker: EmbeddedBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    check = offsets._refused

    def counted(call: Any, topics: Any, *, by_id: bool = False) -> Any:
        checked.append(len(topics))
        return check(call, topics, by_id=by_id)

    commit(client, ("t", 0, 1))
    monkeypatch.setattr(offsets, "_refused", counted)
    missing = [(f"none-{number:020}", 0, 5) for number in range(5_000)]
    errors = commit(client, *missing[:2_000], ("t", 0, 5), *missing[2_000:], ("t", 1, 6))
    assert errors == [3] * 2_000 + [0] + [3] * 3_000 + [0]
    assert sum(checked) == 5_002
    assert max(checked) <= 256

    stored = committed_offsets(broker, "g")
    assert {place: each.offset for place, each in stored.items()} == {("t", 0): 5, ("t", 1): 6}


def test_a_commit_of_thousands_of_partitions_of_a_topic_is_answered_as_one_topic(
    broker: EmbeddedBroker, client: Client, mocker: MockerFixture
) -> None:
    broker.create_topic("wide", partitions=6_000)
    checked = mocker.spy(offsets, "_refused")
    written = mocker.spy(OffsetMetadataManager, "_write")
    for count in (6_000, 6_010):
        checked.reset_mock()
        written.reset_mock()
        wide, t = (
            OffsetCommitRequestTopic(
                name,
                partitions=tuple(OffsetCommitRequestPartition(each, each) for each in range(most)),
            )
            for name, most in (("wide", count), ("t", 2))
        )
        answer = client.ask(OffsetCommitRequest("g", topics=(wide, t)), 8)
        assert [
            (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
            for topic in answer.topics
        ] == [
            ("wide", [(each, 0 if each < 6_000 else 3) for each in range(count)]),
            ("t", [(0, 0), (1, 0)]),
        ]
        for spied, place in ((checked, 1), (written, 2)):
            topics = [call.args[place] for call in spied.call_args_list]
            parts = [
                each.partitions for some in topics for each in (some if place == 1 else [some])
            ]
            assert max(map(len, parts)) <= 256
    stored = committed_offsets(broker, "g")
    assert {place: each.offset for place, each in stored.items()} == {
        **{("wide", each): each for each in range(6_000)},
        **{("t", each): each for each in range(2)},
    }


def test_several_groups_are_fetched_at_once(client: Client) -> None:
    commit(client, ("t", 0, 5))
    groups = tuple(OffsetFetchRequestGroup(each, topics=None) for each in ("g", "none"))
    found = client.ask(OffsetFetchRequest(groups=groups), 8).groups
    assert [(each.group_id, len(each.topics)) for each in found] == [("g", 1), ("none", 0)]


def test_offsets_are_deleted(client: Client) -> None:
    commit(client, ("t", 0, 5), ("t", 1, 5))
    partitions = (OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9))
    asked = OffsetDeleteRequest("g", (OffsetDeleteRequestTopic("t", partitions),))
    answer = client.ask(asked, 0)
    assert [each.error_code for each in answer.topics[0].partitions] == [0, 3]
    group = OffsetFetchRequestGroup("g", topics=None)
    left = client.ask(OffsetFetchRequest(groups=(group,)), 8).groups[0]
    assert [each.partition_index for each in left.topics[0].partitions] == [1]
    missing = OffsetDeleteRequest("none", asked.topics)
    assert client.ask(missing, 0).error_code == 69


def test_offsets_go_with_their_topic(broker: EmbeddedBroker, client: Client) -> None:
    broker.create_topic("gone")
    commit(client, ("t", 0, 5), ("gone", 0, 5))
    broker.delete_topic("gone")
    stored = committed_offsets(broker, "g")
    assert list(stored) == [("t", 0)]


def test_commits_of_many_connections_become_fewer_batches(broker: EmbeddedBroker) -> None:
    topics = [
        (OffsetCommitRequestTopic("t", partitions=(OffsetCommitRequestPartition(0, number),)),)
        for number in range(12)
    ]
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in topics]
        assert commit(clients[0], ("t", 1, 99)) == [0]
        sent = []

        def send_all() -> None:
            # from the loop's own thread, so that all of them are there when it looks next
            for client, each in zip(clients, topics, strict=True):
                sent.append(client.send(OffsetCommitRequest("g", topics=each), 8))

        broker._on_loop(send_all)
        for client, each, asked in zip(clients, topics, sent, strict=True):
            answer = client.answer(OffsetCommitRequest("g", topics=each), asked)
            assert [e.error_code for topic in answer.topics for e in topic.partitions] == [0]

    def batches_written() -> list[int]:
        cluster = broker._running().cluster
        partition = cluster.groups.partition_for("g")
        log = cluster.log("__consumer_offsets", partition)
        data = log.read(0, 1_000_000, committed=False).data
        return [header.records_count for header, _ in batches(data)]

    written = broker._on_loop(batches_written)
    assert sum(written) == 13
    assert len(written) < 13
    stored = committed_offsets(broker, "g")
    assert set(stored) == {("t", 0), ("t", 1)}


def test_offsets_are_committed_and_fetched_by_topic_id(
    broker: EmbeddedBroker, client: Client
) -> None:
    def topic_id() -> UUID:
        return broker._running().cluster.catalogue.topics["t"].topic_id

    known = broker._on_loop(topic_id)
    partitions = (OffsetCommitRequestPartition(0, 5), OffsetCommitRequestPartition(9, 5))
    topics = tuple(
        OffsetCommitRequestTopic(topic_id=each, partitions=partitions) for each in (known, STRANGE)
    )
    answer = client.ask(OffsetCommitRequest("g", topics=topics), 10)
    codes = {each.topic_id: [p.error_code for p in each.partitions] for each in answer.topics}
    assert codes == {known: [0, 3], STRANGE: [100, 100]}

    asked = tuple(
        OffsetFetchRequestTopics(topic_id=each, partition_indexes=(0, 1))
        for each in (known, STRANGE)
    )
    groups = (OffsetFetchRequestGroup("g", topics=asked), OffsetFetchRequestGroup("h", topics=None))
    found, none = client.ask(OffsetFetchRequest(groups=groups), 10).groups
    assert none.topics == ()
    told = {
        each.topic_id: [(p.committed_offset, p.error_code) for p in each.partitions]
        for each in found.topics
    }
    assert told == {known: [(5, 0), (-1, 0)], STRANGE: [(-1, 100), (-1, 100)]}
    group = OffsetFetchRequestGroup("g", topics=None)
    every = client.ask(OffsetFetchRequest(groups=(group,)), 10).groups[0].topics
    assert [(each.topic_id, len(each.partitions)) for each in every] == [(known, 1)]
    stored = committed_offsets(broker, "g")
    assert stored["t", 0].topic_id == known


def test_topic_ids_in_transactions_are_of_kafka_4_4(client: Client) -> None:
    topics = (TxnOffsetCommitRequestTopic(topic_id=STRANGE, partitions=()),)
    with EmbeddedBroker({"group.consumer.release": "4.4"}) as newer, connect(newer) as other:
        for connection, newest in ((client, 5), (other, 6)):
            served = connection.ask(ApiVersionsRequest("c", "1"), 4).api_keys
            assert {each.max_version for each in served if each.api_key == 28} == {newest}
        assert other.ask(TxnOffsetCommitRequest("x", "g", topics=topics), 6).topics
    client.send(TxnOffsetCommitRequest("x", "g", topics=topics), 6)
    assert client.is_closed()
