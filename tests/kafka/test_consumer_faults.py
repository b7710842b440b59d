"""Our consumers in both group protocols under users' code that misbehaves: listeners, Ctrl-C, cancelled tasks."""

import asyncio
import random
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Message
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.aio import AsyncGroupConsumer
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.errors import CommitFailedError, RebalanceInProgressError
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.state import ConsumerMemberState
from groupsdk.types import ProtocolMetadata
from tests.kafka.migrating_group import Load, look, place
from tests.support.consumers import (
    PROTOCOLS,
    Group,
    OwnerWitness,
    await_shared,
    tell,
)
from tests.support.proxy import FaultProxy
from tests.support.topics import create_topic
from tests.support.workers import Gate, OnThread, eventually


PARTITIONS = 4

NewGroup = Callable[..., Group]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(params=PROTOCOLS)
def new_group(request: pytest.FixtureRequest, group_id: str) -> NewGroup:
    """Make the test's group, with its topic; members go straight to the broker unless told otherwise."""
    protocol, _, where = request.param.partition(" on ")

    def make(**more: Any) -> Group:
        address = request.getfixturevalue(where or "paced_kafka").bootstrap_servers
        topic = f"t-{group_id}"
        create_topic(address, topic, PARTITIONS)
        given = {"servers": address} | more
        return Group(protocol, group_id, topic, address=address, **given).configure()

    return make


consumer_protocol_alone = pytest.mark.parametrize("new_group", ["consumer"], indirect=True)
on_both_brokers = pytest.mark.parametrize(
    "new_group", [*PROTOCOLS, "consumer on paced_embedded"], indirect=True
)


class TestListener:
    @pytest.mark.parametrize("callback", ["assigned", "revoked", "lost"])
    def test_listener_that_raises_is_raised_once_and_the_group_goes_on(
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

    @on_both_brokers
    def test_listener_that_hangs_past_the_rebalance_timeout_loses_its_partitions(
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


@on_both_brokers
def test_a_caller_away_for_longer_than_max_poll_interval_comes_back(new_group: NewGroup) -> None:
    group = new_group()
    with (
        group.consumer(max_poll_interval_ms=6_000) as away,
        group.consumer() as other,
        OwnerWitness(away, other) as witness,
        Gate() as gate,
    ):
        await_shared(PARTITIONS, away, other)
        member_id = away.consumer.member_id()
        away.away = gate.wait
        await_shared(PARTITIONS, other)
        assert not away.acts_on
        assert away.consumer.generation_if_stable() is None
        if group.protocol == "consumer":
            assert away.consumer.snapshot().consumer_state is ConsumerMemberState.STALE
        gate.open()
        await_shared(PARTITIONS, away, other)
        assert len(away.heard("lost")) == 1
        if group.protocol == "consumer":
            assert away.consumer.member_id() == member_id
            reasons = [each.reason for each in away.consumer.events()]
            assert any("has not polled for 6000 ms" in each for each in reasons)
        witness.check()
    assert not [*away.errors, *other.errors]


# by a thread: the limit's own alarm is taken here
@pytest.mark.timeout(300, method="thread")
def test_a_ctrl_c_at_any_moment_loses_no_record(new_group: NewGroup) -> None:
    group = new_group(more={"auto.commit.interval.ms": 50})
    listener = Owner()
    seen: set[tuple[int, int]] = set()
    chance = random.Random(0)
    raised = 0

    def interrupt(*_: object) -> None:
        nonlocal raised
        raised += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with (
            Load(group.address, group.topic, PARTITIONS) as load,
            ComingAndGoing(group) as other,
            GroupConsumer(group.settings()) as consumer,
        ):
            consumer.subscribe(group.topic, listener=listener)
            interrupted = 0
            while interrupted < 200 or other.rounds < 4:
                found: list[Message] = []
                earlier = raised
                try:
                    # ever slower after the first: a busy machine gets nothing done in between
                    slower = max(1.0, interrupted / 200)
                    signal.setitimer(signal.ITIMER_REAL, slower * (0.001 + chance.random() / 50))
                    # Python drops what is raised in a finalizer: the loop ends with that one, too
                    while raised == earlier:
                        found = consumer.consume(10, 0.01)
                        seen |= {place(each) for each in found}
                        found = []
                except KeyboardInterrupt:
                    interrupted += 1
                    seen |= {place(each) for each in found}
            signal.setitimer(signal.ITIMER_REAL, 0)
            other.stop()
            written = load.end()

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

    async def run(load: Load, other: ComingAndGoing) -> None:
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
            written = load.end()
            for _ in range(1_000):
                seen.update(place(each) for each in await consumer.consume(100, 0.05))
                if len(listener.owned) == PARTITIONS and written <= seen | other.seen:
                    break
            assert written <= seen | other.seen
            assert {each.partition for each in consumer.assignment()} == listener.owned

    with Load(group.address, group.topic, PARTITIONS) as load, ComingAndGoing(group) as other:
        asyncio.run(run(load, other))
    assert not other.errors


class Owner:
    """A listener that keeps what its consumer owns."""

    def __init__(self) -> None:
        self.owned: set[int] = set()

    def on_partitions_assigned(self, given: Sequence[TopicPartition]) -> None:
        self.owned |= {each.partition for each in given}

    def on_partitions_revoked(self, given: Sequence[TopicPartition]) -> None:
        self.owned -= {each.partition for each in given}


class ComingAndGoing(OnThread):
    """A second member that joins, gets its share, and leaves, again and again."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.rounds = 0
        self.seen: set[tuple[int, int]] = set()
        self.errors: list[BaseException] = []
        self._group = group

    @override
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
def test_200_members_in_one_process_own_each_partition_once_and_leave(new_group: NewGroup) -> None:
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
