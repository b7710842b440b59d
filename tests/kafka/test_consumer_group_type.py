"""Consumers in a group of a type of its own (`group.protocol.type`), on Kafka and on the embedded broker side by side."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition as NativePartition,
)
from confluent_kafka.admin import AdminClient

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import GroupDescription, PartitionLag
from groupsdk.admin.groups import describe_group, group_lag
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.command import ExitCode
from groupsdk.cli.connection import Connection
from groupsdk.cli.main import main
from groupsdk.cli.run import RunOptions, run_place
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.consumer.transactions import Transaction, TransactionLoop
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    CommitFailedError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
)
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.groups import request_once
from tests.support.topics import create_topic, write_records
from tests.support.workers import TIMEOUT_S, eventually


PARTITIONS: Final = 4
QUICK: Final[dict[str, Any]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 500,
}
_EXPIRED_S: Final = 240.0
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """One of ours, which forgets unused offsets after a minute."""
    with EmbeddedBroker(QUICK) as broker:
        yield broker


@pytest.fixture(scope="module")
def quick_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    """A broker of Kafka with the same settings."""
    with LocalKafka(properties={key: str(value) for key, value in QUICK.items()}) as kafka:
        yield kafka


@dataclass(frozen=True)
class Scene:
    """A topic with a record in each partition, and a group that reads it."""

    servers: str
    group_id: str

    @property
    def topic(self) -> str:
        return f"t-{self.group_id}"

    def prepare(self) -> "Scene":
        create_topic(self.servers, self.topic, PARTITIONS)
        self.write()
        return self

    def write(self) -> None:
        write_records(self.servers, self.topic, dict.fromkeys(range(PARTITIONS), 1))

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.servers,
            "group_id": self.group_id,
            "group_protocol_type": "work",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 200,
            "partition_assignment_strategy": "weighted",
        } | more

    def consumer(self, **more: Any) -> GroupConsumer:
        consumer = GroupConsumer(self.settings(**more))
        consumer.subscribe(self.topic)
        return consumer

    def modern(self, group_id: str = "") -> GroupConsumer:
        """Return a member of KIP-848."""
        settings = self.settings(group_id=group_id or self.group_id, group_protocol="consumer")
        for name in (
            "group_protocol_type",
            "heartbeat_interval_ms",
            "partition_assignment_strategy",
        ):
            del settings[name]
        consumer = GroupConsumer(settings)
        consumer.subscribe(self.topic)
        return consumer

    def offsets(self, group_id: str = "") -> dict[int, int]:
        admin = AdminClient({"bootstrap.servers": self.servers})
        asked = ConsumerGroupTopicPartitions(group_id or self.group_id)
        (answer,) = admin.list_consumer_group_offsets([asked]).values()
        found = answer.result().topic_partitions
        return {each.partition: each.offset for each in found if each.offset >= 0}


@pytest.fixture(params=["embedded", "quick_kafka"])
def scene(request: pytest.FixtureRequest, group_id: str) -> Scene:
    """A group on a broker of each kind."""
    return Scene(request.getfixturevalue(request.param).bootstrap_servers, group_id).prepare()


def polled(
    consumers: Sequence[GroupConsumer], done: Callable[[], object], timeout_s: float = TIMEOUT_S
) -> None:
    """Poll consumers in turn until something is so."""

    def look() -> bool:
        for each in consumers:
            each.consume(100, 0.02)
        return bool(done())

    eventually(look, lambda: [each.assignment() for each in consumers], timeout_s)


def owns(count: int, *consumers: GroupConsumer) -> None:
    """Poll until each of them owns so many partitions."""
    polled(consumers, lambda: all(len(each.assignment()) == count for each in consumers))


def has_read(consumer: GroupConsumer, offset: int = 1) -> None:
    """Poll until a consumer has read every record of the topic."""
    everything = [offset] * PARTITIONS
    polled(
        (consumer,),
        lambda: [each.offset for each in consumer.position(consumer.assignment())] == everything,
    )


def refused(consumer: GroupConsumer) -> BrokerError:
    """Poll until the broker lets a consumer not in."""
    found: list[BrokerError] = []

    def look() -> bool:
        try:
            consumer.poll(0.1)
        except BrokerError as error:
            found.append(error)
        return bool(found)

    with closing(consumer):
        eventually(look)
    return found[0]


def heartbeat_code(scene: Scene) -> int:
    """Return the error of a first heartbeat of KIP-848."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=scene.group_id,
        member_id="m-new",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=(scene.topic,),
        topic_partitions=(),
    )
    return request_once(scene.servers, request, 1).error_code


def test_a_group_of_its_own_type_lets_no_member_of_another_in(scene: Scene) -> None:
    with closing(scene.consumer()) as first, closing(scene.consumer()) as second:
        owns(2, first, second)
        assert heartbeat_code(scene) == ErrorCode.GROUP_ID_NOT_FOUND
        assert refused(scene.modern()).error_code is ErrorCode.GROUP_ID_NOT_FOUND
        told = refused(scene.consumer(group_protocol_type="consumer"))
        assert isinstance(told, InconsistentGroupProtocolError)
        assert "the group is of type 'work'" in str(told)
        auto = scene.consumer(
            group_protocol="auto",
            group_protocol_type="consumer",
            partition_assignment_strategy="range",
        )
        assert isinstance(refused(auto), InconsistentGroupProtocolError)
        owns(2, first, second)
        assert first.group_protocol == "classic"


