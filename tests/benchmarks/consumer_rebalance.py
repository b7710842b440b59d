"""Measure how long partitions are without an owner: in a cooperative rebalance, and while all members restart."""

import argparse
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

from groupsdk.testing import LocalKafka
from tests.benchmarks.observer import create_topic
from tests.benchmarks.report import Result, spread
from tests.support.java import JavaError, JavaProgram


CLIENTS: Final = ("groupsdk", "confluent-kafka", "Java")
_JAVA: Final = Path(__file__).parent / "java" / "ConsumerFleet.java"
_JAVA_CLIENT: Final = "org.apache.kafka:kafka-clients:4.4.0"
_STRATEGY: Final = "cooperative-sticky"
_MEMBERS, _PARTITIONS = 10, 300
_TIMEOUT_S: Final = 120.0
_NOTE: Final = (
    "Heartbeats every {} ms; dynamic members, which leave and come back one after the other. From the moment that"
    " the old owner was told until the new one was; all members are threads of one process. Partitions that do"
    " not move are never without an owner. Java is kafka-clients 4.4.0."
)


class Owners:
    """Who owns what since when; what members tell, on one clock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner: dict[int, int] = {}
        self.free_since: dict[int, float] = {}
        self.gaps: list[float] = []
        """Seconds without an owner, one for each partition that moved."""
        self.given_up: list[int] = []

    def assigned(self, member: int, partitions: list[int], at_s: float | None = None) -> None:
        """Note that a member may read these from now on."""
        now = time.perf_counter() if at_s is None else at_s
        with self.lock:
            for each in partitions:
                if each in self.free_since:
                    self.gaps.append(now - self.free_since.pop(each))
                self.owner[each] = member

    def revoked(self, member: int, partitions: list[int], at_s: float | None = None) -> None:
        """Note that a member reads these no more."""
        now = time.perf_counter() if at_s is None else at_s
        with self.lock:
            for each in partitions:
                if self.owner.get(each) == member:
                    del self.owner[each]
                    self.free_since[each] = now
                    self.given_up.append(each)

    def take(self) -> list[float]:
        """Return the gaps so far, and forget them."""
        with self.lock:
            gaps, self.gaps, self.given_up = self.gaps, [], []
            return gaps


class Member:
    """One consumer on a thread of its own."""

    def __init__(self, client: str, settings: dict[str, Any], number: int, owners: Owners) -> None:
        self._stop = threading.Event()
        make = {"groupsdk": self._groupsdk, "confluent-kafka": self._confluent}[client]
        self._consumer = make(settings, number, owners)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Make it leave soon."""
        self._stop.set()

    def stop(self) -> None:
        """Leave."""
        self.ask_to_stop()
        self._thread.join(_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._consumer.consume(500, 0.1)
        with suppress(Exception):
            self._consumer.close()

    def _groupsdk(self, settings: dict[str, Any], number: int, owners: Owners) -> Any:
        from groupsdk.consumer import GroupConsumer

        consumer = GroupConsumer(settings, partition_assignment_strategy=_STRATEGY)
        consumer.subscribe(
            _topic_of(settings),
            on_assign=lambda given: owners.assigned(number, [each.partition for each in given]),
            on_revoke=lambda given: owners.revoked(number, [each.partition for each in given]),
        )
        return consumer

    def _confluent(self, settings: dict[str, Any], number: int, owners: Owners) -> Any:
        from confluent_kafka import Consumer

        consumer = Consumer(settings | {"partition.assignment.strategy": _STRATEGY})

        def on_assign(consumer: Any, given: list[Any]) -> None:
            consumer.incremental_assign(given)
            owners.assigned(number, [each.partition for each in given])

        def on_revoke(consumer: Any, given: list[Any]) -> None:
            owners.revoked(number, [each.partition for each in given])
            consumer.incremental_unassign(given)

        consumer.subscribe([_topic_of(settings)], on_assign=on_assign, on_revoke=on_revoke)
        return consumer


class JavaMember:
    """One consumer of the process that has them all."""

    def __init__(self, fleet: "JavaFleet", number: int) -> None:
        self._fleet = fleet
        self._number = number
        fleet.program.send(f"start {number}")

    def ask_to_stop(self) -> None:
        """Nothing: they end with their process."""

    def stop(self) -> None:
        """Leave."""
        self._fleet.stop(self._number)


class JavaFleet:
    """The consumers of Kafka's own client, in one process; a context manager."""

    def __init__(self, settings: dict[str, Any], owners: Owners) -> None:
        arguments = [settings["bootstrap.servers"], settings["group.id"], _topic_of(settings)]
        arguments.append(str(settings["heartbeat.interval.ms"]))
        self.program = JavaProgram(_JAVA, [_JAVA_CLIENT], arguments=arguments)
        self._owners = owners
        self._stopped: set[int] = set()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self.program.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.program.__exit__(None, None, None)
        self._thread.join(_TIMEOUT_S)

    def stop(self, number: int) -> None:
        """Have a member leave, and wait until it has."""
        self.program.send(f"stop {number}")
        wait(lambda: number in self._stopped)

    def _listen(self) -> None:
        with suppress(JavaError):
            while True:
                what, *words = self.program.receive(600_000).split(" ")
                if what == "ready":
                    continue
                if what == "stopped":
                    self._stopped.add(int(words[0]))
                    continue
                partitions = [int(each) for each in words[2].split(",") if each]
                tell = {"assigned": self._owners.assigned, "revoked": self._owners.revoked}[what]
                # System.nanoTime() is the clock of perf_counter()
                tell(int(words[1]), partitions, int(words[0]) / 1e9)


def _topic_of(settings: dict[str, Any]) -> str:
    return f"topic-{settings['group.id']}"


def wait(condition: Callable[[], bool]) -> None:
    """Wait until it holds; raises TimeoutError."""
    until = time.monotonic() + _TIMEOUT_S
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the group does not come to rest")
        time.sleep(0.01)


def rested(owners: Owners, members: list[int], partitions: int) -> Callable[[], bool]:
    """Return whether all partitions are owned by these members, each with its share."""

    def look() -> bool:
        with owners.lock:
            counts = [list(owners.owner.values()).count(each) for each in members]
        return sum(counts) == partitions and min(counts) >= partitions // len(members)

    return look


def measure_once(client: str, servers: str, heartbeat_ms: int) -> dict[str, Any]:
    """Let a group come together, a member join, and then restart them all, one after the other."""
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": f"rebalance-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 45_000,
        "heartbeat.interval.ms": heartbeat_ms,
    }
    create_topic(servers, _topic_of(settings), _PARTITIONS)
    owners = Owners()
    members: dict[int, Member | JavaMember] = {}
    stack = ExitStack()
    fleet = stack.enter_context(JavaFleet(settings, owners)) if client == "Java" else None

    def start(number: int) -> None:
        if fleet is not None:
            members[number] = JavaMember(fleet, number)
        else:
            members[number] = Member(client, settings, number, owners)

    try:
        for number in range(_MEMBERS - 1):
            start(number)
        wait(rested(owners, list(members), _PARTITIONS))
        time.sleep(2 * heartbeat_ms / 1000)
        owners.take()
        start(_MEMBERS)
        wait(rested(owners, list(members), _PARTITIONS))
        moved = owners.take()
        total = 0.0
        began = time.perf_counter()
        for number in list(members):
            members.pop(number).stop()
            start(number + 100)
            wait(rested(owners, list(members), _PARTITIONS))
            total += sum(owners.take())
        return {
            "moved": [each * 1000 for each in moved],
            "partition_seconds": total,
            "took_s": time.perf_counter() - began,
        }
    finally:
        for member in members.values():
            member.ask_to_stop()
        for member in members.values():
            member.stop()
        stack.close()


