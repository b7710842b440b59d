"""Topics of a broker that is asked through the client of Confluent."""

from collections.abc import Mapping

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.workers import eventually


def create_topic(
    address: str,
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    config: dict[str, str] | None = None,
) -> None:
    """Create a topic, as soon as enough brokers are there: one that has just stalled is fenced for a moment."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})

    def created() -> bool:
        new = NewTopic(name, partitions, replicas, config=config or {})
        try:
            admin.create_topics([new])[name].result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    eventually(created)
    # created by the controller, and known to the broker a moment later
    eventually(lambda: name in admin.list_topics(timeout=60).topics)


def write_records(address: str, topic: str, counts: Mapping[int, int]) -> None:
    """Write some short records into each of some partitions."""
    producer = Producer({"bootstrap.servers": address})
    for partition, count in counts.items():
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(60) == 0


def read_records(address: str, topic: str, count: int) -> list[Message]:
    """Wait for the first records of partition 0; those of transactions once they are committed."""
    reader = Consumer({"bootstrap.servers": address, "group.id": "reader", "log_level": 0})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []

    def read() -> bool:
        found.extend(each for each in reader.consume(count - len(found), 1.0) if not each.error())
        return len(found) == count

    try:
        eventually(read, lambda: f"{len(found)} of {count} records")
    finally:
        reader.close()
    return found
