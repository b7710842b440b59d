"""Groups of other clients, for the commands to look at: librdkafka's of both protocols, kafka-python's, and our own."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from typing_extensions import override

from groupsdk import AbstractCoordinator, GroupMembers, ProtocolMetadata
from tests.support.workers import eventually


def produce(servers: str, topic: str, counts: Mapping[int, int]) -> None:
    """Writes so many records to each partition."""
    producer = Producer({"bootstrap.servers": servers})
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(60) == 0


@contextmanager
def librdkafka(servers: str, group_id: str, topic: str, **settings: Any) -> Iterator[Consumer]:
    """A consumer of confluent-kafka with an assignment; `group_protocol="consumer"` for KIP-848."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **given,
        }
    )
    consumer.subscribe([topic])
    try:
        eventually(lambda: [consumer.poll(0.1)] and consumer.assignment())
        yield consumer
    finally:
        consumer.close()


@contextmanager
def crew(
    servers: str, group_id: str, topic: str, *settings: dict[str, Any]
) -> Iterator[list[Consumer]]:
    """A consumer for each of the settings, all in one group and each with an assignment."""
    consumers = [
        Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group_id,
                "enable.auto.commit": False,
                **each,
            }
        )
        for each in settings
    ]
    for consumer in consumers:
        consumer.subscribe([topic])

    def assigned() -> bool:
        for consumer in consumers:
            consumer.poll(0.05)
        return all(consumer.assignment() for consumer in consumers)

    try:
        eventually(assigned)
        yield consumers
    finally:
        for consumer in consumers:
            consumer.close()


@contextmanager
def kafka_python(servers: str, group_id: str, topic: str) -> Iterator[KafkaConsumer]:
    """A consumer of kafka-python with an assignment."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group_id,
        client_id="kafka-python-peer",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        # who leads before it knows the topic shares out nothing, and leaves it at that
        eventually(lambda: bool(consumer.partitions_for_topic(topic)))
        eventually(lambda: bool(consumer.poll(100)))
        yield consumer
    finally:
        consumer.close()


@contextmanager
def franz_go(program: Path, *arguments: str) -> Iterator[None]:
    """A peer of tests/kafka/go that has begun to read; `arguments` are those of its program."""
    with subprocess.Popen(
        [str(program), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.communicate("\n", timeout=60)  # which makes it leave
            process.kill()


class Shards(AbstractCoordinator):
    """A group with a protocol of its own: JSON both ways."""

    protocol_type = "shards"

    @override
    def metadata(self) -> list[ProtocolMetadata]:
        return [ProtocolMetadata("v1", json.dumps({"weight": 2}).encode())]

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        return {each: json.dumps({"shards": [1, 2]}).encode() for each in members}

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Nothing to start."""


@contextmanager
def own_protocol(servers: str, group_id: str) -> Iterator[Shards]:
    """A stable member of such a group."""
    member = Shards(bootstrap_servers=servers, group_id=group_id, client_id="ours")
    try:
        assert member.ensure_active_group(60)
        yield member
    finally:
        member.close()
