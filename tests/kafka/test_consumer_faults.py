"""Our consumers in both group protocols under brokers that fail, ways that are cut and users' code that misbehaves."""

import asyncio
import contextlib
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pytest
from confluent_kafka import (
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition as NativePartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.assignment import TopicPartition
from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import CommitFailedError, RebalanceInProgressError
from groupsdk.member.consumer.subscription import HeartbeatSubscription
from groupsdk.testing import LocalKafka
from groupsdk.types import ProtocolMetadata
from groupsdk.wire.schema import ApiKey
from tests.kafka.migrating_group import look, place
from tests.support.brokers import QUICK_RESTART, running_again, telling_of_brokers
from tests.support.consumers import (
    PACED_BY_TESTS,
    PROTOCOLS,
    DrivenConsumer,
    Group,
    OwnerWitness,
    await_beats,
    await_rest,
    await_shared,
    tell,
)
from tests.support.proxy import Action, Fault, FaultProxy, Side
from tests.support.workers import Gate, eventually


PARTITIONS = 4

NewGroup = Callable[..., Group]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def broker(paced_kafka: LocalKafka) -> Iterator[LocalKafka]:
    """A broker that the test may pause, which does not fence it; it runs again after the test."""
    with running_again(paced_kafka):
        yield paced_kafka


@pytest.fixture(scope="module")
def _killed_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(properties=PACED_BY_TESTS | QUICK_RESTART) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def _paced_cluster(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(nodes=3, properties=PACED_BY_TESTS, log=True) as kafka:
        yield kafka


@pytest.fixture
def cluster(_paced_cluster: LocalKafka) -> Iterator[LocalKafka]:
    """Three brokers, which the test may kill; all run again after it."""
    with running_again(_paced_cluster):
        yield _paced_cluster


def create_topic(address: str, name: str, partitions: int, replicas: int = 1) -> None:
    """Create a topic, as soon as enough brokers are there: one that has just stalled is fenced for a moment."""
    admin = AdminClient({"bootstrap.servers": address})

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(name, partitions, replicas)])[name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    eventually(created)


@pytest.fixture(params=PROTOCOLS)
def new_group(request: pytest.FixtureRequest, broker: LocalKafka, group_id: str) -> NewGroup:
    """Make the test's group, with its topic; members go straight to the broker unless told otherwise."""

    def make(**more: Any) -> Group:
        address = broker.bootstrap_servers
        topic = f"t-{group_id}"
        create_topic(address, topic, PARTITIONS)
        given = {"servers": address} | more
        return Group(request.param, group_id, topic, address=address, **given).configure()

    return make


consumer_protocol_alone = pytest.mark.parametrize("new_group", ["consumer"], indirect=True)


@contextlib.contextmanager
def two_members(group: Group) -> Iterator[tuple[DrivenConsumer, DrivenConsumer]]:
    """Two consumers that share the topic and raise nothing, watched: no partition is in two hands."""
    with (
        group.consumer() as one,
        group.consumer() as two,
        OwnerWitness(one, two) as witness,
    ):
        await_shared(PARTITIONS, one, two)
        yield one, two
        witness.check()
    assert not one.errors
    assert not two.errors


@contextlib.contextmanager
def undisturbed(members: Sequence[DrivenConsumer]) -> Iterator[None]:
    """Check that the members keep what they own through the outage that the with block makes, and are told nothing."""
    await_rest(*members)
    owned = [each.owned for each in members]
    told = [list(each.told) for each in members]
    yield
    await_beats(*members)
    assert [each.acts_on for each in members] == owned
    assert [list(each.told) for each in members] == told


def await_doubt(*driven: DrivenConsumer) -> None:
    """Wait until each takes it for possible that it is out."""
    for each in driven:
        eventually(lambda each=each: not each.consumer.snapshot().holds, lambda: tell(*driven))  # type: ignore[misc]


class TestBrokerKilled:
    @pytest.fixture
    def broker(self, _killed_kafka: LocalKafka) -> Iterator[LocalKafka]:
        """A broker that the test may kill; it runs again after it."""
        with running_again(_killed_kafka):
            yield _killed_kafka

    def test_and_back_within_the_session_nobody_is_told_anything(
        self, new_group: NewGroup, broker: LocalKafka
    ) -> None:
        with two_members(new_group(session_ms=60_000)) as members:
            owned = [each.owned for each in members]
            with undisturbed(members):
                broker.kill()
                eventually(lambda: members[0].consumer.snapshot().trouble)
                assert [each.acts_on for each in members] == owned
                broker.start()

    def test_for_longer_than_the_session_nobody_acts_and_all_come_back(
        self, new_group: NewGroup, broker: LocalKafka
    ) -> None:
        with two_members(new_group(session_ms=1_000)) as members:
            broker.kill()
            await_doubt(*members)
            assert not [each for member in members for each in member.acts_on]
            broker.start()
            await_shared(PARTITIONS, *members)

    def test_while_partitions_are_moving(self, new_group: NewGroup, broker: LocalKafka) -> None:
        group = new_group()
        with group.consumer() as one, group.consumer() as two:
            await_shared(PARTITIONS, one, two)
            three, gate = group.consumer(), Gate()
            one.hooks["revoked"] = two.hooks["revoked"] = gate.wait
            with OwnerWitness(one, two, three) as witness, three, gate:
                eventually(gate.reached.is_set)
                broker.kill()
                broker.start()
                gate.open()
                await_shared(PARTITIONS, one, two, three)
                witness.check()
                assert not [*one.errors, *two.errors, *three.errors]


class TestBrokerPaused:
    def test_for_shorter_than_the_session_costs_nothing(
        self, new_group: NewGroup, broker: LocalKafka
    ) -> None:
        with two_members(new_group()) as members:
            owned = [each.owned for each in members]
            with undisturbed(members):
                broker.pause()
                # no heartbeat follows one that is not answered
                eventually(lambda: members[0].consumer.metrics()["last-heartbeat-seconds-ago"] >= 1)
                assert [each.acts_on for each in members] == owned
                broker.resume()

    def test_for_longer_than_the_session_nobody_acts_and_all_come_back(
        self, new_group: NewGroup, broker: LocalKafka
    ) -> None:
        with two_members(new_group(session_ms=1_000)) as members:
            broker.pause()
            await_doubt(*members)
            broker.resume()
            await_shared(PARTITIONS, *members)


@pytest.mark.timeout(300)
class TestCoordinatorMoves:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("how", ["kill", "stop", "pause"])
    def test_within_the_session_nobody_loses_anything(
        self, cluster: LocalKafka, group_id: str, protocol: str, how: str
    ) -> None:
        with two_members(_group_of(cluster, group_id, protocol, 30_000)) as members:
            owned = [each.owned for each in members]
            _move(cluster, group_id, how)
            with telling_of_brokers(cluster, group_id, f"t-{group_id}"):
                await_beats(*members)
                await_shared(PARTITIONS, *members)
            assert not [each for member in members for each in member.heard("lost")]
            if protocol == "consumer":  # in the classic one the new coordinator may rebalance
                assert [each.acts_on for each in members] == owned

    def test_a_failure_tells_what_the_brokers_know_and_do(
        self, cluster: LocalKafka, group_id: str
    ) -> None:
        def notes() -> list[str]:
            with pytest.raises(AssertionError) as raised, telling_of_brokers(cluster, group_id):
                raise AssertionError
            return raised.value.__notes__

        parts = (
            "knows the brokers [1, 2, 3]; takes Found(error_code=0, node_id=",
            "group-coordinator-event-processor-0",
            "java.lang.Thread.State",
        )
        assert len(notes()) == len(cluster.nodes)
        # a machine that halts has the brokers take each other for dead, for a moment
        eventually(lambda: all(part in note for note in notes() for part in parts))

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_sessions_that_end_before_nobody_acts_and_all_come_back(
        self, cluster: LocalKafka, group_id: str, protocol: str
    ) -> None:
        with two_members(_group_of(cluster, group_id, protocol, 1_500)) as members:
            cluster.coordinator_of(group_id).kill()
            await_doubt(*members)
            await_shared(PARTITIONS, *members)


def _group_of(cluster: LocalKafka, group_id: str, protocol: str, session_ms: int) -> Group:
    servers = cluster.bootstrap_servers
    address = servers.split(",")[0]
    create_topic(servers, f"t-{group_id}", PARTITIONS, 3)
    # what a paused broker costs that nobody else says is gone
    more = {"request.timeout.ms": 5_000}
    group = Group(protocol, group_id, f"t-{group_id}", servers, address, session_ms, more=more)
    return group.configure()


def _move(cluster: LocalKafka, group_id: str, how: str) -> None:
    """Have another node coordinate the group."""
    at_first = cluster.coordinator_of(group_id)
    getattr(at_first, how)()
    cluster.wait_ready()
    assert cluster.coordinator_of(group_id).node_id != at_first.node_id


WAY_IN = [
    (ApiKey.API_VERSIONS, 1),
    (ApiKey.FIND_COORDINATOR, 1),
    (ApiKey.METADATA, 1),
    (ApiKey.DESCRIBE_CONFIGS, 1),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 2),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, 3),
    (ApiKey.OFFSET_FETCH, 1),
]


