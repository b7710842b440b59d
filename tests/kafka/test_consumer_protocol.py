"""Our consumers by the consumer protocol (KIP-848), on Kafka and on the embedded broker, alone and beside others."""

from collections.abc import Callable
from typing import Any, Self

import pytest
from confluent_kafka import (
    Consumer,
    KafkaException,
    Producer,
    TopicPartition as NativePartition,
)
from confluent_kafka.admin import AdminClient

from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer, SubscriptionPattern
from groupsdk.errors import (
    BrokerError,
    CommitFailedError,
    ConfigError,
    GroupMaxSizeReachedError,
    GroupSdkError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.testing import LocalKafka
from groupsdk.types import GroupMembershipOperation
from tests.support.consumers import PACED_BY_TESTS
from tests.support.topics import create_topic, write_records
from tests.support.workers import eventually


PARTITIONS = 4
pytestmark = pytest.mark.timeout(180)


class Topic:
    """A topic of four partitions on one broker, and what a test does with it."""

    def __init__(self, servers: str, group_id: str) -> None:
        self.servers = servers
        self.group_id = group_id
        self.name = f"t-{group_id}"
        self.admin = AdminClient({"bootstrap.servers": servers})
        self.create(self.name)

    def create(self, name: str) -> None:
        create_topic(self.servers, name, PARTITIONS)

    def write(self, count: int) -> None:
        write_records(
            self.servers, self.name, dict.fromkeys(range(PARTITIONS), count // PARTITIONS)
        )

    def consumer(self, **settings: Any) -> GroupConsumer:
        given = {
            "bootstrap_servers": self.servers,
            "group_id": self.group_id,
            "group_protocol": "consumer",
            "auto_offset_reset": "earliest",
        }
        return GroupConsumer(given | settings)


@pytest.fixture(params=["paced_embedded", "paced_kafka"])
def topic(request: pytest.FixtureRequest, group_id: str) -> Topic:
    """A topic that no other test uses, on a broker of each kind."""
    broker = request.getfixturevalue(request.param)
    return Topic(broker.bootstrap_servers, group_id)


class Listener:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, set[int]]] = []

    def on_partitions_assigned(self, given: list[TopicPartition]) -> None:
        self.told.append(("assigned", {each.partition for each in given}))

    def on_partitions_revoked(self, given: list[TopicPartition]) -> None:
        self.told.append(("revoked", {each.partition for each in given}))

    def on_partitions_lost(self, given: list[TopicPartition]) -> None:
        self.told.append(("lost", {each.partition for each in given}))

    def heard(self, name: str) -> list[set[int]]:
        return [given for told, given in self.told if told == name]


