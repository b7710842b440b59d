"""Our consumers on real brokers and the embedded one: what they survive, counted record by record."""

import asyncio
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition as NativePartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import WallClock
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.errors import (
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    MemberClosedError,
    NoGenerationError,
)
from groupsdk.testing import LocalKafka
from tests.support.consumers import PROTOCOLS, DrivenConsumer, await_rest, await_shared
from tests.support.topics import create_topic
from tests.support.workers import Gate, eventually


class Cluster:
    """What a test does to topics."""

    def __init__(self, servers: str, group_id: str) -> None:
        self.servers = servers
        self.group_id = group_id
        self.topic = f"t-{group_id}"
        self.admin = AdminClient({"bootstrap.servers": servers})
        self.producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        self.written: dict[int, int] = defaultdict(int)

    def settings(self, protocol: str = "classic", **more: Any) -> dict[str, Any]:
        """Return the settings of a consumer, `more` of them in the spelling of keywords."""
        given = {
            "bootstrap_servers": self.servers,
            "group_id": self.group_id,
            "group_protocol": protocol,
            "auto_offset_reset": "earliest",
        }
        quick = {"heartbeat_interval_ms": 150} if protocol == "classic" else {}
        return given | quick | more

    def create(self, topic: str, count: int) -> None:
        create_topic(self.servers, topic, count)

    def grow(self, count: int) -> None:
        for future in self.admin.create_partitions([NewPartitions(self.topic, count)]).values():
            future.result()

    def delete(self, topic: str) -> None:
        for future in self.admin.delete_topics([topic]).values():
            future.result()

    def write(self, count: int, partitions: int) -> None:
        for number in range(count):
            partition = number % partitions
            self.producer.produce(self.topic, b"x", partition=partition)
            self.written[partition] += 1
        self.producer.flush()


@pytest.fixture
def cluster(servers: str, group_id: str) -> Cluster:
    return Cluster(servers, group_id)


