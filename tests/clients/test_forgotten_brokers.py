"""Test that clients of librdkafka that have forgotten all brokers (its issue 5301) are noticed and replaced.

librdkafka forgets the brokers that a Metadata response does not list. Here the broker lists none for a moment, as one of
Kafka's may that shuts down. Some clients connect to `bootstrap.servers` again after that, and some never do.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaException, Message, Producer
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server.handlers import metadata
from groupsdk.consumer import GroupConsumer, reader, transactions
from groupsdk.consumer.transactions import Transaction, TransactionLoop
from groupsdk.errors import TransactionFatalError
from tests.support.consumers import PROTOCOLS


pytestmark = pytest.mark.timeout(180)

QUICK = {"topic.metadata.refresh.interval.ms": 100}


class Listing:
    """Whether the broker lists any broker in its Metadata responses."""

    def __init__(self, mocker: MockerFixture) -> None:
        self.hidden = False
        brokers = metadata._brokers

        def listed(call: Any) -> list[Any]:
            return [] if self.hidden else brokers(call)

        mocker.patch.object(metadata, "_brokers", listed)


@pytest.fixture
def listing(mocker: MockerFixture) -> Listing:
    """Let a test hide the brokers."""
    return Listing(mocker)


def write(broker: EmbeddedBroker, topic: str, values: range) -> None:
    """Write numbers to all partitions in turn, with a producer of their own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % 4)
    assert producer.flush(30) == 0


def numbers(batch: list[Message]) -> Iterator[int]:
    """Return what `write` has written."""
    for message in batch:
        error = message.error()
        if error is None:
            yield int(message.value() or b"")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_consumer_reads_on_at_its_positions_with_another_client(
    broker: EmbeddedBroker,
    topic: str,
    group_id: str,
    protocol: str,
    listing: Listing,
    mocker: MockerFixture,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mocker.patch.object(reader, "_CALM_MS", 200)
    mocker.patch.object(reader, "_SUSPECT_MS", 200)
    chance = Random(1)
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **QUICK,
    }
    got: list[int] = []
    written = 0
    with GroupConsumer(settings) as consumer, caplog.at_level(logging.WARNING):
        consumer.subscribe(topic)
        while "librdkafka reaches no broker any more" not in caplog.text:
            write(broker, topic, range(written, written + 8))
            written += 8
            while len(got) < written:
                got += numbers(consumer.consume(100, 0.1))
            listing.hidden = True
            for _ in range(chance.randrange(1, 20)):
                consumer.consume(100, 0.1)
            listing.hidden = False
        write(broker, topic, range(written, written + 8))
        while len(got) < written + 8:
            got += numbers(consumer.consume(100, 0.1))
    assert sorted(got) == list(range(written + 8)), "each once: nothing is committed to go back to"


def test_transaction_loop_ends_with_a_producer_that_has_forgotten_all_brokers(
    broker: EmbeddedBroker, topic: str, group_id: str, listing: Listing, mocker: MockerFixture
) -> None:
    mocker.patch.object(transactions, "_TRY_S", 1.0)
    mocker.patch.object(transactions, "_LOST_S", 5.0)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": group_id,
            "topic.metadata.refresh.interval.ms": 100,
            "metadata.recovery.strategy": "none",  # or it finds them again at times
        }
    )
    write(broker, topic, range(8))
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }

    def fail_in_an_outage(records: Sequence[Message], transaction: Transaction) -> None:
        for each in records:
            transaction.produce(f"copy-{topic}", value=each.value())
        producer.flush(30)
        listing.hidden = True
        with suppress(KafkaException):
            while producer.list_topics(timeout=0.1).brokers:
                pass
        listing.hidden = False
        raise ValueError("abort it")

    with GroupConsumer(settings) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(TransactionFatalError, match="forgotten all of them"):
            TransactionLoop(consumer, producer, fail_in_an_outage).run()
