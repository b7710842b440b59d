"""Makes clients of confluent-kafka, and takes records with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, Message, Producer

from tests.support.workers import eventually


TIMEOUT_S: Final = 60.0


class Served(Protocol):
    """A broker, ours or a real Kafka."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses to begin with."""


def producer_of(broker: Served, **settings: Any) -> Producer:
    """Makes a producer; a setting's name has `_` for `.`."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, **given})


@contextmanager
def consumer_of(broker: Served, group_id: str, **settings: Any) -> Iterator[Consumer]:
    """Makes a consumer that starts at the beginning, and closes it."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": 30_000,
            **given,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def taken(consumer: Consumer, count: int, timeout_s: float = TIMEOUT_S) -> list[Message]:
    """Polls until so many records were read."""
    messages: list[Message] = []

    def enough() -> bool:
        messages.extend(consumer.consume(count - len(messages), 0.1))
        return len(messages) >= count

    eventually(enough, lambda: f"{len(messages)} of {count} records", timeout_s)
    for message in messages:
        assert message.error() is None
    return messages


def values(messages: list[Message]) -> list[bytes]:
    """Sorts the values of records."""
    return sorted(message.value() or b"" for message in messages)
