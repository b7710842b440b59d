"""A group of our consumers and of members of the consumer protocol (KIP-848), and the broker's view of it."""

import asyncio
import struct
import sys
import threading
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition as NativePartition,
)
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeRequest, DescribedGroup
from tests.support.groups import describe_group, request_once
from tests.support.processes import LineProgram
from tests.support.workers import OnThread, eventually


PARTITIONS: Final = 6
KINDS: Final = (
    "range",
    "sticky",
    "cooperative-sticky",
    "weighted",
    "static",
    "asyncio",
    "processor",
    "transactions",
)
"""Our members: by assignor, or by what else is special about them."""

NEW_KINDS: Final = (
    "consumer",
    "consumer-static",
    "consumer-asyncio",
    "consumer-processor",
    "consumer-transactions",
)
"""The same as members of the consumer protocol."""

_CLASSIC_ALONE = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
_STRATEGIES = {
    "static": "cooperative-sticky",
    "asyncio": "cooperative-sticky",
    "processor": "cooperative-sticky",
    "transactions": "range",
}
_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a broker answers for a moment that was fenced because the machine stalled."""

Place = tuple[int, int]
"""Partition and offset of a record."""


class Load(OnThread):
    """Writes a record every few milliseconds until it is stopped, to all partitions in turn."""

    def __init__(self, servers: str, topic: str, partitions: int = PARTITIONS) -> None:
        super().__init__()
        self.written: set[Place] = set()
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self._topic = topic
        self._partitions = partitions

    @override
    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.02):
            self._producer.produce(
                self._topic, b"x", partition=number % self._partitions, on_delivery=self._written
            )
            self._producer.poll(0)
            number += 1
        assert self._producer.flush(30) == 0

    def _written(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.written.add((message.partition() or 0, message.offset() or 0))

    def end(self) -> set[Place]:
        """Stop, and return the places of everything written."""
        self.stop()
        return self.written


class Peer(LineProgram):
    """A member of the consumer protocol, as a process of another library."""

    def __init__(self, command: list[str]) -> None:
        self.owned: set[int] = set()
        self.processed: set[Place] = set()
        self.said: list[str] = []
        super().__init__(command, quiet=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self.lines():
            match line.split():
                case ["record", partition, offset]:
                    self.processed.add((int(partition), int(offset)))
                case ["owns"]:
                    self.owned = set()
                case ["owns", numbers]:
                    self.owned = {int(each) for each in numbers.split(",")}
                case words:
                    self.said += words

    def leave(self) -> None:
        """Have it leave the group and end."""
        self.send("leave")
        self.process.wait(60)
        self._thread.join(10)
        assert self.said == ["ready", "left"]
        self.owned = set()

    @override
    def kill(self) -> None:
        """End it by force: nobody tells the group."""
        super().kill()
        self._thread.join(10)
        self.owned = set()


class Ours(OnThread):
    """One of our consumers on a thread of its own; a context manager."""

    def __init__(self, servers: str, group_id: str, topic: str, kind: str, name: str) -> None:
        super().__init__()
        self.processed: set[Place] = set()
        self.errors: list[BaseException] = []
        self.topic = topic
        new = kind in NEW_KINDS
        kind = kind.removeprefix("consumer-")
        self._killed = False
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group_id,
            "partition.assignment.strategy": _STRATEGIES.get(kind, kind),
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "enable.auto.offset.store": kind != "processor",
            "enable.auto.commit": kind != "transactions",
        }
        if kind == "static":
            settings["group.instance.id"] = name
        if new:
            settings["group.protocol"] = "consumer"
            for key in _CLASSIC_ALONE:
                del settings[key]
        self.consumer = GroupConsumer(settings)

    @abstractmethod
    def _consume(self) -> None:
        """Process records until `_stop` is set, and close."""

    @override
    def _run(self) -> None:
        try:
            self._consume()
        except BaseException as error:
            if not self._killed:
                self.errors.append(error)
                raise

    def _note(self, messages: list[Message]) -> list[Message]:
        good = [each for each in messages if each.error() is None]
        self.processed |= {place(each) for each in good}
        return good

    @property
    def owned(self) -> set[int]:
        """The partitions that it owns."""
        return {each.partition for each in self.consumer.assignment()}

    @property
    def heartbeats(self) -> float:
        """How many heartbeats were answered."""
        return self.consumer.metrics()["heartbeat-total"]

    def rejoin(self) -> None:
        self.consumer.enforce_rebalance("test")

    def kill(self) -> None:
        """Have it end at once: it commits nothing, gives nothing up and tells the group nothing."""
        self._killed = True
        host = self.consumer._session.member._groupsdk_handle.host
        assert host is not None
        host.abort()
        host.ended.result(20)
        self.stop()


class Plain(Ours):
    """Reads and counts."""

    @override
    def _consume(self) -> None:
        try:
            while not self._stop.is_set():
                self._note(self.consumer.consume(100, 0.1))
        finally:
            self.consumer.close()


class OnLoop(Ours):
    """The same on asyncio."""

    @override
    def _consume(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = AsyncGroupConsumer(self.consumer)
        await consumer.subscribe(self.topic)
        try:
            while not self._stop.is_set():
                self._note(await consumer.consume(100, 0.1))
        finally:
            await consumer.close()


class Processing(Ours):
    """Handles records on threads."""

    @override
    def _consume(self) -> None:
        processor = PartitionProcessor(
            self.consumer, lambda message: self._note([message]), workers=2
        )
        processor.subscribe(self.topic)
        try:
            while not self._stop.is_set():
                processor.step(0.1)
        finally:
            processor.close()


class Transacting(Ours):
    """Writes the place of each record to another topic, in transactions with the offsets."""

    def __init__(self, servers: str, group_id: str, topic: str, kind: str, name: str) -> None:
        super().__init__(servers, group_id, topic, kind, name)
        self._settings = {
            "bootstrap.servers": servers,
            "transactional.id": f"{group_id}-{name}",
            "transaction.timeout.ms": 5_000,
        }

    @override
    def _consume(self) -> None:
        producer = self._producer()
        try:
            while not self._stop.is_set():
                batch = [each for each in self.consumer.consume(100, 0.1) if each.error() is None]
                if not batch:
                    continue
                try:
                    self._copy(producer, batch)
                except (KafkaException, GroupSdkError):
                    self.consumer.give_back()
                    producer = self._producer()  # which aborts what was open
                else:
                    self._note(batch)
        finally:
            self.consumer.close()

    def _producer(self) -> Producer:
        producer = Producer(self._settings)
        producer.init_transactions(60)
        return producer

    def _copy(self, producer: Producer, batch: list[Message]) -> None:
        producer.begin_transaction()
        read = {(each.topic() or "", each.partition() or 0) for each in batch}
        for each in batch:
            producer.produce(outputs(self.topic), "{} {}".format(*place(each)))
        offsets = self.consumer.position([TopicPartition(*each) for each in read])
        fence = self.consumer.snapshot().to_confluent()
        producer.send_offsets_to_transaction(offsets, fence, 10)
        producer.commit_transaction(10)


def our_member(servers: str, group_id: str, topic: str, kind: str, name: str) -> Ours:
    """Return one of ours that is subscribed."""
    classes: dict[str, type[Ours]] = {
        "asyncio": OnLoop,
        "processor": Processing,
        "transactions": Transacting,
    }
    special = kind.removeprefix("consumer-")
    made = classes.get(special, Plain)(servers, group_id, topic, kind, name)
    if special not in ("asyncio", "processor"):
        made.consumer.subscribe(topic)
    return made


def place(message: Message) -> Place:
    """Return where a record stands."""
    return message.partition() or 0, message.offset() or 0


def outputs(topic: str) -> str:
    """Return the topic that transactions write to."""
    return f"{topic}-out"


@dataclass(frozen=True, slots=True)
class Seen:
    """A group in the broker's view, whichever protocol it uses."""

    type: str
    """"consumer" (KIP-848) or "classic"."""
    state: str
    shares: dict[str, frozenset[int]]
    """Member id to partitions."""


