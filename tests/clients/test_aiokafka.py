"""Use the embedded broker through aiokafka: producer, group consumer, transactions, administration."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import ProducerFenced

from groupsdk.broker.embedded import EmbeddedBroker
from tests.support.workers import eventually


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


@asynccontextmanager
async def consumer_of(
    broker: EmbeddedBroker, *topics: str, **settings: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    """Starts a consumer that begins at the beginning, and stops it."""
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=30_000,
        heartbeat_interval_ms=200,
        **settings,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def producer_of(broker: EmbeddedBroker, **settings: Any) -> AsyncIterator[AIOKafkaProducer]:
    """Starts a producer, and stops it."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def taken(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    """Reads so many records; returns their values, sorted."""
    async with asyncio.timeout(60):
        return sorted([(await consumer.getone()).value for _ in range(count)])


@pytest.mark.parametrize("compression", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_records_of_aiokafka_are_read_back(
    broker: EmbeddedBroker, topic: str, group_id: str, compression: str | None
) -> None:
    async with producer_of(
        broker, enable_idempotence=True, compression_type=compression
    ) as producer:
        for number in range(100):
            await producer.send(topic, b"%d" % number, partition=number % 4)
        await producer.flush()
    async with consumer_of(broker, topic, group_id=group_id) as consumer:
        assert await taken(consumer, 100) == sorted(b"%d" % n for n in range(100))
        await consumer.commit()
    async with consumer_of(broker, topic, group_id=group_id) as consumer:
        for number in range(4):
            assert await consumer.committed(TopicPartition(topic, number)) == 25


@pytest.mark.parametrize("strategy", list(ASSIGNORS))
async def test_two_aiokafka_consumers_share_a_topic_and_one_takes_over(
    broker: EmbeddedBroker, topic: str, group_id: str, strategy: str
) -> None:
    settings = {
        "group_id": group_id,
        "partition_assignment_strategy": (ASSIGNORS[strategy],),
    }
    async with consumer_of(broker, topic, **settings) as first:
        async with consumer_of(broker, topic, **settings) as second:
            await asyncio.to_thread(
                eventually, lambda: len(first.assignment()) == len(second.assignment()) == 2
            )
        await asyncio.to_thread(eventually, lambda: len(first.assignment()) == 4)


async def test_aiokafka_transaction_carries_records_and_offsets_or_nothing(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    partition = TopicPartition(topic, 0)
    async with producer_of(broker, transactional_id=group_id) as producer:
        for number, keep in enumerate((True, False, True)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number, partition=0)
            await producer.send_offsets_to_transaction({partition: number + 1}, group_id)
            if keep:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()
        committed = {"isolation_level": "read_committed", "group_id": group_id}
        async with consumer_of(broker, **committed) as reader:
            reader.assign([partition])
            assert await reader.committed(partition) == 3
            reader.seek(partition, 0)
            assert await taken(reader, 2) == [b"0", b"2"]
        async with consumer_of(broker) as reader:
            reader.assign([partition])
            assert await taken(reader, 3) == [b"0", b"1", b"2"]

        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"lost", partition=0)
        async with producer_of(broker, transactional_id=group_id):
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()


async def test_aiokafka_admin_creates_and_describes_topics_and_groups(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    name = f"made-{group_id}"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, 2, 1)])
        await admin.create_partitions({name: NewPartitions(3)})
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 3
        await admin.delete_topics([name])
        assert name not in await admin.list_topics()
        async with consumer_of(broker, topic, group_id=group_id) as consumer:
            await asyncio.to_thread(eventually, lambda: len(consumer.assignment()) == 4)
            partition = TopicPartition(topic, 1)
            await consumer.commit({partition: (7, "m")})
            offsets = await admin.list_consumer_group_offsets(group_id)
            assert offsets[partition].offset == 7
            groups = await admin.list_consumer_groups()
            assert (group_id, "consumer") in [tuple(each)[:2] for each in groups]
    finally:
        await admin.close()
