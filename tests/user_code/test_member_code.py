"""Hold the table of docs/user-code.md for members and consumers: whatever the caller's code does, heartbeats go on."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import iscoroutine
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from typing_extensions import override

from assignors import resolve
from groupsdk import AbstractCoordinator, AsyncAbstractCoordinator, GroupMembers
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.consumer.transactions import Transaction, TransactionLoop
from groupsdk.election import LeaderElection
from groupsdk.errors import AssignmentError, AuthenticationError, ConfigError
from tests.support.workers import eventually
from tests.user_code.misdeeds import DEEDS, HANG, SPIN, WRONG, Misdeeds, error_of


pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 2}) as broker:
        yield broker


class Armed:
    """Misbehaves once, in the callback that the test names."""

    protocol_type = "odd"
    misdeeds: Misdeeds
    armed: tuple[str, str] | None = None

    def deed_at(self, where: str) -> str | None:
        if self.armed is None or self.armed[0] != where:
            return None
        deed, self.armed = self.armed[1], None
        return deed


class OddWorker(Armed, AbstractCoordinator):
    def at(self, where: str) -> Any:
        return self.misdeeds.do(self.deed_at(where))

    @override
    def metadata(self) -> Any:
        return self.at("metadata") or {"p": b""}

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> Any:
        return self.at("on_join_prepare")

    @override
    def perform_assignment(self, leader_id: str, protocol: str, members: GroupMembers) -> Any:
        return self.at("perform_assignment") or dict.fromkeys(members, b"")

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Any:
        return self.at("on_join_complete")

    @override
    def on_leave_prepare(self) -> Any:
        return self.at("on_leave_prepare")


def beaten_meanwhile(
    heartbeats: Callable[[], float], call: Callable[[], object], misdeeds: Misdeeds, deed: str
) -> None:
    """Make a call whose callback does not return, and wait until the member has heartbeat meanwhile."""
    misdeeds.over.clear()
    misdeeds.begun[deed].clear()
    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    misdeeds.await_begun(deed)
    before = heartbeats()
    eventually(lambda: heartbeats() > before + 2)
    assert calling.is_alive()
    misdeeds.over.set()
    calling.join(60)


def each_deed_stays_within_bounds(
    misdeeds: Misdeeds,
    heartbeats: Callable[[], float],
    arm: Callable[[str], object],
    call: Callable[[], object],
    wrong: type[BaseException] = TypeError,
) -> None:
    """Arm each deed, and make the call in which it is done: it is raised, or heartbeats go on until it is over."""
    for deed in DEEDS:
        arm(deed)
        if deed in (HANG, SPIN):
            beaten_meanwhile(heartbeats, call, misdeeds, deed)
            continue
        with pytest.raises(error_of(deed, wrong)):
            call()


class OddAsyncWorker(Armed, AsyncAbstractCoordinator):
    """One that hangs awaits something that never comes."""

    async def at(self, where: str) -> Any:
        return await do_async(self.misdeeds, self.deed_at(where))

    @override
    async def metadata(self) -> Any:
        return await self.at("metadata") or {"p": b""}

    @override
    async def on_join_prepare(self, generation: int, member_id: str) -> Any:
        return await self.at("on_join_prepare")

    @override
    async def perform_assignment(self, leader_id: str, protocol: str, members: GroupMembers) -> Any:
        return await self.at("perform_assignment") or dict.fromkeys(members, b"")

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Any:
        return await self.at("on_join_complete")

    @override
    async def on_leave_prepare(self) -> Any:
        return await self.at("on_leave_prepare")


async def do_async(misdeeds: Misdeeds, deed: str | None) -> Any:
    """Misbehave as a coroutine."""
    if deed == HANG:
        misdeeds.begun[deed].set()
        await asyncio.to_thread(misdeeds.over.wait, 120)
        return None
    return misdeeds.do(deed)


def done(result: Any) -> Any:
    """Return what a call of either kind of worker returns."""
    return asyncio.run(result) if iscoroutine(result) else result


@pytest.mark.parametrize("kind", [OddWorker, OddAsyncWorker])
@pytest.mark.parametrize(
    "where",
    ["metadata", "on_join_prepare", "perform_assignment", "on_join_complete", "on_leave_prepare"],
)
def test_misbehaving_callback_stays_within_bounds(
    broker: EmbeddedBroker,
    misdeeds: Misdeeds,
    where: str,
    kind: type[OddWorker] | type[OddAsyncWorker],
) -> None:
    worker = kind(
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"{kind.__name__}-{where}",
        heartbeat_interval_ms=20,
        session_timeout_ms=10_000,
        retry_backoff_ms=10,
    )
    worker.misdeeds = misdeeds

    def arm(deed: str) -> None:
        assert done(worker.ensure_active_group(60))
        worker.armed = where, deed

    def rebalance() -> None:
        if where == "on_leave_prepare":
            done(worker.leave_group("test"))
            return
        worker.request_rejoin("test")
        while not done(worker.poll(1)):
            pass

    each_deed_stays_within_bounds(
        misdeeds, lambda: worker.metrics()["heartbeat-total"], arm, rebalance
    )
    assert done(worker.ensure_active_group(60))
    done(worker.close())


class OddListener:
    """Misbehaves once, when it is told of partitions."""

    def __init__(self, misdeeds: Misdeeds) -> None:
        self.misdeeds = misdeeds
        self.armed: str | None = None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        deed, self.armed = self.armed, None
        return self.misdeeds.do(deed)


class OddAssignor:
    """The assignor `range`, which misbehaves once."""

    def __init__(self, misdeeds: Misdeeds) -> None:
        self._range = resolve("range")
        self.misdeeds = misdeeds
        self.armed: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._range, name)

    def assign(self, cluster: Any, subscriptions: Any) -> Any:
        deed, self.armed = self.armed, None
        return self.misdeeds.do(deed) or self._range.assign(cluster, subscriptions)


@pytest.mark.parametrize("kind", [OddListener, OddAssignor])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_listeners_and_assignors(
    broker: EmbeddedBroker,
    misdeeds: Misdeeds,
    kind: type[OddListener] | type[OddAssignor],
    protocol: str,
) -> None:
    if (kind, protocol) == (OddAssignor, "consumer"):
        return  # the coordinator's: see test_broker_code.py
    odd = kind(misdeeds)
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": f"{kind.__name__}-{protocol}",
        "group.protocol": protocol,
        "retry.backoff.ms": 10,
    }
    if protocol == "classic":
        settings |= {"heartbeat.interval.ms": 20, "session.timeout.ms": 10_000}
    if isinstance(odd, OddAssignor):
        settings["partition.assignment.strategy"] = odd
    with GroupConsumer(settings) as consumer:
        listener = odd if isinstance(odd, OddListener) else None

        def rebalanced() -> None:
            # a changed subscription hands out its partitions again in either protocol
            consumer.unsubscribe()
            consumer.subscribe("t", listener=listener)
            while not consumer.assignment():
                consumer.poll(0.1)

        rebalanced()
        each_deed_stays_within_bounds(
            misdeeds,
            lambda: consumer.metrics()["heartbeat-total"],
            partial(setattr, odd, "armed"),
            rebalanced,
            TypeError if isinstance(odd, OddListener) else AssignmentError,
        )
        rebalanced()
        assert len(consumer.assignment()) == 2


class OddAsyncListener(OddListener):
    """Misbehaves as a coroutine."""

    @override
    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        deed, self.armed = self.armed, None
        return await do_async(self.misdeeds, deed)


@pytest.mark.parametrize("kind", [OddListener, OddAsyncListener])
def test_listeners_with_asyncio(
    broker: EmbeddedBroker, misdeeds: Misdeeds, kind: type[OddListener]
) -> None:
    listener = kind(misdeeds)
    consumer = AsyncGroupConsumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": kind.__name__,
            "retry.backoff.ms": 10,
            "heartbeat.interval.ms": 20,
            "session.timeout.ms": 10_000,
        }
    )

    async def rebalanced() -> None:
        await consumer.unsubscribe()
        await consumer.subscribe("t", listener=listener)
        while not consumer.assignment():
            await consumer.poll(0.1)

    asyncio.run(rebalanced())
    each_deed_stays_within_bounds(
        misdeeds,
        lambda: consumer.metrics()["heartbeat-total"],
        partial(setattr, listener, "armed"),
        lambda: asyncio.run(rebalanced()),
    )
    asyncio.run(rebalanced())
    assert len(consumer.assignment()) == 2
    asyncio.run(consumer.close())


def produce_one(broker: EmbeddedBroker, topic: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, b"v", partition=partition)
    assert producer.flush(60) == 0


class OddProcessing:
    """A processor whose handler misbehaves with the record of partition 0, or has `on_error` do that."""

    def __init__(self, broker: EmbeddedBroker, misdeeds: Misdeeds, where: str, deed: str) -> None:
        self.misdeeds, self.where, self.deed = misdeeds, where, deed
        self.processed = threading.Event()
        self.consumer = GroupConsumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": f"{where}-{deed}",
                "auto.offset.reset": "earliest",
                "enable.auto.offset.store": False,
            }
        )
        self.processor = PartitionProcessor(
            self.consumer, self.handle, on_error=self.on_error, revoke_timeout=0.2
        )
        self.processor.subscribe(deed)

    def handle(self, message: Message) -> Any:
        if message.partition() == 1:
            self.processed.set()
            return None
        if self.where == "on_error":
            raise LookupError("for on_error")
        return self.misdeeds.do(self.deed)

    def on_error(self, message: Message, error: Exception) -> Any:
        return self.misdeeds.do(self.deed) if self.where == "on_error" else False

    def step_until(self, event: threading.Event) -> None:
        while not event.is_set():
            self.processor.step()

    def run(self) -> None:
        self.step_until(threading.Event())


@pytest.mark.parametrize("where", ["handler", "on_error"])
def test_misbehaving_partition_processor_stays_within_bounds(
    misdeeds: Misdeeds, where: str
) -> None:
    with EmbeddedBroker(topics=dict.fromkeys(DEEDS, 2)) as broker:
        for deed in DEEDS:
            odd = OddProcessing(broker, misdeeds, where, deed)
            produce_one(broker, deed)
            if deed in (HANG, SPIN):
                odd.step_until(misdeeds.begun[deed])
                # the other partition goes on, and closing does not wait for ever
                produce_one(broker, deed, 1)
                odd.step_until(odd.processed)
                odd.processor.close()
                assert not misdeeds.over.is_set()
                continue
            with pytest.raises(error_of(deed)):
                odd.run()
            (found,) = odd.consumer.committed([TopicPartition(deed, 0)])
            assert found.offset < 0
            odd.processor.close()


def test_misbehaving_transaction_loop_handler_stays_within_bounds(misdeeds: Misdeeds) -> None:
    with EmbeddedBroker(topics={"t": 1, "out": 1}) as broker:
        armed: list[str] = []

        def handle(records: Sequence[Message], transaction: Transaction) -> Any:
            transaction.produce("out", value=b"v")
            return misdeeds.do(armed.pop() if armed else None)

        with GroupConsumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 20,
                "session.timeout.ms": 10_000,
            }
        ) as consumer:
            consumer.subscribe("t")
            producer = Producer(
                {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"}
            )
            loop = TransactionLoop(consumer, producer, handle)

            def committed() -> None:
                while not loop.step():
                    pass

            for deed in DEEDS:
                armed[:] = [deed]
                produce_one(broker, "t")
                if deed in (HANG, SPIN):
                    beaten_meanwhile(
                        lambda: consumer.metrics()["heartbeat-total"], committed, misdeeds, deed
                    )
                    continue
                with pytest.raises(error_of(deed)):
                    committed()
                committed()  # the same record: the aborted batch comes again


@pytest.mark.parametrize("name", ["sasl_oauth_token_provider", "sasl_credentials_provider"])
def test_misbehaving_credential_provider_stays_within_bounds(misdeeds: Misdeeds, name: str) -> None:
    settings = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.oauthbearer.unsecured": "true",
    }
    mechanism = "PLAIN" if name == "sasl_credentials_provider" else "OAUTHBEARER"
    with EmbeddedBroker(settings) as broker:
        for deed in DEEDS:
            member: dict[str, Any] = {
                "bootstrap_servers": broker.bootstrap_servers,
                "group_id": "g",
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": mechanism,
                "request_timeout_ms": 2_000,
                name: partial(misdeeds.do, deed),
            }
            with OddWorker(**member) as worker:
                worker.misdeeds = misdeeds
                if deed in (HANG, SPIN):
                    # a call returns at its timeout, and `close` does not wait for the provider
                    assert not worker.ensure_active_group(0.5)
                    misdeeds.await_begun(deed)
                    continue
                with pytest.raises((AuthenticationError, ConfigError)) as raised:
                    worker.ensure_active_group(60)
                assert name in str(raised.value)


def _set(event: threading.Event, _: object) -> None:
    event.set()


def _beats(election: LeaderElection) -> float:
    return election._coordinator.metrics()["heartbeat-total"]


def _beaten(election: LeaderElection, before: float) -> bool:
    return _beats(election) > before + 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("where", ["on_elected", "on_lost"])
def test_misbehaving_election_callback_stays_within_bounds(
    broker: EmbeddedBroker, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    for deed in DEEDS:
        misdeeds = Misdeeds()
        election = LeaderElection(
            f"{where}-{deed}",
            bootstrap_servers=broker.bootstrap_servers,
            heartbeat_interval_ms=20,
            session_timeout_ms=10_000,
        )

        def odd(*_: object, deed: str = deed, misdeeds: Misdeeds = misdeeds) -> Any:
            return misdeeds.do(deed)

        getattr(election, where)(odd)
        led = threading.Event()
        if where == "on_lost":
            election.on_elected(partial(_set, led))
        election.start()
        if where == "on_lost":
            assert led.wait(60)
            election.resign()
        misdeeds.await_begun(deed)
        if deed in (HANG, SPIN):
            if where == "on_elected":
                eventually(partial(_beaten, election, _beats(election)))
            misdeeds.over.set()
        elif deed in ("raises", "CancelledError", "Failed", WRONG):
            eventually(lambda: "the callback raised; the election goes on" in caplog.text)
            assert election.snapshot().trouble is None
        else:
            # `sys.exit()` in a callback ends the election, which gives up its leadership and says so
            eventually(election._stopped.is_set)
            assert f"election {where}-{deed}: the callback raised; the election ends" in caplog.text
        caplog.clear()
        assert election.stop()