def look(address: str, group_id: str) -> Seen:
    """Ask the coordinator how it sees a group."""
    request = ConsumerGroupDescribeRequest(group_ids=(group_id,))

    def asked() -> DescribedGroup | None:
        (group,) = request_once(address, request, 1).groups
        return None if group.error_code in _PASSING else group

    group = eventually(asked)
    if group.error_code == 0:
        shares = {
            member.member_id: frozenset(
                number
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            )
            for member in group.members
        }
        return Seen("consumer", group.group_state, shares)
    classic = describe_group(address, group_id)
    return Seen(
        "classic",
        classic.state,
        {
            member_id: frozenset(number for _, number in decode_assignment(data))
            if data
            else frozenset()
            for member_id, data in classic.assignments.items()
        },
    )


class GroupRecords:
    """Reads __consumer_offsets of a broker with one partition of it."""

    def __init__(self, servers: str, group_id: str) -> None:
        self._group_id = group_id.encode()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
            }
        )
        self._where = NativePartition("__consumer_offsets", 0)
        _, self._read_to = self._consumer.get_watermark_offsets(self._where, timeout=60)
        start = NativePartition("__consumer_offsets", 0, self._read_to)
        self._consumer.assign([start])

    def count(self) -> int:
        """Return how many records other than offsets were written about the group since the last call."""
        found = 0
        _, end = self._consumer.get_watermark_offsets(self._where, timeout=60, cached=False)
        while self._read_to < end:
            message = self._consumer.poll(30)
            assert message is not None, f"read {self._read_to} of {end}"
            error = message.error()
            if error is not None:  # the end, to which a transaction's marker may belong
                assert error.code() == KafkaError._PARTITION_EOF, error
                self._read_to = message.offset() or 0
                continue
            self._read_to = (message.offset() or 0) + 1
            key = message.key() or b"\0\0"
            (version,) = struct.unpack_from(">h", key)
            found += version > 1 and key[4 : 4 + len(self._group_id)] == self._group_id
        return found

    def close(self) -> None:
        """End reading."""
        self._consumer.close()


def python_peer(
    servers: str, group_id: str, topic: str, assignor: str, library: str = "librdkafka-next"
) -> list[str]:
    """Return the command of a peer on librdkafka."""
    module = ["-W", "ignore", "-m", "tests.kafka.consumer_peer"]
    return [sys.executable, *module, library, servers, group_id, topic, assignor]


def read_outputs(servers: str, topic: str) -> list[Place]:
    """Return all places that committed transactions have written."""
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "isolation.level": "read_committed"}
        | {"enable.partition.eof": True, "enable.auto.commit": False}
    )
    reader.assign([NativePartition(outputs(topic), 0, 0)])
    found: list[Place] = []
    try:
        while True:
            message = reader.poll(30)
            assert message is not None, "no end of the outputs"
            if message.error() is not None:
                return found
            partition, offset = (message.value() or b"").split()
            found.append((int(partition), int(offset)))
    finally:
        with suppress(KafkaException):
            reader.close()
