"""Our consumers leave a group in the middle of a rebalance that somebody else holds up."""

import threading
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Message, Producer, TopicPartition as NativePartition

from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.member.state import MemberState
from tests.support.topics import create_topic
from tests.support.workers import eventually


_COUNT = 4


class Listener:
    """Notes what its consumer gives up, and how."""

    def __init__(self) -> None:
        self.given_up: list[str] = []

    def on_partitions_revoked(self, given: Any) -> None:
        self.given_up += [f"revoked {each.partition}" for each in given]

    def on_partitions_lost(self, given: Any) -> None:
        self.given_up += [f"lost {each.partition}" for each in given]


class Scene:
    """A group in which a rebalance waits for a member that does not poll."""

    def __init__(self, servers: str, group_id: str) -> None:
        self.settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group_id,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 100,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 600_000,
        }
        self.topic = f"t-{group_id}"
        create_topic(servers, self.topic, _COUNT)
        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        self.write()

    def write(self) -> None:
        """Put a record into each partition."""
        for number in range(_COUNT):
            self.producer.produce(self.topic, b"x", partition=number)
        assert self.producer.flush(60) == 0

    def both_share(self, one: GroupConsumer, step: Any, stuck: GroupConsumer) -> None:
        """Have two consumers join, and bring the group to rest."""

        def even() -> bool:
            step()
            stuck.consume(10, 0.05)
            owned = [len(each.assignment()) for each in (one, stuck)]
            stable = all(each.snapshot().stable for each in (one, stuck))
            return stable and owned == [_COUNT // 2] * 2

        eventually(even, lambda: (one.assignment(), stuck.assignment()))

    def rebalance(self, one: GroupConsumer, step: Any) -> None:
        """Have it join again, while the other one does not."""
        one.enforce_rebalance("test")

        def joining() -> bool:
            step()
            return one.snapshot().state is MemberState.PREPARING_REBALANCE

        eventually(joining)

    def committed(self, asker: GroupConsumer, partitions: set[int]) -> dict[int, int]:
        asked = [NativePartition(self.topic, each) for each in partitions]
        return {each.partition: each.offset for each in asker.committed(asked)}


@pytest.mark.parametrize("how", ["close", "unsubscribe"])
def test_records_read_during_a_rebalance_are_committed(
    servers: str, group_id: str, how: str
) -> None:
    scene = Scene(servers, group_id)
    listener = Listener()
    with GroupConsumer(scene.settings) as stuck, GroupConsumer(scene.settings) as one:
        stuck.subscribe(scene.topic)
        one.subscribe(scene.topic, listener=listener)
        scene.both_share(one, lambda: one.consume(10, 0.05), stuck)
        mine = {each.partition for each in one.assignment()}
        listener.given_up.clear()
        scene.rebalance(one, lambda: one.consume(10, 0.05))
        scene.write()
        got: list[Message] = []

        def read() -> bool:
            got.extend(one.consume(10, 0.05))
            return {each.partition() for each in got} == mine

        eventually(read, "a cooperative member goes on reading what it keeps")
        one.consume(1, 0)  # what was returned before counts as processed now
        getattr(one, how)()
        assert listener.given_up == [f"revoked {each}" for each in sorted(mine)]
        assert scene.committed(stuck, mine) == dict.fromkeys(mine, 2)


def test_a_processor_commits_what_its_handlers_finish(servers: str, group_id: str) -> None:
    scene = Scene(servers, group_id)
    handled: dict[int, int] = {}  # the offset after the last record of each partition
    gate, entered = threading.Event(), threading.Event()

    def handle(message: Message) -> None:
        if (message.offset() or 0) > 0:
            entered.set()
            assert gate.wait(60)
        handled[message.partition() or 0] = (message.offset() or 0) + 1

    with ExitStack() as stack:
        stuck = stack.enter_context(GroupConsumer(scene.settings))
        settings = scene.settings | {"enable.auto.offset.store": False}
        consumer = GroupConsumer(settings)
        processor = stack.enter_context(PartitionProcessor(consumer, handle))
        stack.callback(gate.set)
        stuck.subscribe(scene.topic)
        processor.subscribe(scene.topic)
        scene.both_share(consumer, lambda: processor.step(0.05), stuck)
        mine = {each.partition for each in consumer.assignment()}
        scene.rebalance(consumer, lambda: processor.step(0.05))
        scene.write()

        def is_handling() -> bool:
            processor.step(0.05)
            return entered.is_set()

        eventually(is_handling, "no handler at work")
        opener = threading.Timer(0.2, gate.set)  # while close() waits for the handlers
        opener.start()
        processor.close()
        opener.join()
        # the other one may have read the first records, while it had all partitions
        committed = scene.committed(stuck, mine)
        kept = {each: after for each, after in handled.items() if each in mine}
        assert {each: committed[each] for each in kept} == kept
        assert 2 in kept.values()
