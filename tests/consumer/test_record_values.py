"""Test that records come whatever is in them: every one that librdkafka's own consumer reads, once, in each way of reading."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from tests.support.topics import create_topic


VALUES = (b"first", None, b"", b"\x00", b"x" * 100_000, None, b"last")
KEYS = (None, b"", b"key")
HEADERS: tuple[Any, ...] = ([], [("h", None), ("h", b""), ("", b"x")])
COUNT = len(VALUES) * len(KEYS) * len(HEADERS)


@pytest.fixture(scope="module")
def topic(servers: str) -> str:
    name = "records-of-all-kinds"
    create_topic(servers, name)
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer = Producer({"bootstrap.servers": servers})
    for headers in HEADERS:
        for key in KEYS:
            for value in VALUES:
                producer.produce(name, value, key, headers=headers, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert errors == [None] * COUNT
    return name


def content(messages: Sequence[Message]) -> list[tuple[Any, ...]]:
    assert [message.error() for message in messages] == [None] * len(messages)
    return [
        (each.offset(), each.key(), each.value(), each.headers(), each.timestamp())
        for each in messages
    ]


def settings(servers: str, group_id: str, protocol: str = "classic") -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "group.id": group_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }


def read_by_librdkafka(servers: str, group_id: str, topic: str) -> list[tuple[Any, ...]]:
    peer = Consumer(settings(servers, f"{group_id}-peer"))
    peer.subscribe([topic])
    messages: list[Message] = []
    while len(messages) < COUNT:
        messages += peer.consume(COUNT - len(messages), 1)
    peer.close()
    return content(messages)


def poll(consumer: GroupConsumer) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < COUNT:
        message = consumer.poll(1)
        if message is not None:
            messages.append(message)
    return messages


def iterate(consumer: GroupConsumer) -> list[Message]:
    return list(islice(consumer, COUNT))


def consume(consumer: GroupConsumer, at_once: int = 3) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < COUNT:
        messages += consumer.consume(min(at_once, COUNT - len(messages)), 1)
    return messages


def consume_each(consumer: GroupConsumer) -> list[Message]:
    return consume(consumer, at_once=1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("read", [poll, iterate, consume, consume_each])
def test_records_with_and_without_values_all_come_once(
    servers: str, topic: str, group_id: str, read: Any, protocol: str
) -> None:
    with GroupConsumer(settings(servers, group_id, protocol)) as consumer:
        consumer.subscribe([topic])
        assert content(read(consumer)) == read_by_librdkafka(servers, group_id, topic)
        assert consumer.consume(1, 0.2) == []
        consumer.commit(asynchronous=False)
        (committed,) = consumer.committed(consumer.assignment())
        assert committed.offset == COUNT


def test_the_asyncio_form_reads_them_too(servers: str, topic: str, group_id: str) -> None:
    async def read() -> list[Message]:
        messages: list[Message] = []
        async with AsyncGroupConsumer(settings(servers, group_id)) as consumer:
            await consumer.subscribe([topic])
            while len(messages) < COUNT // 2:
                message = await consumer.poll(1)
                if message is not None:
                    messages.append(message)
            async for message in consumer:
                messages.append(message)
                if len(messages) == COUNT:
                    return messages
        return messages

    assert content(asyncio.run(read())) == read_by_librdkafka(servers, group_id, topic)