def test_librdkafka_is_not_let_in_by_either_protocol(scene: Scene) -> None:
    with closing(scene.consumer()) as member:
        owns(PARTITIONS, member)
        for protocol in ("classic", "consumer"):
            errors: list[KafkaError] = []
            settings: dict[str, Any] = {
                "bootstrap.servers": scene.servers,
                "group.id": scene.group_id,
                "group.protocol": protocol,
                "error_cb": errors.append,
            }
            with closing(Consumer(settings)) as other:
                other.subscribe([scene.topic])

                def told(other: Consumer = other, errors: list[KafkaError] = errors) -> bool:
                    member.poll(0)
                    message = other.poll(0.1)
                    if message is not None:
                        error = message.error()
                        assert error is not None, "it reads"
                        errors.append(error)
                    return bool(errors)

                eventually(told)
                assert not other.assignment()
        owns(PARTITIONS, member)


def test_a_member_of_its_type_is_not_let_into_a_group_of_kip_848(scene: Scene) -> None:
    with closing(scene.modern()) as member:
        owns(PARTITIONS, member)
        assert isinstance(refused(scene.consumer()), InconsistentGroupProtocolError)
        owns(PARTITIONS, member)


def test_an_empty_group_changes_its_type_and_keeps_its_offsets(scene: Scene) -> None:
    with closing(scene.consumer()) as first:
        has_read(first)
        first.commit(asynchronous=False)
    before = scene.offsets()
    assert before == dict.fromkeys(range(PARTITIONS), 1)
    with closing(scene.modern()) as taker:
        owns(PARTITIONS, taker)
    with closing(scene.consumer(group_protocol_type="consumer")) as plain:
        owns(PARTITIONS, plain)
    with closing(scene.consumer()) as again:
        owns(PARTITIONS, again)
        assert heartbeat_code(scene) == ErrorCode.GROUP_ID_NOT_FOUND
    assert scene.offsets() == before


def commit_code(scene: Scene, generation: int, member_id: str, instance_id: str | None) -> int:
    """Return the error of an OffsetCommit."""
    part = OffsetCommitRequestTopic(scene.topic, partitions=(OffsetCommitRequestPartition(0, 9),))
    request = OffsetCommitRequest(scene.group_id, generation, member_id, instance_id, -1, (part,))
    answer = request_once(scene.servers, request, 9)
    return answer.topics[0].partitions[0].error_code


def test_commits_are_fenced_by_generation_member_and_instance(scene: Scene) -> None:
    with closing(scene.consumer(group_instance_id="i-1")) as member:
        owns(PARTITIONS, member)
        generation, member_id = member.generation().generation_id, member.member_id()
        code = partial(commit_code, scene)
        assert code(generation - 1, member_id, "i-1") == ErrorCode.ILLEGAL_GENERATION
        assert code(generation, "another", None) == ErrorCode.UNKNOWN_MEMBER_ID
        assert code(generation, "another", "i-1") == ErrorCode.FENCED_INSTANCE_ID
        assert code(-1, "", None) == ErrorCode.UNKNOWN_MEMBER_ID
        assert code(generation, member_id, "i-1") == ErrorCode.NONE
        with closing(scene.consumer(group_instance_id="i-1")) as again:
            has_read(again)
            with pytest.raises((CommitFailedError, FencedInstanceIdError)):
                member.commit(offsets=[NativePartition(scene.topic, 0, 7)], asynchronous=False)
            again.commit(asynchronous=False)
        assert set(scene.offsets().values()) == {1}


def test_a_transaction_loop_commits_under_its_generation(scene: Scene) -> None:
    create_topic(scene.servers, f"out-{scene.topic}")

    def change(records: Sequence[Message], transaction: Transaction) -> None:
        for record in records:
            transaction.produce(f"out-{scene.topic}", value=record.value())

    producer = Producer(
        {"bootstrap.servers": scene.servers, "transactional.id": f"tx-{scene.group_id}"}
    )
    with closing(scene.consumer()) as member:
        loop = TransactionLoop(member, producer, change)
        done = 0
        while done < PARTITIONS:
            done += loop.step(0.2)
        eventually(lambda: scene.offsets() == dict.fromkeys(range(PARTITIONS), 1))


