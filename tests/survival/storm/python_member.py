"""One member of the storm with a Python library: `python -m tests.survival.storm.python_member LIBRARY PROTOCOL SERVERS GROUP TOPIC NAME`.

It reads, commits what it has read, and writes each step as a line of JSON to its output, until SIGTERM lets it leave.
The metadata of each commit says who made it, and which one it was: "NAME/7".
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol


SESSION_MS: Final = 6_000
HEARTBEAT_MS: Final = 500
_POLL_S: Final = 0.1
_RECORDS: Final = 50

Offsets = Mapping[int, int]
"""The offset to read next, by partition."""


class Member(Protocol):
    """What the storm asks of a library."""

    def read(self) -> Offsets:
        """Read a few records, and return the offsets behind them."""

    def commit(self, offsets: Offsets, note: str) -> None:
        """Commit offsets, and wait for the response; raises what the library raises."""

    def owned(self) -> set[int]:
        """Return the partitions that it has."""

    def close(self) -> None:
        """Leave the group."""


def _common(protocol: str, servers: str, group: str, name: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": group,
        "group.protocol": protocol,
        "client.id": name,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        settings |= {
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    return settings


class _Confluent:
    """Librdkafka, or this library's consumer, which has the same methods."""

    def __init__(self, consumer: Any, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        consumer.subscribe([topic])

    def read(self) -> Offsets:
        messages = self._consumer.consume(_RECORDS, _POLL_S)
        return {each.partition(): each.offset() + 1 for each in messages if each.error() is None}

    def commit(self, offsets: Offsets, note: str) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        given = [TopicPartition(self._topic, p, o, note) for p, o in offsets.items()]
        for each in self._consumer.commit(offsets=given, asynchronous=False):
            if each.error is not None:
                raise KafkaException(each.error)

    def owned(self) -> set[int]:
        return {each.partition for each in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


def librdkafka(protocol: str, servers: str, group: str, topic: str, name: str) -> Member:
    """Return a member of confluent-kafka."""
    from confluent_kafka import Consumer

    return _Confluent(Consumer(_common(protocol, servers, group, name) | {"log_level": 0}), topic)


def ours(protocol: str, servers: str, group: str, topic: str, name: str) -> Member:
    """Return a member of this library."""
    from groupsdk.consumer import GroupConsumer

    return _Confluent(GroupConsumer(_common(protocol, servers, group, name)), topic)


class KafkaPython:
    """A member of kafka-python."""

    def __init__(self, protocol: str, servers: str, group: str, topic: str, name: str) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        assert protocol == "classic"
        self._topic = topic
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=group,
            client_id=name,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self._consumer.partitions_for_topic(topic)

    def read(self) -> Offsets:
        found = self._consumer.poll(timeout_ms=int(_POLL_S * 1000), max_records=_RECORDS)
        return {each.partition: records[-1].offset + 1 for each, records in found.items()}

    def commit(self, offsets: Offsets, note: str) -> None:
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        self._consumer.commit(
            {
                TopicPartition(self._topic, p): OffsetAndMetadata(o, note, -1)
                for p, o in offsets.items()
            }
        )

    def owned(self) -> set[int]:
        """Return the partitions that it has."""
        return {each.partition for each in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class Aiokafka:
    """A member of aiokafka."""

    def __init__(self, protocol: str, servers: str, group: str, topic: str, name: str) -> None:
        assert protocol == "classic"
        self._loop = asyncio.new_event_loop()
        self._topic = topic
        self._consumer: Any = None
        self._loop.run_until_complete(self._start(servers, group, name))

    async def _start(self, servers: str, group: str, name: str) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        self._consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=servers,
            group_id=group,
            client_id=name,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await self._consumer.start()

    def read(self) -> Offsets:
        found = self._loop.run_until_complete(
            self._consumer.getmany(timeout_ms=int(_POLL_S * 1000), max_records=_RECORDS)
        )
        return {each.partition: records[-1].offset + 1 for each, records in found.items()}

    def commit(self, offsets: Offsets, note: str) -> None:
        from aiokafka import TopicPartition

        given = {TopicPartition(self._topic, p): (o, note) for p, o in offsets.items()}
        self._loop.run_until_complete(self._consumer.commit(given))

    def owned(self) -> set[int]:
        """Return the partitions that it has."""
        return {each.partition for each in self._consumer.assignment()}

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())


LIBRARIES: Final[Mapping[str, Any]] = {
    "ours": ours,
    "librdkafka": librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


def say(what: str, **more: Any) -> None:
    """Write a step to the output, which is one file for all lives of the member."""
    line = json.dumps({"at": round(time.time() * 1000), "what": what, **more})  # noqa: TID251
    os.write(1, f"{line}\n".encode())


def main(library: str, *arguments: str) -> None:
    """Read and commit until SIGTERM."""
    leaves = False

    def leave(*_: object) -> None:
        nonlocal leaves
        leaves = True

    signal.signal(signal.SIGTERM, leave)
    name = arguments[-1]
    member: Member = LIBRARIES[library](*arguments)
    number = 0
    had: set[int] = set()
    while not leaves:
        try:
            read = member.read()
            owned = member.owned()
        except Exception as error:  # noqa: BLE001 - a library that raises is asked again
            say("error", error=repr(error)[:200])
            continue
        if owned != had:
            had = owned
            say("owns", partitions=sorted(owned))
        if not read:
            continue
        number += 1
        say("commit", n=number, offsets=read)
        try:
            member.commit(read, f"{name}/{number}")
        except Exception as error:  # noqa: BLE001 - what it was is in the ledger
            say("refused", n=number, error=repr(error)[:200])
        else:
            say("committed", n=number)
    member.close()
    say("left")


if __name__ == "__main__":
    main(*sys.argv[1:])