@consumer_protocol_alone
@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
class TestCut:
    @pytest.mark.parametrize("action", [Action.CUT, Action.CLOSE], ids=["RST", "FIN"])
    @pytest.mark.parametrize(
        ("api", "occurrence"), WAY_IN, ids=[f"{api.name}-{n}" for api, n in WAY_IN]
    )
    def test_on_the_way_in(
        self,
        new_group: NewGroup,
        way: FaultProxy,
        api: ApiKey,
        occurrence: int,
        side: Side,
        action: Action,
    ) -> None:
        fault = Fault(
            action=action, api_key=api.value, side=side, occurrence=occurrence, after_bytes=9
        )
        way.add(fault)
        with new_group(servers=way.bootstrap_servers).consumer() as driven:
            await_shared(PARTITIONS, driven)
            way.wait_for(fault)
            await_beats(driven)
            await_shared(PARTITIONS, driven)
            assert way.happened() == [fault]
            assert driven.heard("assigned") == [frozenset(range(PARTITIONS))]
            assert not driven.heard("revoked")
            assert not driven.heard("lost")
        assert not driven.errors

    def test_in_a_commit(self, new_group: NewGroup, way: FaultProxy, side: Side) -> None:
        fault = Fault(action=Action.CUT, api_key=ApiKey.OFFSET_COMMIT.value, side=side)
        with new_group(servers=way.bootstrap_servers).consumer() as driven:
            await_shared(PARTITIONS, driven)
            way.add(fault)
            committed = threading.Event()

            def commit() -> None:
                place = driven.consumer.assignment()[0]
                offsets = [_at(place.topic, place.partition, 0)]
                driven.consumer.commit(offsets=offsets, asynchronous=False)
                committed.set()

            driven.away = commit
            eventually(committed.is_set, lambda: tell(driven))
            assert way.happened() == [fault]
            await_shared(PARTITIONS, driven)
        assert not driven.errors

    def test_while_partitions_move(
        self, new_group: NewGroup, way: FaultProxy, broker: LocalKafka, side: Side
    ) -> None:
        group = new_group(session_ms=3_000)
        far = group.consumer(bootstrap_servers=way.bootstrap_servers)
        with far, OwnerWitness(far) as witness:
            await_shared(PARTITIONS, far)
            for occurrence in (1, 2, 3):
                way.add(
                    fault := Fault(
                        action=Action.CUT,
                        api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT.value,
                        side=side,
                        occurrence=occurrence,
                        after_bytes=9,
                    )
                )
                with group.consumer() as near, OwnerWitness(near, far) as both:
                    way.wait_for(fault)
                    await_shared(PARTITIONS, near, far)
                    both.check()
                assert not near.errors
                await_shared(PARTITIONS, far)
            witness.check()
        assert not far.errors

    def test_in_the_heartbeat_that_leaves(
        self, new_group: NewGroup, way: FaultProxy, side: Side
    ) -> None:
        group = new_group(servers=way.bootstrap_servers, session_ms=1_500)
        with group.consumer() as driven:
            await_shared(PARTITIONS, driven)
            faults = [
                Fault(
                    action=Action.CUT,
                    api_key=ApiKey.CONSUMER_GROUP_HEARTBEAT.value,
                    side=side,
                    occurrence=occurrence,
                )
                for occurrence in (1, 2)  # one of them may still be an ordinary one
            ]
            way.add(*faults)
        assert way.happened()
        assert not driven.errors
        # Told or not, the group goes on without it: after its session at the latest.
        eventually(lambda: not look(group.address, group.group_id).shares)


