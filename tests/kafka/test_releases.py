"""Walk members and consumers through the releases of Apache Kafka, and see what an older broker lacks."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from groupsdk.consumer import GroupConsumer, SubscriptionPattern
from groupsdk.errors import FencedInstanceIdError, UnsupportedVersionError
from groupsdk.history.sources.topic_reader import TopicReader
from groupsdk.testing import LocalKafka
from tests.support.old_kafka import OldKafka
from tests.support.topics import create_topic
from tests.support.workers import (
    TIMEOUT_S,
    Driven,
    RecordingMember,
    WorkerProcess,
    await_active,
    await_stable,
    eventually,
)


pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

RELEASES: Final = ("2.1.1", "2.4.1", "2.8.2", "3.3.2", "3.6.2", "3.9.1", "4.0.0")
"""Besides those that all other tests use; Kafka's own clients of 4.x go back to 2.1 as well (KIP-896)."""


def _started(version: str) -> AbstractContextManager[Any]:
    if _number(version) >= (3, 3):
        return LocalKafka(version=version)
    return OldKafka(version, scala="2.12" if _number(version) < (2, 4) else "2.13")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest, kafka_installed: None) -> Iterator[tuple[Any, str]]:
    """Each release in turn: its first two numbers, and where its broker is."""
    with _started(request.param) as kafka:
        yield _number(request.param), kafka.bootstrap_servers


Release = tuple[tuple[int, ...], str]


def test_members_come_lead_die_and_leave(release: Release, group_id: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": release[1], "group_id": group_id}
    with (
        Driven(RecordingMember(**settings)) as first,
        Driven(RecordingMember(**settings)) as second,
    ):
        before = await_stable(first, second)
        with WorkerProcess(tmp_path / "ledger", **settings, session_timeout_ms=2_000) as third:
            eventually(lambda: first.member.assignment.get("size") == 3)
            third.kill()
            eventually(lambda: first.member.assignment.get("size") == 2)
        first.close()
        eventually(lambda: second.member.assignment.get("size") == 1)
        assert await_stable(second) > before
        assert not first.errors
        assert not second.errors


def test_static_members_need_2_3(release: Release, group_id: str) -> None:
    def static() -> RecordingMember:
        return RecordingMember(
            bootstrap_servers=release[1], group_id=group_id, group_instance_id="one"
        )

    if release[0] < (2, 3):
        with static() as member, pytest.raises(UnsupportedVersionError, match=r"from 2\.3 on"):
            member.ensure_active_group(TIMEOUT_S)
        return
    with Driven(static()) as older:
        generation = await_stable(older)
        older.close()
    with Driven(static()) as again:
        assert await_active(again) == generation
        # before KIP-814 nobody tells a leader that came back that it is one
        assert again.member.snapshot().is_leader is (release[0] >= (3, 2))
        with Driven(static()) as newer:
            await_active(newer)
            eventually(lambda: again.errors)
        assert isinstance(again.errors[0], FencedInstanceIdError)


def test_consumers_of_two_libraries_share_a_group_cooperatively(
    release: Release, group_id: str
) -> None:
    servers: dict[str, Any] = {"bootstrap.servers": release[1]}
    create_topic(release[1], group_id, 4)
    settings: dict[str, Any] = {
        **servers,
        "group.id": group_id,
        "partition.assignment.strategy": "cooperative-sticky",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 200,
    }
    theirs = Consumer(settings)
    theirs.subscribe([group_id])
    with GroupConsumer(settings) as ours:
        ours.subscribe([group_id])

        def shares() -> bool:
            theirs.poll(0.05)
            ours.poll(0.05)
            return len(ours.assignment()) == len(theirs.assignment()) == 2

        eventually(shares)
        theirs.close()
        eventually(lambda: (ours.poll(0.1), len(ours.assignment()) == 4)[1])
        producer = Producer({**servers, "transactional.id": group_id})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        offsets = [TopicPartition(group_id, 0, 7)]
        producer.send_offsets_to_transaction(offsets, ours.snapshot().to_confluent(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        reader = Consumer(settings)
        # before KIP-447 a read of offsets does not wait for the transaction's end
        eventually(lambda: reader.committed(offsets, TIMEOUT_S)[0].offset == 7)
        reader.close()


@pytest.mark.parametrize("protocol", ["auto", "consumer"])
def test_a_pattern_of_the_broker_needs_4_0(release: Release, group_id: str, protocol: Any) -> None:
    servers = release[1]
    create_topic(servers, group_id)
    with GroupConsumer(
        bootstrap_servers=servers, group_id=group_id, group_protocol=protocol
    ) as consumer:
        consumer.subscribe(SubscriptionPattern(f"{group_id}.*"))
        if release[0] >= (4, 0):
            eventually(lambda: (consumer.poll(0.1), consumer.assignment())[1])
            return
        with pytest.raises(UnsupportedVersionError, match=r"needs Apache Kafka 4\.0.*re\.compile"):
            consumer.poll(TIMEOUT_S)
        consumer.subscribe(re.compile(f"^{group_id}"))
        if protocol == "auto":
            eventually(lambda: (consumer.poll(0.1), consumer.assignment())[1])


def test_the_history_reads_the_log_of_groups(release: Release, group_id: str) -> None:
    servers = {"bootstrap.servers": release[1]}
    with Driven(RecordingMember(bootstrap_servers=release[1], group_id=group_id)) as member:
        await_stable(member)
    with TopicReader(servers) as reader:
        (span,) = reader.spans("__consumer_offsets", [0]).values()
        read = list(reader.read("__consumer_offsets", 0, span.start, span.end))
        assert any(group_id.encode() in each.records.data for each in read)
        assert ("__consumer_offsets" in reader.topic_ids().values()) is (release[0] >= (2, 8))