class Ledger:
    """What all consumers have processed, in one order: a resource that a fence protects."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: list[tuple[TopicPartition, int, int]] = []
        """Partition, offset, generation."""

    def add(self, partition: TopicPartition, offset: int, generation: int) -> None:
        with self.lock:
            self.entries.append((partition, offset, generation))

    def offsets(self) -> dict[int, set[int]]:
        found: defaultdict[int, set[int]] = defaultdict(set)
        with self.lock:
            for (_, number), offset, _ in self.entries:
                found[number].add(offset)
        return found

    def check(self, written: dict[int, int]) -> None:
        """Check that nothing is skipped, and nothing was done by an owner after its successor began."""
        assert self.offsets() == {number: set(range(count)) for number, count in written.items()}
        newest: dict[TopicPartition, int] = {}
        for number, (partition, offset, generation) in enumerate(self.entries):
            assert generation >= newest.get(partition, -1), (
                f"entry {number}: {partition}@{offset} was processed in generation {generation}"
                f" after generation {newest[partition]} had begun"
            )
            newest[partition] = generation


class Running(DrivenConsumer):
    """One consumer on a thread; a context manager. With a gate, it hangs at its first records until the gate is open."""

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger | None = None,
        gate: Gate | None = None,
        **settings: Any,
    ) -> None:
        given = {"session_timeout_ms": 30_000, "auto_commit_interval_ms": 200}
        self._gate = gate
        self._ledger = ledger
        super().__init__(cluster.topic, cluster.settings(**given | settings))

    @override
    def take(self, messages: list[Message]) -> None:
        """Process records one by one."""
        if messages and self._gate is not None:
            self._gate.wait()
        for message in messages:
            assert message.error() is None
            # ask before each act; what is left of the batch is the next owner's
            snapshot = self.consumer.snapshot()
            if not snapshot.holds:
                return
            if self._ledger is not None:
                where = TopicPartition(message.topic() or "", message.partition() or 0)
                generation = snapshot.generation.generation_id
                self._ledger.add(where, message.offset() or 0, generation)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_come_and_go_and_no_record_is_skipped_or_processed_by_a_fenced_owner(
    cluster: Cluster, strategy: str
) -> None:
    cluster.create(cluster.topic, 6)
    ledger, chance = Ledger(), random.Random(strategy)
    everyone: list[Running] = []
    with ExitStack() as stack:

        def start() -> Running:
            new = Running(cluster, ledger, partition_assignment_strategy=strategy)
            everyone.append(stack.enter_context(new))
            return new

        members = [start() for _ in range(3)]
        for _ in range(12):
            cluster.write(600, 6)
            time.sleep(chance.random() * 0.4)
            match chance.randrange(3):
                case 0 if len(members) > 1:
                    members.pop(chance.randrange(len(members))).stop()
                case 1:
                    members.append(start())
                case _:
                    chosen = chance.choice(members)
                    assert not chosen.errors, chosen.errors
                    chosen.consumer.enforce_rebalance("test")
        total = sum(cluster.written.values())
        eventually(
            lambda: sum(map(len, ledger.offsets().values())) == total,
            lambda: f"{ {n: len(o) for n, o in ledger.offsets().items()} } of {cluster.written}",
        )
        for each in members:
            assert not each.errors, each.errors
    ledger.check(cluster.written)
    if not any(each.heard("lost") for each in everyone):
        # they gave their partitions up in good order, so nothing was left to be repeated; on a machine that is too
        # busy for their heartbeats they may be expelled instead
        assert len(ledger.entries) == total


@pytest.mark.timeout(120)
def test_a_handler_that_hangs_loses_its_partitions_and_does_nothing_more_with_them(
    cluster: Cluster,
) -> None:
    cluster.create(cluster.topic, 4)
    ledger = Ledger()
    with (
        Gate() as gate,
        Running(cluster, ledger, gate, max_poll_interval_ms=1_500) as hung,
        Running(cluster, ledger, max_poll_interval_ms=1_500) as other,
        gate,
    ):
        await_shared(4, hung, other)
        cluster.write(400, 4)
        eventually(lambda: len(other.consumer.assignment()) == 4)
        gate.open()
        total = sum(cluster.written.values())
        eventually(lambda: sum(map(len, ledger.offsets().values())) == total)
        eventually(lambda: hung.heard("lost"))
        await_shared(4, hung, other)  # and it comes back
        assert not hung.errors
    ledger.check(cluster.written)


@pytest.mark.timeout(120)
def test_a_rolling_restart_of_static_members_rebalances_nothing(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 10)
    with ExitStack() as stack:

        def start(number: int) -> Running:
            instance = f"pod-{number}"
            return stack.enter_context(Running(cluster, group_instance_id=instance))

        members = [start(number) for number in range(5)]
        await_shared(10, *members)
        await_rest(*members)  # whoever has just come may cause one more rebalance
        await_shared(10, *members)
        before = members[0].consumer.generation().generation_id
        for number in range(5):
            members[number].stop()
            members[number] = start(number)
            await_shared(10, *members)
        assert {each.consumer.generation().generation_id for each in members} == {before}
        assert not [error for each in members for error in each.errors]


@pytest.mark.timeout(120)
def test_a_cooperative_rolling_restart_leaves_alone_what_does_not_move(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 12)
    with ExitStack() as stack:

        def start() -> Running:
            return stack.enter_context(
                Running(cluster, partition_assignment_strategy="cooperative-sticky")
            )

        members = [start() for _ in range(4)]
        await_shared(12, *members)
        for _ in range(4):
            kept = members[1:]
            members[0].stop()
            members = [*kept, start()]
            await_shared(12, *members)
        for each in members:
            back = frozenset().union(*each.heard("revoked")) & each.owned
            assert not [number for number in back if each.tenures[number] < 2]
            assert not each.heard("lost")
            assert not each.errors


@pytest.mark.timeout(120)
def test_topics_that_grow_come_and_go_while_they_are_consumed(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 2)
    second = f"{cluster.topic}-2"
    member = Running(cluster, metadata_max_age_ms=400)
    with member:
        await_shared(2, member)
        cluster.grow(5)
        await_shared(5, member)
    with GroupConsumer(cluster.settings(metadata_max_age_ms=400)) as consumer:
        consumer.subscribe(f"^{cluster.topic}")

        def owns(*topics: str) -> Callable[[], bool]:
            def look() -> bool:
                consumer.consume(100, 0.05)
                return {each.topic for each in consumer.assignment()} == set(topics)

            return look

        eventually(owns(cluster.topic))
        cluster.create(second, 1)
        eventually(owns(cluster.topic, second))
        cluster.delete(cluster.topic)
        eventually(owns(second))


def test_an_offset_out_of_range_is_reset(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 1)
    cluster.write(10, 1)

    def first(reset: str) -> Any:
        settings = cluster.settings(enable_auto_commit=False, auto_offset_reset=reset)
        with GroupConsumer(settings) as consumer:
            consumer.subscribe(cluster.topic)
            eventually(lambda: (consumer.consume(1, 0), consumer.assignment())[1])
            consumer.commit(offsets=[NativePartition(cluster.topic, 0, 1_000)], asynchronous=False)
        with GroupConsumer(settings) as consumer:
            consumer.subscribe(cluster.topic)
            return eventually(lambda: consumer.poll(1))

    assert first("earliest").offset() == 0
    error = first("none").error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_stale_snapshot_is_fenced_in_a_transaction(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 2)
    cluster.write(4, 2)
    producer = Producer(
        {"bootstrap.servers": cluster.servers, "transactional.id": cluster.group_id}
    )
    producer.init_transactions(60)
    settings = cluster.settings(enable_auto_commit=False)
    offsets = [NativePartition(cluster.topic, 0, 2)]
    with DrivenConsumer(cluster.topic, settings) as first:
        with pytest.raises(NoGenerationError):
            GroupConsumer(settings).snapshot().to_confluent()
        await_shared(2, first)
        stale = first.consumer.snapshot().to_confluent()
        with DrivenConsumer(cluster.topic, settings) as second:
            await_shared(2, first, second)
            producer.begin_transaction()
            with pytest.raises(KafkaException) as caught:
                producer.send_offsets_to_transaction(offsets, stale, 60)
            assert caught.value.args[0].code() == KafkaError.ILLEGAL_GENERATION
            producer.abort_transaction(60)
            producer.begin_transaction()
            fresh = second.consumer.snapshot().to_confluent()
            producer.send_offsets_to_transaction(offsets, fresh, 60)
            producer.commit_transaction(60)

    with GroupConsumer(settings) as reader:
        reader.subscribe(cluster.topic)
        eventually(lambda: (reader.consume(1, 0), reader.assignment())[1])
        (found,) = reader.committed([TopicPartition(cluster.topic, 0)])
    assert found.offset == 2


def test_a_second_consumer_with_the_same_instance_id_fences_the_first(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 2)
    with Running(cluster, group_instance_id="pod") as first:
        await_shared(2, first)
        with Running(cluster, group_instance_id="pod") as second:
            await_shared(2, second)
            eventually(lambda: first.errors)
    assert isinstance(first.errors[0], FencedInstanceIdError)
    assert not second.errors


@pytest.mark.parametrize("heartbeat", ["thread", "process"])
def test_offsets_are_the_same_wherever_the_heartbeat_runs(cluster: Cluster, heartbeat: str) -> None:
    cluster.create(cluster.topic, 3)
    cluster.write(30, 3)
    settings = {
        "bootstrap.servers": cluster.servers,
        "group.id": cluster.group_id,
        "auto.offset.reset": "earliest",
        "heartbeat": heartbeat,
    }
    with GroupConsumer(settings) as consumer:
        consumer.subscribe(cluster.topic)
        got: list[Any] = []
        while len(got) < 30:
            got += consumer.consume(100, 0.1)
        consumer.commit(asynchronous=False)
        found = consumer.committed(consumer.assignment())
        assert [each.offset for each in found] == [10, 10, 10]
    with pytest.raises(MemberClosedError):
        consumer.committed([TopicPartition(cluster.topic, 0)])


def test_a_static_leader_that_comes_back_still_watches_the_topics(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 2)
    settings: dict[str, Any] = {"metadata_max_age_ms": 400}
    with Running(cluster, group_instance_id="leader", **settings) as first:
        await_shared(2, first)
        generation = first.consumer.generation().generation_id
    with Running(cluster, group_instance_id="leader", **settings) as again:
        await_shared(2, again)
        assert again.consumer.generation().generation_id == generation  # KIP-814: nothing assigned
        assert again.consumer.snapshot().is_leader
        cluster.grow(4)
        await_shared(4, again)


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", None), ("SASL_SSL", "SCRAM-SHA-512"), ("SASL_PLAINTEXT", "PLAIN")],
)
def test_both_halves_use_the_same_credentials(
    secure_kafka: LocalKafka, group_id: str, protocol: str, mechanism: str | None
) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": secure_kafka.bootstrap_servers_of(protocol),
        "group.id": group_id,
        "security.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if "SSL" in protocol.split("_"):
        settings["ssl.ca.location"] = str(secure_kafka.ca_file)
    if mechanism is not None:
        settings |= {"sasl.mechanism": mechanism, "sasl.username": "alice"}
        settings["sasl.password"] = "alice-secret"
    admin = {key: value for key, value in settings.items() if not key.startswith(("group", "auto"))}
    topic = f"t-{group_id}"
    create_topic(secure_kafka.bootstrap_servers_of("PLAINTEXT"), topic)
    producer = Producer(admin)
    producer.produce(topic, b"secret record")
    producer.flush()
    with GroupConsumer(settings) as consumer:
        consumer.subscribe(topic)
        message = eventually(lambda: consumer.poll(1))
        assert message.value() == b"secret record"
        consumer.commit(message, asynchronous=False)


@pytest.mark.timeout(120)
def test_a_group_goes_over_to_another_assignor_without_stopping(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 6)
    ledger = Ledger()
    rounds = ["range", "cooperative-sticky,range", "cooperative-sticky"]
    with ExitStack() as stack:

        def start(strategy: str) -> Running:
            return stack.enter_context(
                Running(cluster, ledger, partition_assignment_strategy=strategy)
            )

        members = [start(rounds[0]), start(rounds[0])]
        await_shared(6, *members)
        for strategy in rounds[1:]:
            for _ in range(2):
                cluster.write(300, 6)
                members.pop(0).stop()
                members.append(start(strategy))
                await_shared(6, *members)
        names = {each.consumer.generation().protocol_name for each in members}
        assert names == {"cooperative-sticky"}
        assert not [error for each in members for error in each.errors]
        total = sum(cluster.written.values())
        eventually(lambda: sum(map(len, ledger.offsets().values())) == total)
    ledger.check(cluster.written)


def test_a_member_without_a_common_assignor_is_refused(cluster: Cluster) -> None:
    cluster.create(cluster.topic, 2)
    with Running(cluster, partition_assignment_strategy="range") as first:
        await_shared(2, first)
        with Running(cluster, partition_assignment_strategy="cooperative-sticky") as other:
            eventually(lambda: other.errors)
        assert isinstance(other.errors[0], InconsistentGroupProtocolError)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_asyncio_reads_and_commits_beside_a_thread(cluster: Cluster, protocol: str) -> None:
    cluster.create(cluster.topic, 4)
    cluster.write(200, 4)
    seen: set[tuple[int, int]] = set()
    async with AsyncGroupConsumer(cluster.settings(protocol)) as consumer:
        await consumer.subscribe(cluster.topic)
        async with asyncio.timeout(60):
            while len(seen) < 200:
                for message in await consumer.consume(100, 0.2):
                    seen.add((message.partition() or 0, message.offset() or 0))
        await consumer.commit()
        found = await consumer.committed(consumer.assignment())
        assert [each.offset for each in found] == [50] * 4
        assert consumer.group_protocol == protocol


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_records_are_processed_in_order_by_threads_of_two_members(
    cluster: Cluster, protocol: str
) -> None:
    cluster.create(cluster.topic, 6)
    cluster.write(1_200, 6)
    ledger = Ledger()

    def handle(message: Any) -> None:
        ledger.add(TopicPartition(message.topic(), message.partition()), message.offset(), 0)

    def processor() -> PartitionProcessor:
        own = {"partition_assignment_strategy": "cooperative-sticky"}
        settings = cluster.settings(
            protocol, enable_auto_offset_store=False, **(own if protocol == "classic" else {})
        )
        made = PartitionProcessor(GroupConsumer(settings), handle, max_waiting=20, batch=50)
        made.subscribe(cluster.topic)
        return made

    with processor() as first, processor() as second, ThreadPoolExecutor(2) as pool:
        running = [pool.submit(each.run) for each in (first, second)]
        try:
            eventually(lambda: sum(map(len, ledger.offsets().values())) == 1_200)
        finally:
            first.stop()
            second.stop()
        for each in running:
            each.result(60)
    for number in range(6):
        offsets = [offset for (_, each), offset, _ in ledger.entries if each == number]
        assert offsets == list(range(200))


@pytest.mark.kafka
def test_reset_by_duration_begins_that_far_back_and_again_where_the_log_lacks_an_offset(
    cluster: Cluster,
) -> None:
    cluster.create(cluster.topic, 2)
    now_ms = WallClock().now_ms()
    for number, age_ms in enumerate((7_200_000, 3_000_000, 60_000, 0)):
        cluster.producer.produce(
            cluster.topic, b"%d" % number, partition=0, timestamp=now_ms - age_ms
        )
    cluster.producer.produce(cluster.topic, b"old", partition=1, timestamp=now_ms - 7_200_000)
    cluster.producer.flush()
    settings = {
        "bootstrap.servers": cluster.servers,
        "group.id": cluster.group_id,
        "auto.offset.reset": "by_duration:PT1H",
        "enable.auto.commit": False,
    }

    found: list[bytes | None] = []

    def read(consumer: GroupConsumer) -> bool:
        found.extend(each.value() for each in consumer.consume(10, 0.2))
        return len(found) >= 3

    with GroupConsumer(settings) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(cluster.topic, 0)) == (0, 4)
        assert set(consumer.list_topics(cluster.topic).topics[cluster.topic].partitions) == {0, 1}
        asked = [NativePartition(cluster.topic, 0, now_ms - 120_000)]
        assert [each.offset for each in consumer.offsets_for_times(asked)] == [2]
        consumer.subscribe(cluster.topic)
        eventually(lambda: read(consumer))
        assert found == [b"1", b"2", b"3"]
        # beyond the end: as after the log was deleted and begun again
        far = [NativePartition(cluster.topic, number, 1_000) for number in (0, 1)]
        consumer.commit(offsets=far, asynchronous=False)
        consumer.unsubscribe()
        found.clear()
        consumer.subscribe(cluster.topic)
        eventually(lambda: read(consumer))
    assert found == [b"1", b"2", b"3"]