class TestSilence:
    def test_a_connection_that_went_dumb_takes_the_belief_away_and_another_brings_it_back(
        self, new_group: NewGroup, way: FaultProxy
    ) -> None:
        group = new_group(servers=way.bootstrap_servers, session_ms=1_500)
        api = ApiKey.HEARTBEAT if group.protocol == "classic" else ApiKey.CONSUMER_GROUP_HEARTBEAT
        with group.consumer() as driven:
            await_shared(PARTITIONS, driven)
            fault = Fault(action=Action.BLACK_HOLE, api_key=api.value, side=Side.ANSWER)
            way.add(fault)
            way.wait_for(fault)
            # no other one until it is seen: the doubt would be over within milliseconds
            way.black_hole()
            await_doubt(driven)
            way.black_hole(False)
            await_shared(PARTITIONS, driven)
        assert not driven.errors

    def test_a_network_that_is_gone_for_longer_than_the_session(
        self, new_group: NewGroup, way: FaultProxy
    ) -> None:
        group = new_group(session_ms=1_500)
        far = group.consumer(bootstrap_servers=way.bootstrap_servers)
        with far, group.consumer() as near, OwnerWitness(near, far) as witness:
            await_shared(PARTITIONS, near, far)
            way.black_hole()
            await_shared(PARTITIONS, near)
            assert not far.acts_on
            way.black_hole(False)
            await_shared(PARTITIONS, near, far)
            assert far.heard("lost")
            witness.check()
        assert not [*near.errors, *far.errors]


