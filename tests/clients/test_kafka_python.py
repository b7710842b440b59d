"""Use the embedded broker through kafka-python: producer, group consumer, transactions, administration."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import ProducerFencedError, TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata, TopicPartition
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from tests.support.workers import OnThread, eventually


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


@contextmanager
def consumer_of(broker: EmbeddedBroker, *topics: str, **settings: Any) -> Iterator[KafkaConsumer]:
    """Makes a consumer that starts at the beginning, and closes it."""
    consumer = KafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": broker.bootstrap_servers,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 200,
            **settings,
        },
    )
    try:
        # Asks for the partitions before the first join. kafka-python 3.0.12 that leads joins again once it knows
        # them, and where a poll ends before that join does, it forgets the join and never heartbeats again.
        for topic in topics:
            assert consumer.partitions_for_topic(topic)
        yield consumer
    finally:
        consumer.close()


@contextmanager
def producer_of(broker: EmbeddedBroker, **settings: Any) -> Iterator[KafkaProducer]:
    """Makes a producer, and closes it."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)
    try:
        yield producer
    finally:
        producer.close(60)


def taken(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """Polls until so many records were read; returns their values, sorted."""
    values: list[bytes] = []

    def enough() -> bool:
        for records in consumer.poll(timeout_ms=500).values():
            values.extend(record.value for record in records)
        return len(values) >= count

    eventually(enough, lambda: f"{len(values)} of {count} records")
    assert len(values) == count
    return sorted(values)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_records_of_kafka_python_are_read_back(
    broker: EmbeddedBroker, topic: str, group_id: str, compression: str | None
) -> None:
    with producer_of(broker, compression_type=compression) as producer:
        sent = [
            producer.send(topic, b"%d" % n, key=b"k", headers=[("h", b"v")], partition=n % 4)
            for n in range(100)
        ]
        assert [each.get(60).offset for each in sent] == [n // 4 for n in range(100)]
    with consumer_of(broker, topic, group_id=group_id) as consumer:
        assert taken(consumer, 100) == sorted(b"%d" % n for n in range(100))
        consumer.commit()
    with consumer_of(broker, group_id=group_id) as consumer:
        partitions = [TopicPartition(topic, n) for n in range(4)]
        assert [consumer.committed(each) for each in partitions] == [25] * 4
        assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 25)


class Polling(OnThread):
    """Polls a consumer on a thread of its own, as its users do, until the block ends."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        super().__init__()
        self.consumer = consumer
        self.errors: list[BaseException] = []

    @override
    def stop(self) -> None:
        super().stop()
        assert not self.errors

    @override
    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.consumer.poll(timeout_ms=500)
        except BaseException as error:
            self.errors.append(error)
            raise

    @property
    def share(self) -> int:
        """How many partitions it has."""
        return len(self.consumer.assignment())


@pytest.mark.parametrize("strategy", list(ASSIGNORS))
def test_two_kafka_python_consumers_share_a_topic_and_one_takes_over(
    broker: EmbeddedBroker, topic: str, group_id: str, strategy: str
) -> None:
    settings = {"group_id": group_id, "partition_assignment_strategy": [ASSIGNORS[strategy]]}
    with consumer_of(broker, topic, **settings) as one, Polling(one) as first:
        with consumer_of(broker, topic, **settings) as two, Polling(two) as second:
            eventually(lambda: (first.share, second.share) == (2, 2), "two of two each")
            assert len(broker.groups[group_id].members) == 2
        eventually(lambda: first.share == 4, "what the second left")


def test_a_static_member_stays_when_it_closes(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    settings = {"group_id": group_id, "group_instance_id": "one"}
    with consumer_of(broker, topic, **settings) as one, Polling(one) as first:
        eventually(lambda: first.share == 4)
        before = broker.classic_group(group_id)
        assert before is not None
    assert set(broker.groups[group_id].members) == set(before.members)
    with consumer_of(broker, topic, **settings) as two, Polling(two) as second:
        eventually(lambda: second.share == 4)
        after = broker.classic_group(group_id)
        assert after is not None
        assert after.generation_id == before.generation_id
        assert set(after.members) != set(before.members)


def test_kafka_python_transaction_carries_records_and_offsets_or_nothing(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    partition = TopicPartition(topic, 0)
    with producer_of(broker, transactional_id=group_id) as producer:
        producer.init_transactions()
        for number, keep in enumerate((True, False, True)):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0).get(60)
            offsets = {partition: OffsetAndMetadata(number + 1, "", -1)}
            producer.send_offsets_to_transaction(offsets, group_id)
            if keep:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        committed = {"isolation_level": "read_committed", "group_id": group_id}
        with consumer_of(broker, **committed) as reader:
            reader.assign([partition])
            assert reader.committed(partition) == 3
            reader.seek_to_beginning()
            assert taken(reader, 2) == [b"0", b"2"]
        with consumer_of(broker, isolation_level="read_uncommitted", group_id=None) as reader:
            reader.assign([partition])
            assert taken(reader, 3) == [b"0", b"1", b"2"]

        producer.begin_transaction()
        producer.send(topic, b"lost", partition=0).get(60)
        with producer_of(broker, transactional_id=group_id) as second:
            second.init_transactions()
            with pytest.raises(ProducerFencedError):
                producer.commit_transaction()


def test_kafka_python_admin_creates_topics_and_describes_them(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    name = f"made-{group_id}"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.create_topics([NewTopic(name, 2, 1)])
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(name, 2, 1)])
        assert name in admin.list_topics()
        admin.create_partitions({name: 3})
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "7"})
        admin.alter_configs([resource])
        described = admin.describe_configs([resource])["topic"][name]
        assert described["retention.ms"]["value"] == "7"
        admin.delete_topics([name])
        assert name not in admin.list_topics()
        (found,) = admin.describe_topic_partitions([topic])["topics"]
        assert [each["leader_id"] for each in found["partitions"]] == [
            broker.leader(topic, n) for n in range(4)
        ]
        assert admin.describe_cluster()["cluster_id"] == broker.cluster_id
        assert {each["broker"] for each in admin.describe_log_dirs()} == {1, 2, 3}
        features = admin.describe_features()
        assert features["transaction.version"]["finalized"] == (2, 2)
    finally:
        admin.close()


def test_kafka_python_admin_describes_groups_and_transactions(
    broker: EmbeddedBroker, topic: str, group_id: str
) -> None:
    partition = TopicPartition(topic, 1)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        with consumer_of(broker, topic, group_id=group_id) as consumer:
            with Polling(consumer) as member:
                eventually(lambda: member.share == 4)
            consumer.commit({partition: OffsetAndMetadata(7, "m", -1)})
            described = admin.describe_groups([group_id])[group_id]
            assert described["group_state"] == "Stable"
            assert described["members"][0]["member_assignment"]["assigned_partitions"] == [
                {"topic": topic, "partitions": [0, 1, 2, 3]}
            ]
        assert group_id in [each["group_id"] for each in admin.list_groups()]
        committed = admin.list_group_offsets(group_id)[group_id]
        assert committed == {partition: OffsetAndMetadata(7, "m", -1)}
        assert admin.delete_groups([group_id]) == {group_id: "OK"}
        assert group_id not in [each["group_id"] for each in admin.list_groups()]

        with producer_of(broker, transactional_id=group_id) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"v", partition=1).get(60)
            listed = [each for found in admin.list_transactions().values() for each in found]
            (mine,) = [each for each in listed if each.transactional_id == group_id]
            assert mine.state.value == "Ongoing"
            (active,) = admin.describe_producers([partition])[partition].active_producers
            assert active.producer_id == mine.producer_id
            producer.abort_transaction()
    finally:
        admin.close()
