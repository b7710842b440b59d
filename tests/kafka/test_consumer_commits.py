"""Committed offsets never go back, whatever happens to the coordinator meanwhile."""

import threading
from collections import defaultdict
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition as NativePartition
from typing_extensions import override

from groupsdk.consumer import GroupConsumer
from groupsdk.errors import GroupSdkError
from groupsdk.testing import LocalKafka
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from tests.support.topics import create_topic
from tests.support.workers import OnThread, eventually


_PARTITIONS: Final = 3
_GROUPS: Final = 6


class Committing(OnThread):
    """A consumer on a thread of its own that commits all the time, in the background and not."""

    def __init__(self, servers: str, group_id: str, topic: str, wait_every: int) -> None:
        super().__init__()
        self._wait_every = wait_every
        self.read: dict[int, int] = defaultdict(int)
        self._consumer = GroupConsumer(
            bootstrap_servers=servers,
            group_id=group_id,
            session_timeout_ms=20_000,
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=50,
        )
        self._consumer.subscribe(topic)

    def has_read_more_than(self, count: int) -> bool:
        """Return whether it went on reading."""
        return sum(self.read.values()) > count

    @override
    def _run(self) -> None:
        rounds = 0
        with self._consumer:
            while not self._stop.is_set():
                with suppress(GroupSdkError):  # no coordinator, at times
                    # some rounds between two commits, so that one is seen to fail before the next one is made
                    rounds += 1
                    for message in self._consumer.consume(20, 0.02):
                        if message.error() is None:
                            self.read[message.partition() or 0] = (message.offset() or 0) + 1
                    if rounds % (4 * self._wait_every) == 0:
                        self._consumer.commit(asynchronous=False, timeout=0.5)
                    elif rounds % 4 == 0:
                        self._consumer.commit()


def _commits(servers: str, group_id: str) -> dict[int, list[int]]:
    """Return the offsets that a group committed for each partition, in the order of the log."""
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False}
        | {"enable.partition.eof": True}
    )
    logs = reader.list_topics("__consumer_offsets", 20).topics["__consumer_offsets"].partitions
    reader.assign([NativePartition("__consumer_offsets", number, 0) for number in logs])
    found: dict[int, list[int]] = defaultdict(list)
    ends: set[int] = set()
    while len(ends) < len(logs):
        message = reader.poll(30)
        assert message is not None, "no end of __consumer_offsets"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends.add(message.partition() or 0)
            continue
        key = read_key(message.key() or b"")
        if isinstance(key, OffsetCommitKey) and key.group == group_id:
            value = read_value(key, message.value())
            assert isinstance(value, OffsetCommitValue)
            found[key.partition].append(value.offset)
    reader.close()
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_rolling_restart_sets_no_commit_back(kafka_cluster: LocalKafka, group_id: str) -> None:
    topic, servers = f"t-{group_id}", kafka_cluster.bootstrap_servers
    create_topic(servers, topic, _PARTITIONS, 3)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    stop = threading.Event()

    def produce() -> None:
        number = 0
        while not stop.wait(0.005):
            producer.produce(topic, b"x", partition=number % _PARTITIONS)
            producer.poll(0)
            number += 1

    writer = threading.Thread(target=produce, daemon=True)
    writer.start()
    groups = [f"{group_id}-{number}" for number in range(_GROUPS)]
    with ExitStack() as stack:
        members = [
            stack.enter_context(Committing(servers, each, topic, every))
            for every, each in enumerate(groups, 2)
        ]
        stack.callback(writer.join, 30)
        stack.callback(stop.set)
        for node in kafka_cluster.nodes:
            node.restart()
            kafka_cluster.wait_ready()
            for each in members:
                before = sum(each.read.values())
                eventually(partial(each.has_read_more_than, before), timeout_s=60)
    for name, each in zip(groups, members, strict=True):
        found = _commits(servers, name)
        assert sum(map(len, found.values())) > 100
        for partition, offsets in found.items():
            back = [(a, b) for a, b in pairwise(offsets) if b < a]
            assert not back, f"{name} partition {partition}: {back} among {len(offsets)}"
            assert offsets[-1] == each.read[partition], "the last commit is that of close()"