ANSWERS = (
    ApiKey.API_VERSIONS,
    ApiKey.FIND_COORDINATOR,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_FETCH,
)


@consumer_protocol_alone
@pytest.mark.parametrize("action", [Action.GARBLE, Action.TRUNCATE], ids=lambda each: each.value)
@pytest.mark.parametrize("api", ANSWERS, ids=lambda api: api.name)
def test_one_hostile_answer_does_not_end_the_member(
    new_group: NewGroup, way: FaultProxy, api: ApiKey, action: Action
) -> None:
    # from byte 4 on: the correlation id is right and what follows is not
    fault = Fault(action=action, api_key=api.value, side=Side.ANSWER, after_bytes=5)
    way.add(fault)
    with new_group(servers=way.bootstrap_servers).consumer() as driven:
        way.wait_for(fault, 60_000)
        await_shared(PARTITIONS, driven)
        assert len(driven.errors) <= 1, driven.errors


class TestListener:
    @pytest.mark.parametrize("callback", ["assigned", "revoked", "lost"])
    def test_that_raises_comes_out_once_and_the_group_goes_on(
        self, new_group: NewGroup, way: FaultProxy, callback: str
    ) -> None:
        # only what is lost is lost by the end of a session
        group = new_group(session_ms=1_500 if callback == "lost" else 30_000)
        error = ValueError("cannot flush")
        far = group.consumer(bootstrap_servers=way.bootstrap_servers)

        def fail() -> None:
            del far.hooks[callback]
            raise error

        far.hooks[callback] = fail
        with far:
            await_shared(PARTITIONS, far)
            with group.consumer() as near, OwnerWitness(near, far) as witness:
                await_shared(PARTITIONS, near, far)
                if callback == "lost":
                    way.black_hole()
                    await_shared(PARTITIONS, near)
                    way.black_hole(False)
                    await_shared(PARTITIONS, near, far)
                witness.check()
            await_shared(PARTITIONS, far)
        assert far.errors == [error]
        assert not near.errors

    def test_that_hangs_past_the_rebalance_timeout_loses_what_it_kept(
        self, new_group: NewGroup
    ) -> None:
        group = new_group()
        with (
            group.consumer(max_poll_interval_ms=6_000) as slow,
            group.consumer() as other,
            OwnerWitness(slow, other) as witness,
            Gate() as gate,
        ):
            await_shared(PARTITIONS, slow, other)
            # gives up all but one of what it would have with the other one alone
            slow.hooks["revoked"] = gate.wait
            with group.consumer() as third, group.consumer() as fourth:
                eventually(gate.reached.is_set, lambda: tell(slow, other, third, fourth))
                eventually(
                    lambda: not slow.consumer.snapshot().holds and len(other.acts_on) >= 1,
                    lambda: tell(slow, other, third, fourth),
                )
                eventually(
                    lambda: len(other.acts_on | third.acts_on | fourth.acts_on) == PARTITIONS,
                    lambda: tell(slow, other, third, fourth),
                )
                gate.open()
                await_shared(PARTITIONS, slow, other, third, fourth)
                witness.check()
        assert not [*slow.errors, *other.errors, *third.errors, *fourth.errors]


