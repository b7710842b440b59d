"""Use consumer groups of the new protocol (KIP-848) through librdkafka, alone and beside classic members."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from tests.clients.confluent import producer_of
from tests.support.workers import eventually


NEW = {"group.protocol": "consumer"}


class Group:
    """Consumers of one group, polled together."""

    def __init__(self, broker: EmbeddedBroker, group_id: str, topic: str) -> None:
        self.broker = broker
        self.group_id = group_id
        self.topic = topic
        self.consumers: list[Consumer] = []
        self.read: list[tuple[int, int]] = []

    def join(
        self,
        subscription: str | None = None,
        listeners: Mapping[str, Any] | None = None,
        **settings: object,
    ) -> Consumer:
        """Adds a consumer; of the new protocol unless it is told otherwise."""
        given = {key.replace("_", "."): value for key, value in settings.items()}
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": self.group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **(NEW | given),
            }
        )
        consumer.subscribe([subscription or self.topic], **(listeners or {}))
        self.consumers.append(consumer)
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def close(self) -> None:
        for each in self.consumers:
            each.close()

    def settled(self, *sizes: int) -> bool:
        """Polls all once; tells whether each has so many partitions, and none is in two hands."""
        for each in self.consumers:
            message = each.poll(0.02)
            if message is not None and message.error() is None:
                offset = message.offset()
                partition = message.partition()
                assert offset is not None
                assert partition is not None
                self.read.append((partition, offset))
        owned = [
            (each.topic, each.partition) for one in self.consumers for each in one.assignment()
        ]
        assert len(owned) == len(set(owned)) or len(owned) < sum(sizes) * 2
        return [len(each.assignment()) for each in self.consumers] == list(sizes) and len(
            owned
        ) == len(set(owned))

    def until(self, *sizes: int) -> None:
        """Polls until each has so many partitions."""
        eventually(
            lambda: self.settled(*sizes),
            lambda: f"{[len(each.assignment()) for each in self.consumers]} for {sizes}",
            60.0,
        )


@pytest.fixture
def group(broker: EmbeddedBroker, group_id: str, topic: str) -> Iterator[Group]:
    """A group without members yet, for a topic of four partitions."""
    with ExitStack() as stack:
        made = Group(broker, group_id, topic)
        stack.callback(made.close)
        yield made


@pytest.mark.timeout(120)
def test_members_come_and_go_and_every_record_is_read(group: Group) -> None:
    producer = producer_of(group.broker)
    for number in range(40):
        producer.produce(group.topic, b"v", partition=number % 4)
    assert producer.flush(60) == 0
    group.join()
    group.until(4)
    second = group.join(group_remote_assignor="range")
    group.until(2, 2)
    eventually(lambda: group.settled(2, 2) and len(set(group.read)) == 40, timeout_s=60.0)
    (commit,) = second.assignment()[:1]
    second.commit(offsets=[TopicPartition(commit.topic, commit.partition, 7)], asynchronous=False)
    (found,) = second.committed([commit], timeout=60)
    assert found.offset == 7
    group.leave(second)
    group.until(4)


@pytest.mark.timeout(120)
def test_an_expression_takes_topics_as_they_come(group: Group) -> None:
    group.join(f"^{group.topic}.*")
    group.until(4)
    group.broker.create_topic(f"{group.topic}-more", 2)
    # found again no sooner than ten seconds after the last look
    group.until(6)


@pytest.mark.timeout(120)
def test_static_confluent_consumer_keeps_its_partitions_over_a_restart(group: Group) -> None:
    first = group.join(group_instance_id="one")
    group.join(group_instance_id="two")
    group.until(2, 2)
    held = sorted(each.partition for each in first.assignment())
    group.leave(first)
    again = group.join(group_instance_id="one")
    group.until(2, 2)
    assert sorted(each.partition for each in again.assignment()) == held


@pytest.mark.timeout(120)
def test_listeners_hear_of_what_moves_in_order(group: Group) -> None:
    heard: list[str] = []

    def named(name: str) -> dict[str, Callable[[Consumer, list[TopicPartition]], None]]:
        def note(what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
            def noted(_: Consumer, partitions: list[TopicPartition]) -> None:
                if partitions:
                    heard.append(f"{name} {what} {len(partitions)}")

            return noted

        return {f"on_{what}": note(what) for what in ("assign", "revoke", "lost")}

    group.join(listeners=named("first"))
    group.until(4)
    second = group.join(listeners=named("second"))
    group.until(2, 2)
    assert heard == ["first assign 4", "first revoke 2", "second assign 2"]
    group.leave(second)
    group.until(4)
    assert heard[3:] == ["second revoke 2", "first assign 2"]


@pytest.mark.timeout(120)
def test_a_paused_partition_is_kept_and_not_read(group: Group) -> None:
    consumer = group.join()
    group.until(4)
    paused = [TopicPartition(group.topic, 0)]
    consumer.pause(paused)
    producer = producer_of(group.broker)
    for number in range(40):
        producer.produce(group.topic, b"v", partition=number % 4)
    assert producer.flush(60) == 0
    eventually(lambda: group.settled(4) and len(group.read) == 30, timeout_s=60.0)
    # a rebalance meanwhile, which it keeps half of its partitions in
    second = group.join(auto_offset_reset="latest")
    group.until(2, 2)
    group.leave(second)
    group.until(4)
    assert {partition for partition, _ in group.read} == {1, 2, 3}
    consumer.resume(paused)
    eventually(
        lambda: group.settled(4) and {each for each, _ in group.read} == {0, 1, 2, 3},
        timeout_s=60.0,
    )


@pytest.mark.timeout(120)
def test_classic_members_take_part_and_the_group_migrates_up_and_down(group: Group) -> None:
    group.join(group_protocol="classic", session_timeout_ms=30_000, heartbeat_interval_ms=200)
    group.until(4)
    new = group.join()
    group.until(2, 2)
    group.join(group_protocol="classic", session_timeout_ms=30_000, heartbeat_interval_ms=200)
    eventually(lambda: sorted(_sizes(group)) == [1, 1, 2], timeout_s=60.0)
    group.leave(new)
    # the last member of the new protocol has gone: the group is a classic one again
    group.until(2, 2)
    admin = AdminClient({"bootstrap.servers": group.broker.bootstrap_servers})
    listed = admin.list_consumer_groups(request_timeout=60).result(60)
    (found,) = [each for each in listed.valid if each.group_id == group.group_id]
    assert found.type == ConsumerGroupType.CLASSIC


@pytest.mark.timeout(120)
def test_our_classic_consumers_take_part(group: Group) -> None:
    settings = {
        "bootstrap.servers": group.broker.bootstrap_servers,
        "group.id": group.group_id,
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "range",
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 30_000,
    }
    with GroupConsumer(settings) as ours:
        ours.subscribe(group.topic)

        def shared(size: int, *sizes: int) -> bool:
            ours.poll(0.02)
            return group.settled(*sizes) and len(ours.assignment()) == size

        eventually(lambda: shared(4), timeout_s=60.0)
        theirs = group.join()
        eventually(lambda: shared(2, 2), timeout_s=60.0)
        seen = group.broker.consumer_group(group.group_id)
        assert seen is not None
        assert sorted(each.is_classic for each in seen.members.values()) == [False, True]
        group.leave(theirs)
        eventually(lambda: shared(4), timeout_s=60.0)
        assert group.broker.classic_group(group.group_id) is not None


@pytest.mark.timeout(120)
def test_offsets_in_a_transaction_are_fenced_by_the_member_epoch(group: Group) -> None:
    producer = producer_of(group.broker, transactional_id=group.group_id)
    producer.init_transactions(60)
    first = group.join()
    group.until(4)
    stale = first.consumer_group_metadata()
    group.join()
    group.until(2, 2)
    kept = {each.partition for each in first.assignment()}
    offsets = {partition: TopicPartition(group.topic, partition, 5) for partition in range(4)}
    given_up = [offset for partition, offset in offsets.items() if partition not in kept]
    producer.begin_transaction()
    with pytest.raises(KafkaException):
        producer.send_offsets_to_transaction(given_up, stale, 60)
    producer.abort_transaction(60)
    # what a member has kept it may commit under the epoch in which it got it (KIP-1251)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([offsets[each] for each in kept], stale, 60)
    producer.commit_transaction(60)
    found = first.committed(list(offsets.values()), timeout=60)
    assert {each.partition for each in found if each.offset == 5} == kept


def _sizes(group: Group) -> list[int]:
    group.settled()
    return [len(each.assignment()) for each in group.consumers]


@pytest.mark.timeout(120)
def test_tools_see_the_group(group: Group) -> None:
    group.join()
    group.until(4)
    admin = AdminClient({"bootstrap.servers": group.broker.bootstrap_servers})
    listed = admin.list_consumer_groups(request_timeout=60).result(60)
    (found,) = [each for each in listed.valid if each.group_id == group.group_id]
    assert found.type == ConsumerGroupType.CONSUMER
    described = admin.describe_consumer_groups([group.group_id], request_timeout=60)
    shown = described[group.group_id].result(60)
    assert shown.type == ConsumerGroupType.CONSUMER
    (member,) = shown.members
    assert len(member.assignment.topic_partitions) == 4


@pytest.mark.timeout(120)
def test_a_stalled_caller_loses_its_partitions_when_its_session_ends(group_id: str) -> None:
    """From 2.15 on librdkafka leaves once its caller has revoked, which a stalled one does not (librdkafka issue 5541).

    Until then it sends no heartbeat. Kafka 4.3.1 removes it at the end of its session as well.
    """
    settings = {"group.consumer.session.timeout.ms": 6_000}
    with EmbeddedBroker(settings, topics={"t": 4}) as broker, ExitStack() as stack:
        group = Group(broker, group_id, "t")
        stack.callback(group.close)
        stalled = group.join(max_poll_interval_ms=6_000, topic_metadata_refresh_interval_ms=500)
        group.until(4)
        group.join()
        group.until(2, 2)
        group.consumers.remove(stalled)
        stack.callback(stalled.close)
        group.until(4)
        group.consumers.insert(0, stalled)
        errors = []

        def is_back() -> bool:
            message = stalled.poll(0.02)
            if message is not None:
                error = message.error()
                assert error is not None
                errors.append(error.code())
            return group.settled(2, 2)

        eventually(is_back, lambda: f"{errors}", 60.0)
        assert errors == [KafkaError._MAX_POLL_EXCEEDED]


@pytest.mark.timeout(120)
def test_a_silent_member_is_removed_and_the_broker_may_restart(group_id: str) -> None:
    settings = {"group.consumer.session.timeout.ms": 30_000}
    with EmbeddedBroker(settings, topics={"t": 4}) as broker, ExitStack() as stack:
        group = Group(broker, group_id, "t")
        stack.callback(group.close)
        group.join()
        group.until(4)
        broker.restart()
        # what lasts is in the log: the member goes on in the same epoch
        _until_epoch(broker, group_id, lambda epoch: epoch == 2)
        group.join()
        group.until(2, 2)


def _until_epoch(broker: EmbeddedBroker, group_id: str, wanted: Callable[[int], bool]) -> None:
    deadline = time.perf_counter() + 60
    while time.perf_counter() < deadline:
        found = broker.consumer_group(group_id)
        if found is not None and wanted(found.epoch):
            return
        time.sleep(0.02)
    raise AssertionError(f"{broker.consumer_group(group_id)}")