def run(kafka: LocalKafka, options: list[str], *, quick: bool) -> Result:
    """Measure both clients, in turn."""
    parser = argparse.ArgumentParser(prog="consumer_rebalance")
    parser.add_argument("--rounds", type=int, default=1 if quick else 3)
    parser.add_argument("--heartbeat-ms", type=int, default=1_000)
    given = parser.parse_args(options)
    result = Result(
        "consumer_rebalance",
        f"Time without an owner: {_MEMBERS} members, {_PARTITIONS} partitions, {_STRATEGY}",
        (
            "client",
            "a member joins: partitions moved",
            "ms without an owner, each",
            "rolling restart: partition-seconds without an owner",
            "seconds it took",
        ),
        notes=[_NOTE.format(given.heartbeat_ms)],
    )
    figures: dict[str, list[dict[str, Any]]] = {client: [] for client in CLIENTS}
    for _ in range(given.rounds):
        for client in CLIENTS:
            figures[client].append(
                measure_once(client, kafka.bootstrap_servers, given.heartbeat_ms)
            )
    for client, runs in figures.items():
        result.rows.append(
            (
                client,
                spread((len(each["moved"]) for each in runs), 0),
                spread((gap for each in runs for gap in each["moved"]), 0),
                spread((each["partition_seconds"] for each in runs), 1),
                spread((each["took_s"] for each in runs), 1),
            )
        )
    result.raw = figures
    return result.finish()
