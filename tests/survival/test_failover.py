"""Tests clients of a cluster whose nodes stop and whose coordinators move: nothing is lost, nobody hangs."""

import contextlib
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer
from typing_extensions import override

from assignors import assign_range
from groupsdk import AbstractCoordinator, GroupMembers
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import Deadline, SystemClock


_NODES: Final = 3
_SHARDS: Final = [f"shard-{number}" for number in range(8)]
_PARTITIONS: Final = 4
_END_MS: Final = 120_000


@pytest.fixture
def cluster() -> Iterator[EmbeddedBroker]:
    """Three nodes with a topic `t`."""
    with EmbeddedBroker(nodes=_NODES, topics={"t": _PARTITIONS}) as running:
        yield running


class Reader(threading.Thread):
    """A consumer of a group that counts the values it gets, until it is told to stop."""

    def __init__(self, broker: EmbeddedBroker, counts: Counter[bytes]) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._counts = counts
        self.stopped = threading.Event()
        self.problem: BaseException | None = None

    @override
    def run(self) -> None:
        """Consumes."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 200,
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        consumer.subscribe(["t"])
        try:
            while not self.stopped.is_set():
                for message in consumer.consume(100, 0.1):
                    error, value = message.error(), message.value()
                    if error is None and value is not None:
                        self._counts[value] += 1
                    # others pass: a broker that is not there, a coordinator that has moved
                    assert error is None or not error.fatal(), error
                self._commit(consumer)
        except BaseException as error:
            self.problem = error
            raise
        finally:
            consumer.close()

    def _commit(self, consumer: Any) -> None:
        # a commit may fail while the coordinator moves; the next one says the same and more
        consumer.commit(asynchronous=True)


def disturb(broker: EmbeddedBroker, chance: random.Random) -> None:
    """Stops a node, or moves a coordinator or a leader to another one."""
    what = chance.randrange(3)
    if what == 0:
        node = chance.randint(1, _NODES)
        broker.stop_node(node)
        broker.start_node(node)
    elif what == 1:
        broker.move_coordinator("g", chance.randint(1, _NODES))
    else:
        broker.move_leader("t", chance.randrange(_PARTITIONS), chance.randint(1, _NODES))


def test_consumers_and_producers_outlive_nodes_and_moves(cluster: EmbeddedBroker) -> None:
    counts: Counter[bytes] = Counter()
    readers = [Reader(cluster, counts) for _ in range(2)]
    for each in readers:
        each.start()
    acknowledged: set[bytes] = set()
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            acknowledged.add(message.value())
        else:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 5,
            "retry.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
    )
    chance = random.Random(4)
    for turn in range(15):
        for number in range(200):
            producer.produce("t", b"%d-%d" % (turn, number), on_delivery=delivered)
        producer.poll(0.1)
        disturb(cluster, chance)
    assert producer.flush(60) == 0
    assert not failed
    assert len(acknowledged) == 15 * 200

    deadline = Deadline(SystemClock(), _END_MS)
    while not acknowledged <= counts.keys() and not deadline.expired:
        threading.Event().wait(0.05)
    for each in readers:
        each.stopped.set()
    for each in readers:
        each.join(60)
        assert not each.is_alive()
        assert each.problem is None
    assert acknowledged - counts.keys() == set()

    # an idempotent producer wrote each of them once, whoever led meanwhile
    check = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "check",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
        }
    )
    check.subscribe(["t"])
    stored: Counter[bytes] = Counter()
    deadline = Deadline(SystemClock(), _END_MS)
    while stored.total() < len(acknowledged) and not deadline.expired:
        stored.update(m.value() or b"" for m in check.consume(500, 0.2) if m.error() is None)
    check.close()
    assert stored == Counter(acknowledged)


class Worker(AbstractCoordinator):
    """A member that holds shards, and knows when it may."""

    protocol_type = "survivor"
    shards: frozenset[str] = frozenset()

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"range": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        shares = assign_range(_SHARDS, members)
        return {member_id: json.dumps(share).encode() for member_id, share in shares.items()}

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.shards = frozenset()

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.shards = frozenset(json.loads(assignment))


def test_members_outlive_nodes_and_moves(cluster: EmbeddedBroker) -> None:
    settings = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "g",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 200,
    }
    chance = random.Random(5)
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(settings)) for _ in range(3)]

        def shared_out() -> bool:
            """Lets all members do what they have to; says whether they have shared out everything."""
            for each in workers:
                each.poll(0.01)
            fences = [each.generation_if_stable() for each in workers]
            return (
                len({fence and fence.generation_id for fence in fences}) == 1
                and None not in fences
                and sorted(shard for each in workers for shard in each.shards) == sorted(_SHARDS)
            )

        deadline = Deadline(SystemClock(), _END_MS)
        for _ in range(12):
            while not shared_out():
                assert not deadline.expired, [each.shards for each in workers]
            disturb(cluster, chance)
        while not shared_out():
            assert not deadline.expired, [each.shards for each in workers]
