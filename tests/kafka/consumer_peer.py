"""Be a consumer of another Python library: `python -m tests.kafka.consumer_peer LIBRARY SERVERS GROUP TOPIC ASSIGNOR`.

It polls until its input has a line or ends, then leaves and tells "left".
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any


def librdkafka(servers: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    """Consume with confluent-kafka's own membership."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        consumer.poll(0.05)
    consumer.close()


def librdkafka_next(
    servers: str, group: str, topic: str, assignor: str, stop: threading.Event
) -> None:
    """Consume as a member of the consumer protocol (KIP-848), and tell "owns 0,1" and "record PARTITION OFFSET"."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "group.remote.assignor": assignor,
            "auto.commit.interval.ms": 200,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    owned: set[int] = set()
    while not stop.is_set():
        for message in consumer.consume(100, 0.05):
            error = message.error()
            if error is None:
                print("record", message.partition(), message.offset(), flush=True)
            else:
                print(error.name().strip("_"), flush=True)
        now = {each.partition for each in consumer.assignment()}
        if now != owned:
            owned = now
            print("owns", ",".join(map(str, owned)), flush=True)
    consumer.close()


def kafka_python(
    servers: str, group: str, topic: str, assignor: str, stop: threading.Event
) -> None:
    """Consume with kafka-python."""
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors: dict[str, Any] = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        partition_assignment_strategy=[assignors[assignor]],
        session_timeout_ms=30_000,
        heartbeat_interval_ms=200,
    )
    # Asks for the partitions before the first join. kafka-python 3.0.12 that leads joins again once it knows
    # them, and where a poll ends before that join does, it forgets the join and never heartbeats again.
    consumer.partitions_for_topic(topic)
    while not stop.is_set():
        consumer.poll(timeout_ms=50)
    consumer.close()


def aiokafka(servers: str, group: str, topic: str, assignor: str, stop: threading.Event) -> None:
    """Consume with aiokafka."""
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors: dict[str, Any] = {
        "range": (RangePartitionAssignor,),
        "roundrobin": (RoundRobinPartitionAssignor,),
        "sticky": (StickyPartitionAssignor,),
        # of several it sends a join each, the first with only the first one
        "range and roundrobin": (RangePartitionAssignor, RoundRobinPartitionAssignor),
    }

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            partition_assignment_strategy=assignors[assignor],
            session_timeout_ms=30_000,
            heartbeat_interval_ms=200,
            metadata_max_age_ms=2_000,
        )
        await consumer.start()
        while not stop.is_set():
            await consumer.getmany(timeout_ms=50)
        await consumer.stop()

    asyncio.run(run())


LIBRARIES: dict[str, Callable[[str, str, str, str, threading.Event], None]] = {
    "librdkafka": librdkafka,
    "librdkafka-next": librdkafka_next,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


def main() -> None:
    """Consume until the input says otherwise."""
    library, *arguments = sys.argv[1:]
    stop = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        stop.set()

    threading.Thread(target=listen, daemon=True).start()
    print("ready", flush=True)
    servers, group, topic, assignor = arguments
    LIBRARIES[library](servers, group, topic, assignor, stop)
    print("left", flush=True)


if __name__ == "__main__":
    main()
