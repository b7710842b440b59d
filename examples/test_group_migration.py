"""Test that consumers go over to the new group protocol (KIP-848) one by one, and back, while they read.

Copy it into your tests, and put your consumers' own settings into SETTINGS:

    pytest examples/test_group_migration.py
"""

from collections.abc import Callable
from time import perf_counter

import pytest
from confluent_kafka import Consumer, Producer

from groupsdk.broker.embedded import EmbeddedBroker


GROUP, TOPIC, PARTITIONS, RECORDS = "billing", "orders", 6, 120
SETTINGS: dict[str, str | int | float | bool] = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
}
TIMEOUT_S = 60.0


class Consumers:
    """The consumers of the group, and what they have read."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.running: list[Consumer] = []
        self.read: list[bytes | None] = []

    def start(self, protocol: str) -> Consumer:
        """Starts a consumer that speaks one of the protocols."""
        servers = {"bootstrap.servers": self.broker.bootstrap_servers}
        consumer = Consumer({**SETTINGS, **servers, "group.protocol": protocol})
        consumer.subscribe([TOPIC])
        self.running.append(consumer)
        return consumer

    def stop(self, consumer: Consumer) -> None:
        """Closes a consumer, as a deployment does."""
        self.running.remove(consumer)
        consumer.close()

    def until(self, condition: Callable[[], bool]) -> None:
        """Lets all of them read and commit until something is so."""
        end = perf_counter() + TIMEOUT_S
        while not condition():
            assert perf_counter() < end, self.broker.groups[GROUP]
            for each in self.running:
                message = each.poll(0.02)
                if message is not None and message.error() is None:
                    self.read.append(message.value())
                    each.commit(message=message, asynchronous=False)

    def shared_by(self, size: int) -> bool:
        """Returns whether so many consumers have all partitions, each of them one owner."""
        owned = [[each.partition for each in one.assignment()] for one in self.running]
        every = sorted(partition for shares in owned for partition in shares)
        return len(owned) == size and all(owned) and every == list(range(PARTITIONS))


@pytest.mark.kafka_broker(topics={TOPIC: PARTITIONS})
def test_the_group_goes_over_and_back(kafka_broker: EmbeddedBroker) -> None:
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    consumers = Consumers(kafka_broker)

    def migrate(protocol: str) -> None:
        for old in list(consumers.running):
            consumers.start(protocol)
            consumers.until(lambda: consumers.shared_by(3))
            consumers.stop(old)
            consumers.until(lambda: consumers.shared_by(2))

    for _ in range(2):
        consumers.start("classic")
    consumers.until(lambda: consumers.shared_by(2))
    assert kafka_broker.classic_group(GROUP) is not None

    for number in range(RECORDS):
        producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(TIMEOUT_S) == 0

    migrate("consumer")
    group = kafka_broker.consumer_group(GROUP)
    assert group is not None
    assert not any(member.is_classic for member in group.members.values())

    migrate("classic")
    assert kafka_broker.classic_group(GROUP) is not None

    consumers.until(lambda: len(set(consumers.read)) == RECORDS)
    for each in list(consumers.running):
        consumers.stop(each)