def test_a_caller_away_for_longer_than_max_poll_interval_comes_back(new_group: NewGroup) -> None:
    group = new_group()
    with (
        group.consumer(max_poll_interval_ms=6_000) as away,
        group.consumer() as other,
        OwnerWitness(away, other) as witness,
        Gate() as gate,
    ):
        await_shared(PARTITIONS, away, other)
        away.away = gate.wait
        await_shared(PARTITIONS, other)
        assert not away.acts_on
        gate.open()
        await_shared(PARTITIONS, away, other)
        assert len(away.heard("lost")) == 1
        witness.check()
    assert not [*away.errors, *other.errors]


# by a thread: the limit's own alarm is taken here
@pytest.mark.timeout(300, method="thread")
def test_a_ctrl_c_at_any_moment_loses_no_record(new_group: NewGroup) -> None:
    group = new_group(more={"auto.commit.interval.ms": 50})
    listener = Owner()
    seen: set[tuple[int, int]] = set()
    chance = random.Random(0)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with (
            Records(group) as records,
            ComingAndGoing(group) as other,
            GroupConsumer(group.settings()) as consumer,
        ):
            consumer.subscribe(group.topic, listener=listener)
            interrupted = 0
            while interrupted < 200 or other.rounds < 4:
                found: list[Message] = []
                try:
                    # ever slower after the first: a busy machine gets nothing done in between
                    slower = max(1.0, interrupted / 200)
                    signal.setitimer(signal.ITIMER_REAL, slower * (0.001 + chance.random() / 50))
                    while True:
                        found = consumer.consume(10, 0.01)
                        seen |= {place(each) for each in found}
                        found = []
                except KeyboardInterrupt:
                    interrupted += 1
                    seen |= {place(each) for each in found}
            signal.setitimer(signal.ITIMER_REAL, 0)
            other.stop()
            written = records.stop()

            def done() -> bool:
                seen.update(place(each) for each in consumer.consume(100, 0.05))
                return len(listener.owned) == PARTITIONS and written <= seen | other.seen

            eventually(done, lambda: (sorted(written - seen - other.seen)[:9], listener.owned))
            assert {each.partition for each in consumer.assignment()} == listener.owned
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not other.errors


@pytest.mark.timeout(300)
def test_tasks_that_are_cancelled_at_any_moment_lose_no_record(new_group: NewGroup) -> None:
    group = new_group(more={"auto.commit.interval.ms": 50})
    listener = Owner()
    seen: set[tuple[int, int]] = set()
    chance = random.Random(0)

    async def run(records: Records, other: ComingAndGoing) -> None:
        async with AsyncGroupConsumer(group.settings()) as consumer:
            await consumer.subscribe(group.topic, listener=listener)
            cancelled = 0
            while cancelled < 200 or other.rounds < 4:
                reads = chance.random() < 0.9
                work: Any = consumer.consume(10, 0.05) if reads else consumer.commit()
                task = asyncio.ensure_future(work)
                await asyncio.sleep(chance.random() / 50)
                task.cancel()
                try:
                    found = await task
                    seen.update(place(each) for each in found if reads)
                except asyncio.CancelledError:
                    cancelled += 1
                except (CommitFailedError, RebalanceInProgressError):
                    pass  # another member's by now, or about to be
            await asyncio.to_thread(other.stop)
            written = records.stop()
            for _ in range(1_000):
                seen.update(place(each) for each in await consumer.consume(100, 0.05))
                if len(listener.owned) == PARTITIONS and written <= seen | other.seen:
                    break
            assert written <= seen | other.seen
            assert {each.partition for each in consumer.assignment()} == listener.owned

    with Records(group) as records, ComingAndGoing(group) as other:
        asyncio.run(run(records, other))
    assert not other.errors