def test_a_transaction_of_an_older_generation_is_refused(scene: Scene) -> None:
    producer = Producer(
        {"bootstrap.servers": scene.servers, "transactional.id": f"old-{scene.group_id}"}
    )
    producer.init_transactions(60)
    offsets = [NativePartition(scene.topic, 0, 1)]
    with closing(scene.consumer()) as first:
        owns(PARTITIONS, first)
        before = first.consumer_group_metadata()
        with closing(scene.consumer()) as second:
            owns(2, first, second)
            producer.begin_transaction()
            with pytest.raises(KafkaException) as refusal:
                producer.send_offsets_to_transaction(offsets, before, 60)
            assert refusal.value.args[0].code() == KafkaError.ILLEGAL_GENERATION
            producer.abort_transaction(60)
            producer.begin_transaction()
            producer.send_offsets_to_transaction(offsets, first.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
    assert scene.offsets() == {0: 1}


def test_a_processor_and_asyncio_work_in_it(scene: Scene) -> None:
    seen: list[int] = []
    settings = scene.settings(enable_auto_offset_store=False, enable_auto_commit=True)
    with (
        closing(GroupConsumer(settings)) as consumer,
        PartitionProcessor(
            consumer, lambda message: seen.append(message.partition() or 0), workers=2
        ) as processor,
    ):
        processor.subscribe(scene.topic)

        def worked() -> bool:
            processor.step(0.1)
            return len(seen) == PARTITIONS

        eventually(worked)
    assert scene.offsets() == dict.fromkeys(range(PARTITIONS), 1)
    scene.write()

    async def read() -> int:
        async with AsyncGroupConsumer(scene.settings()) as consumer:
            await consumer.subscribe(scene.topic)
            count = 0
            while count < PARTITIONS:
                count += len(await consumer.consume(100, 0.2))
            return count

    assert asyncio.run(read()) == PARTITIONS


SEEN: list[int] = []
STOP = threading.Event()


def handle(message: Message) -> None:
    """Reads every record, and ends the run."""
    SEEN.append(message.partition() or 0)
    if len(SEEN) == PARTITIONS:
        STOP.set()


def test_groupsdk_run_reads_in_it_by_the_settings_of_a_file(scene: Scene) -> None:
    SEEN.clear()
    STOP.clear()
    settings = {"auto.offset.reset": "earliest", "group.protocol.type": "work"}
    connection = Connection({"bootstrap.servers": scene.servers}, 10, settings)
    options = RunOptions(group=scene.group_id, topics=[scene.topic])
    assert run_place(f"{__name__}:handle", connection, options, STOP) is ExitCode.OK
    assert sorted(SEEN) == list(range(PARTITIONS))
    assert scene.offsets() == dict.fromkeys(range(PARTITIONS), 1)
    assert describe(scene)[0].protocol_type == "work"


def describe(scene: Scene) -> tuple[GroupDescription, list[PartitionLag]]:
    """Return how the commands see the group, and its lag."""

    async def look() -> tuple[GroupDescription, list[PartitionLag]]:
        async with ClusterClient({"bootstrap.servers": scene.servers}) as client:
            group = await describe_group(client, scene.group_id)
            return group, await group_lag(client, group)

    return asyncio.run(look())


def test_the_commands_show_and_reset_it(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    servers = ("--bootstrap-servers", scene.servers)
    with closing(scene.consumer()) as member:
        has_read(member)
        member.commit(asynchronous=False)
        scene.write()

        group, lag = describe(scene)
        assert group.protocol_type == "work"
        assert group.members[0].subscription.topics == (scene.topic,)
        assert len(group.members[0].assignment.partitions) == PARTITIONS
        assert [(each.committed, each.lag, each.member_id) for each in lag] == [
            (1, 1, member.member_id())
        ] * PARTITIONS
        assert main(["groups", "lag", scene.group_id, *servers]) == 0
        assert main(["log", "--groups", "--group", scene.group_id, *servers]) == 0
        shown = capsys.readouterr().out
        assert f"{scene.topic}(0-{PARTITIONS - 1})" in shown
    reset = ("groups", "reset", scene.group_id, "--all-topics", "--to-earliest", "--execute")
    assert main([*reset, *servers]) == 0
    assert scene.offsets() == dict.fromkeys(range(PARTITIONS), 0)


def test_offsets_expire_only_where_nobody_is_a_member(
    embedded: EmbeddedBroker, quick_kafka: LocalKafka, group_id: str
) -> None:
    """Kafka's ClassicGroup.offsetExpirationCondition: none for members of another type than "consumer"."""
    scenes = [
        Scene(broker.bootstrap_servers, group_id).prepare() for broker in (embedded, quick_kafka)
    ]
    left, nobody = f"{group_id}-left", f"{group_id}-nobody"
    committed = dict.fromkeys(range(PARTITIONS), 1)
    with ExitStack() as stack:
        members = [stack.enter_context(closing(scene.consumer())) for scene in scenes]
        for scene, member in zip(scenes, members, strict=True):
            has_read(member)
            member.commit(asynchronous=False)
            with closing(scene.consumer(group_id=left)) as leaves:
                has_read(leaves)
                leaves.commit(asynchronous=False)
            settings = {"bootstrap.servers": scene.servers, "group.id": nobody}
            with closing(Consumer(settings)) as outsider:
                outsider.commit(offsets=[NativePartition(scene.topic, 0, 1)], asynchronous=False)
            assert scene.offsets(left) == committed
        # both were committed after the members' own: by now those would be gone too
        polled(
            members,
            lambda: not any(scene.offsets(left) or scene.offsets(nobody) for scene in scenes),
            timeout_s=_EXPIRED_S,
        )
        assert [scene.offsets() for scene in scenes] == [committed] * 2