class Polled:
    """Consumers that are polled in turn by the test's own thread; a context manager that closes them."""

    def __init__(self, *consumers: Any) -> None:
        self.consumers = list(consumers)
        self.seen: list[tuple[int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.consumers:
            each.close()

    def until(self, done: Callable[[], object]) -> None:
        def look() -> bool:
            for each in self.consumers:
                for message in each.consume(100, 0.02):
                    if message.error() is None:
                        self.seen.append((message.partition(), message.offset()))
            return bool(done())

        eventually(look, lambda: [each.assignment() for each in self.consumers])

    def shared(self, *sizes: int) -> None:
        """Poll until they have so many partitions, in whatever order, and none is in two hands."""

        def shared() -> bool:
            owned = [
                [(one.topic, one.partition) for one in each.assignment()] for each in self.consumers
            ]
            every = [one for each in owned for one in each]
            return sorted(map(len, owned)) == sorted(sizes) and len(set(every)) == len(every)

        self.until(shared)


def test_partitions_move_one_by_one_and_every_record_is_read_once(topic: Topic) -> None:
    listener = Listener()
    first, second = topic.consumer(), topic.consumer()
    first.subscribe(topic.name, listener=listener)
    second.subscribe(topic.name)
    with Polled(first) as group:
        group.shared(PARTITIONS)
        topic.write(40)
        group.until(lambda: len(group.seen) == 40)
        group.consumers.append(second)
        group.shared(2, 2)
        assert len(listener.heard("revoked")) == 1
        assert not listener.heard("lost")
        topic.write(40)
        group.until(lambda: len(group.seen) >= 80)
        assert len(group.seen) == len(set(group.seen)) == 80
        for each in group.consumers:
            snapshot = each.snapshot()
            assert snapshot.consumer_state is ConsumerMemberState.STABLE
            assert snapshot.holds
            assert each.generation_if_stable() == snapshot.generation
            assert each.group_protocol == "consumer"
        group.consumers.remove(second)
        second.close()
        group.shared(PARTITIONS)


def test_commits_are_fenced_by_the_member_epoch(topic: Topic) -> None:
    topic.write(8)
    consumer = topic.consumer(enable_auto_commit=False)
    consumer.subscribe(topic.name)
    with Polled(consumer) as group:
        group.until(lambda: len(group.seen) == 8)
        consumer.commit(asynchronous=False)
        wanted = [NativePartition(topic.name, number) for number in range(PARTITIONS)]
        assert [each.offset for each in consumer.committed(wanted)] == [2] * PARTITIONS
        consumer.unsubscribe()
        offsets = [NativePartition(topic.name, 0, 1)]
        with pytest.raises(CommitFailedError):
            consumer.commit(offsets=offsets, asynchronous=False)
        assert consumer.committed(wanted[:1])[0].offset == 2


def test_static_group_consumer_keeps_its_partitions_over_a_restart(topic: Topic) -> None:
    listener = Listener()
    first = topic.consumer(group_instance_id="one")
    second = topic.consumer(group_instance_id="two")
    second.subscribe(topic.name, listener=listener)
    first.subscribe(topic.name)
    with Polled(first, second) as group:
        group.shared(2, 2)
        held = first.assignment()
        group.consumers.remove(first)
        first.close()
        told = len(listener.told)
        again = topic.consumer(group_instance_id="one")
        again.subscribe(topic.name)
        group.consumers.append(again)
        group.shared(2, 2)
        assert again.assignment() == held
        assert len(listener.told) == told
        group.consumers.remove(again)
        again.close(operation=GroupMembershipOperation.LEAVE_GROUP)
        group.shared(PARTITIONS)


def test_an_instance_id_that_is_held_is_refused_until_it_is_released(topic: Topic) -> None:
    first = topic.consumer(group_instance_id="one")
    first.subscribe(topic.name)
    with Polled(first) as group:
        group.shared(PARTITIONS)
        second = topic.consumer(group_instance_id="one")
        with second:
            second.subscribe(topic.name)
            for _ in range(2):
                with pytest.raises(
                    UnreleasedInstanceIdError, match=r"group\.instance\.id='one'"
                ) as raised:
                    second.poll(60)
                assert raised.value.retriable
            group.shared(PARTITIONS)
            group.consumers.remove(first)
            first.close()
            until_assigned(second)


def test_unknown_server_assignor_is_raised_to_a_consumer_and_asked_for_again(topic: Topic) -> None:
    with topic.consumer(group_remote_assignor="nope") as consumer:
        consumer.subscribe(topic.name)
        for _ in range(2):
            with pytest.raises(
                UnsupportedAssignorError, match=r"group\.remote\.assignor='nope'"
            ) as raised:
                consumer.poll(60)
            assert not raised.value.fatal


@pytest.mark.parametrize("kind", [EmbeddedBroker, LocalKafka])
def test_a_consumer_joins_a_full_group_once_another_has_left(
    kind: type[EmbeddedBroker | LocalKafka], group_id: str, kafka_installed: None
) -> None:
    properties = PACED_BY_TESTS | {"group.consumer.max.size": "1"}
    with (
        EmbeddedBroker(properties)
        if kind is EmbeddedBroker
        else LocalKafka(properties=properties) as broker
    ):
        topic = Topic(broker.bootstrap_servers, group_id)
        with topic.consumer() as first, topic.consumer() as second:
            first.subscribe(topic.name)
            second.subscribe(topic.name)
            until_assigned(first)
            with pytest.raises(GroupMaxSizeReachedError) as raised:
                second.poll(60)
            assert raised.value.retriable
            first.close()
            until_assigned(second)


def until_assigned(consumer: GroupConsumer) -> None:
    """Poll as the loop of docs/workers.md does, until the consumer has all partitions."""

    def assigned() -> bool:
        try:
            consumer.poll(0.5)
        except GroupSdkError as error:
            if error.fatal:
                raise
        return len(consumer.assignment()) == PARTITIONS

    eventually(assigned, timeout_s=60.0)


def test_the_broker_matches_a_subscription_pattern(topic: Topic) -> None:
    consumer = topic.consumer()
    consumer.subscribe(SubscriptionPattern(f"{topic.name}(-.*)?"))
    with Polled(consumer) as group:
        group.shared(PARTITIONS)
        consumer.subscribe(topic.name)
        group.until(lambda: consumer.subscription() == (topic.name,))
        consumer.subscribe(SubscriptionPattern("["))
        with pytest.raises(BrokerError, match="INVALID_REGULAR_EXPRESSION") as raised:
            group.until(lambda: False)
        assert raised.value.fatal


def test_patterns_of_the_client_and_changes_of_the_subscription_take_effect(topic: Topic) -> None:
    topic.create(f"{topic.name}-more")
    consumer = topic.consumer()
    consumer.subscribe(f"^{topic.name}")
    with Polled(consumer) as group:
        group.shared(2 * PARTITIONS)
        consumer.subscribe(f"{topic.name}-more")
        group.until(
            lambda: {each.topic for each in consumer.assignment()} == {f"{topic.name}-more"}
        )
        group.shared(PARTITIONS)


def test_assignor_of_the_broker_is_voted_for(topic: Topic) -> None:
    with topic.consumer(group_remote_assignor="range") as consumer:
        consumer.subscribe(topic.name)
        Polled(consumer).shared(PARTITIONS)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_librdkafka_takes_part_in_either_protocol(topic: Topic, protocol: str) -> None:
    """The group goes over to the new protocol with our member, and back when it leaves."""
    given: dict[str, Any] = {
        "bootstrap.servers": topic.servers,
        "group.id": topic.group_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        given |= {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 200}
    peer = Consumer(given)
    peer.subscribe([topic.name])
    ours = topic.consumer()
    ours.subscribe(topic.name)
    with Polled(peer) as group:
        group.shared(PARTITIONS)
        group.consumers.append(ours)
        group.shared(2, 2)
        topic.write(40)
        group.until(lambda: len(group.seen) >= 40)
        assert len(group.seen) == len(set(group.seen)) == 40
        group.consumers.remove(ours)
        ours.close()
        group.shared(PARTITIONS)


def test_a_service_moves_over_and_back_by_one_setting(topic: Topic) -> None:
    """Rolling, one member after the other; no record is skipped, and none is in two hands."""
    quick = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 200}
    with Polled() as group:
        for _ in range(2):
            group.consumers.append(topic.consumer(group_protocol="classic", **quick))
            group.consumers[-1].subscribe(topic.name)
        group.shared(2, 2)
        written = 0
        for settings in [
            {},
            {},
            {"group_protocol": "classic"} | quick,
            {"group_protocol": "classic"} | quick,
        ]:
            group.consumers.pop(0).close()
            group.consumers.append(topic.consumer(**settings))
            group.consumers[-1].subscribe(topic.name)
            topic.write(20)
            written += 20
            group.shared(2, 2)
        group.until(lambda: len(set(group.seen)) == written)
        for number in range(PARTITIONS):
            offsets = [offset for partition, offset in group.seen if partition == number]
            assert sorted(set(offsets)) == list(range(written // PARTITIONS))


def test_auto_uses_the_new_protocol_where_the_broker_has_it(topic: Topic) -> None:
    with topic.consumer(group_protocol="auto") as consumer:
        consumer.subscribe(topic.name)
        Polled(consumer).shared(PARTITIONS)
        assert consumer.group_protocol == "consumer"
    with topic.consumer(group_protocol="auto", partition_assignment_strategy="weighted") as own:
        assert own.group_protocol == "classic"
        with pytest.raises(ConfigError, match="SubscriptionPattern"):
            own.subscribe(SubscriptionPattern("t.*"))


def test_a_transaction_carries_the_member_epoch(topic: Topic) -> None:
    topic.write(4)
    producer = Producer(
        {"bootstrap.servers": topic.servers, "transactional.id": f"tx-{topic.group_id}"}
    )
    producer.init_transactions(60)
    consumer = topic.consumer(enable_auto_commit=False)
    consumer.subscribe(topic.name)
    with Polled(consumer) as group:
        group.until(lambda: len(group.seen) == 4)
        metadata = consumer.consumer_group_metadata()
        offsets = [NativePartition(topic.name, 0, 1)]
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets, metadata, 60)
        producer.commit_transaction(60)
        assert consumer.committed(offsets)[0].offset == 1
        consumer.unsubscribe()
        producer.begin_transaction()
        with pytest.raises(KafkaException):
            producer.send_offsets_to_transaction([NativePartition(topic.name, 0, 0)], metadata, 60)
        producer.abort_transaction(60)