class Owner:
    """A listener that keeps what its consumer owns."""

    def __init__(self) -> None:
        self.owned: set[int] = set()

    def on_partitions_assigned(self, given: Sequence[TopicPartition]) -> None:
        self.owned |= {each.partition for each in given}

    def on_partitions_revoked(self, given: Sequence[TopicPartition]) -> None:
        self.owned -= {each.partition for each in given}


class Records:
    """Writes a record every few milliseconds until it is stopped."""

    def __init__(self, group: Group) -> None:
        self._written: set[tuple[int, int]] = set()
        self._group = group
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> set[tuple[int, int]]:
        """Return the places of what was written."""
        self._stop.set()
        self._thread.join(60)
        return self._written

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._group.address, "linger.ms": 0})
        number = 0
        while not self._stop.wait(0.01):
            producer.produce(
                self._group.topic,
                b"x",
                partition=number % PARTITIONS,
                on_delivery=lambda _, message: self._written.add(place(message)),
            )
            producer.poll(0)
            number += 1
        assert producer.flush(30) == 0


class ComingAndGoing:
    """A second member that joins, gets its share, and leaves, again and again."""

    def __init__(self, group: Group) -> None:
        self.rounds = 0
        self.seen: set[tuple[int, int]] = set()
        self.errors: list[BaseException] = []
        self._group = group
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Have it leave for good."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with GroupConsumer(self._group.settings()) as consumer:
                    consumer.subscribe(self._group.topic)
                    while not (self._stop.is_set() or consumer.assignment()):
                        self.seen |= {place(each) for each in consumer.consume(100, 0.02)}
                    for _ in range(10):
                        self.seen |= {place(each) for each in consumer.consume(100, 0.02)}
                self.rounds += 1
        except BaseException as error:
            self.errors.append(error)
            raise


class Unread:
    """A member of the consumer protocol that reads nothing: its callbacks, and what it was assigned."""

    protocol_type = "consumer"

    def __init__(self, topic: str) -> None:
        self.assigned: frozenset[int] = frozenset()
        self._topic = topic

    def metadata(self) -> list[ProtocolMetadata]:
        return HeartbeatSubscription(frozenset({self._topic})).protocols()

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.assigned = frozenset()

    def perform_assignment(self, *_: object) -> dict[str, bytes]:
        raise AssertionError("the broker assigns")

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.assigned = frozenset(number for _, number in decode_assignment(assignment))

    def on_leave_prepare(self) -> None:
        self.assigned = frozenset()


@consumer_protocol_alone
def test_200_members_in_one_process_own_each_partition_once_and_leave(
    new_group: NewGroup, broker: LocalKafka
) -> None:
    group = new_group(session_ms=30_000, heartbeat_ms=1_000)
    broad, count = f"broad-{group.group_id}", 200
    create_topic(group.address, broad, count)
    config = ConsumerConfig.of(group.settings()).consumer_member()
    owners = [Unread(broad) for _ in range(count)]
    members = [GroupMember(each, config) for each in owners]

    def shared() -> bool:
        for member in members:
            member.poll()
        every = [number for each in owners for number in each.assigned]
        return len(every) == len(set(every)) == count and all(
            member.snapshot().stable for member in members
        )

    eventually(shared, lambda: sorted(len(each.assigned) for each in owners))
    assert {len(each.assigned) for each in owners} == {1}
    assert len(look(group.address, group.group_id).shares) == count
    for member in members:
        member.close()
    assert not look(group.address, group.group_id).shares
    left = [each.name for each in threading.enumerate() if group.group_id in each.name]
    assert not left


def _at(topic: str, partition: int, offset: int) -> NativePartition:
    return NativePartition(topic, partition, offset)
