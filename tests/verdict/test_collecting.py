"""Plants faults in real groups, on the embedded broker and on Kafka, and checks that each is found by its rule."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.groups import describe_group
from groupsdk.admin.watching import watch_cluster
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock, WallClock
from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.verdict import (
    Finding,
    GroupVerdict,
    KnownLog,
    ObstacleKind,
    Severity,
    VerdictKeeper,
    judge,
)
from groupsdk.verdict.collecting import observe_groups
from groupsdk.verdict.log_follower import LogFollower
from tests.conftest import StartKafka
from tests.support.brokers import QUICK_RESTART
from tests.support.workers import TIMEOUT_S, eventually


pytestmark = pytest.mark.timeout(600)

SETTLED_MS = 120_000
"""How much later it is looked at: members that have been the same for a minute are judged."""
PAUSING = """
import sys
from confluent_kafka import Consumer, TopicPartition
servers, group, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": servers, "group.id": group, "client.id": "pausing", "enable.auto.commit": False,
    "session.timeout.ms": 1500, "heartbeat.interval.ms": 200, "max.poll.interval.ms": 300000,
})
consumer.subscribe([topic])
count = 0
while True:
    consumer.poll(0.1)
    count += 1
    try:
        consumer.commit(offsets=[
            TopicPartition(topic, each.partition, count) for each in consumer.assignment()
        ], asynchronous=False)
    except Exception:
        pass
"""
"""A consumer that commits ten times a second, for as long as it is not stopped."""
POWERLESS = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "mallory",
    "sasl.password": "mallory-secret",
}
"""The settings of a client without any right."""
CLASSIC = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
QUICK = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(QUICK, nodes=2) as broker:
        yield broker


@pytest.fixture(scope="module")
def real(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(properties=QUICK) as started:
        yield started


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def servers(request: pytest.FixtureRequest) -> str:
    """Where the broker answers."""
    fixture = {"embedded": "embedded", "kafka": "real"}[request.param]
    found: str = request.getfixturevalue(fixture).bootstrap_servers
    return found


class Group:
    """A group of librdkafka's consumers, which all poll on one thread, and its topic."""

    def __init__(self, servers: str, partitions: int) -> None:
        self.servers = servers
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.name}-topic"
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._producer = Producer({"bootstrap.servers": servers})
        self._members: list[Consumer] = []
        self._silent: list[Consumer] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self.create(self.topic, partitions)
        self._thread.start()

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT_S)
        # librdkafka may wait for ever for a coordinator that is gone
        closing = [
            threading.Thread(target=each.close, daemon=True)
            for each in (*self._members, *self._silent)
        ]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(TIMEOUT_S)

    def _poll(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                for each in self._members:
                    message = each.poll(0.01)
                    if message is not None and message.error() is None:
                        with contextlib.suppress(Exception):
                            each.commit(message=message, asynchronous=False)
            self._ended.wait(0.01)

    def create(self, topic: str, partitions: int) -> None:
        for each in self._admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            each.result(TIMEOUT_S)

    def grow(self, partitions: int) -> None:
        for each in self._admin.create_partitions([NewPartitions(self.topic, partitions)]).values():
            each.result(TIMEOUT_S)

    def produce(self, count: int, *, at_ms: int = 0, partition: int = 0) -> None:
        for _ in range(count):
            self._producer.produce(self.topic, b"x", partition=partition, timestamp=at_ms)
            self._producer.poll(0)
        assert not self._producer.flush(TIMEOUT_S)

    def join(
        self, client: str, *, topic: str | None = None, waits: bool = True, **settings: Any
    ) -> Consumer:
        """Start a member; returns once it has an assignment, unless it does not wait for one."""
        given: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "group.id": self.name,
            "client.id": client,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **({} if "group_protocol" in settings else CLASSIC),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        assigned = threading.Event()
        member = Consumer(given)
        member.subscribe([topic or self.topic], on_assign=lambda *_: assigned.set())
        with self._lock:
            self._members.append(member)
        if waits:
            assert assigned.wait(TIMEOUT_S)
        return member

    def silence(self, member: Consumer) -> None:
        """Stop polling a member, which goes on heartbeating."""
        with self._lock:
            self._members.remove(member)
            self._silent.append(member)

    def leave(self, member: Consumer) -> None:
        with self._lock:
            self._members.remove(member)
        member.close()

    def clients(self) -> set[str]:
        """Return the client ids of the members, as the coordinator describes them."""

        async def look() -> set[str]:
            async with ClusterClient({"bootstrap.servers": self.servers}) as client:
                described = await describe_group(client, self.name)
            is_stable = described.state == "Stable"
            return {each.client_id for each in described.members} if is_stable else set()

        return asyncio.run(look())

    def judged(self, later_ms: int = SETTLED_MS) -> GroupVerdict:
        """Judge the group as it would be later, if nothing happened until then."""
        return verdict_of(self.servers, self.name, later_ms)

    def found(self, rule: str, later_ms: int = SETTLED_MS) -> Finding:
        """Wait until the group's verdict has a finding of a rule."""

        def look() -> Finding | None:
            verdict = self.judged(later_ms)
            return next((each for each in verdict.findings if each.rule == rule), None)

        return eventually(look, lambda: self.judged(later_ms))


def watched(servers: str, name: str) -> Mapping[str, Finding]:
    """Look at a group once as watchers do, when they have read the log; returns the findings by rule."""

    async def look() -> GroupVerdict:
        settings = {"bootstrap.servers": servers}
        log = LogFollower(settings, [name])
        async with ClusterClient(settings) as client, log.beside(), asyncio.timeout(TIMEOUT_S):
            await log.has_read()
            view = await anext(watch_cluster(client, [name]))
            return VerdictKeeper().observe(view, known=log.known)[name]

    return {each.rule: each for each in asyncio.run(look()).findings}


def verdict_of(
    servers: str,
    name: str,
    later_ms: int = 0,
    *,
    timeout_s: float = TIMEOUT_S,
    patience_s: float = 15.0,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> GroupVerdict:
    clock = ManualClock(WallClock().now_ms() + later_ms)

    async def look() -> GroupVerdict:
        asked = {"bootstrap.servers": servers, **settings}
        async with ClusterClient(asked, timeout_s=patience_s) as client:
            [seen] = await observe_groups(client, [name], timeout_s=timeout_s, clock=clock)
            return judge(seen)

    return asyncio.run(look())


@pytest.fixture
def group(servers: str) -> Iterator[Callable[[int], Group]]:
    """Makes a group with a topic of some partitions."""
    with contextlib.ExitStack() as stack:
        yield lambda partitions: stack.enter_context(Group(servers, partitions))


MakeGroup = Callable[[int], Group]


def test_lag_without_members(group: MakeGroup) -> None:
    sick = group(1)
    sick.produce(6)
    member = sick.join("a")
    eventually(lambda: member.committed([*member.assignment()])[0].offset == 6)
    sick.leave(member)
    sick.produce(1_194)

    finding = sick.found("lag_without_members")

    assert finding.severity is Severity.CRITICAL
    assert "1,194 records behind in 1 partition, and no members" in finding.saw


def test_growing_lag(group: MakeGroup) -> None:
    sick = group(1)
    sick.produce(1)
    member = sick.join("a")
    eventually(lambda: member.committed([*member.assignment()])[0].offset == 1)
    sick.silence(member)
    # records of the next 25 minutes, none of which is read
    now_ms = WallClock().now_ms()
    for minute in range(1, 25):
        sick.produce(50, at_ms=now_ms + 60_000 * minute)

    finding = sick.found("growing_lag", 25 * 60_000)

    assert finding.severity is Severity.CRITICAL
    assert "0 are read" in finding.saw


def test_a_flapping_member(group: MakeGroup) -> None:
    sick = group(4)
    sick.join("steady")
    for _ in range(4):
        sick.leave(sick.join("flapper"))

    finding = sick.found("flapping_member")

    assert "flapper at" in finding.saw
    assert "came and went" in finding.saw
    assert "flapper at" in watched(sick.servers, sick.name)["flapping_member"].saw


def test_an_exceeded_poll_interval(group: MakeGroup) -> None:
    sick = group(2)
    sick.join("other")
    slow = sick.join("slow", max_poll_interval_ms=13_000)
    eventually(lambda: len(slow.assignment()) == 1)
    for count in range(1, 6):  # it commits regularly until then
        sick.produce(1, partition=slow.assignment()[0].partition)
        eventually(lambda n=count: slow.committed([*slow.assignment()])[0].offset == n)  # type: ignore[misc]
    sick.silence(slow)

    finding = sick.found("poll_interval_exceeded")

    assert "max.poll.interval.ms is 13000" in finding.saw
    assert "max.poll.interval.ms to 26000" in finding.change
    assert watched(sick.servers, sick.name)["poll_interval_exceeded"].saw == finding.saw


def test_static_twins(group: MakeGroup) -> None:
    sick = group(2)
    for number in range(5):
        twin = sick.join(f"process-{number % 2}", group_instance_id="i-1")
        eventually(lambda one=twin: len(one.assignment()) == 2)  # type: ignore[misc]
        # its supervisor would start it again once it is fenced
        sick.silence(twin)

    finding = sick.found("static_twins")

    # Kafka keeps the client and the host of the first
    assert "group.instance.id i-1 was taken over" in finding.saw
    assert "process-0 at" in finding.saw


def test_unbalanced_partitions(group: MakeGroup) -> None:
    sick = group(5)
    other = f"{sick.topic}-other"
    sick.create(other, 1)
    sick.join("busy")
    sick.join("idle", topic=other)

    finding = sick.found("unbalanced")

    assert "has 5 partitions" in finding.saw


def test_unread_partitions(group: MakeGroup) -> None:
    sick = group(2)
    sick.join("a", topic_metadata_refresh_interval_ms=3_600_000)
    sick.grow(3)

    finding = sick.found("unread_partitions")

    assert f"{sick.topic}-2" in finding.saw


def test_more_members_than_partitions(group: MakeGroup) -> None:
    sick = group(1)
    for name in "abc":
        sick.join(name, waits=name == "a")

    finding = sick.found("spare_members")

    assert "3 members for 1 partition" in finding.saw


def test_a_session_too_short_for_its_pauses(group: MakeGroup) -> None:
    sick = group(2)
    sick.join("steady")
    arguments = [sys.executable, "-c", PAUSING, sick.servers, sick.name, sick.topic]
    with subprocess.Popen(arguments) as process:
        try:
            for _ in range(3):
                eventually(lambda: sick.clients() == {"steady", "pausing"})
                process.send_signal(signal.SIGSTOP)
                eventually(lambda: sick.clients() == {"steady"})
                process.send_signal(signal.SIGCONT)
            eventually(lambda: sick.clients() == {"steady", "pausing"})
        finally:
            process.kill()

    finding = sick.found("session_too_short")

    assert "session.timeout.ms" in finding.change


def test_an_assignor_that_not_all_members_offer(group: MakeGroup) -> None:
    sick = group(2)
    sick.join("old", partition_assignment_strategy="range,roundrobin")
    for _ in range(3):
        sick.leave(sick.join("new", partition_assignment_strategy="roundrobin"))

    finding = sick.found("mixed_assignors")

    assert "range -> roundrobin -> range" in finding.saw
    seen_by_watchers = watched(sick.servers, sick.name)["mixed_assignors"].saw
    assert "range -> roundrobin -> range" in seen_by_watchers


def test_a_migration_that_stands_still(group: MakeGroup) -> None:
    sick = group(2)
    sick.join("old")
    sick.join("new", group_protocol="consumer")

    finding = sick.found("mixed_protocols", 3_600_000)

    assert "1 of 2 members speak the classic protocol" in finding.saw


def test_offsets_about_to_expire(group: MakeGroup) -> None:
    sick = group(1)
    sick.produce(1)
    member = sick.join("a")
    eventually(lambda: member.committed([*member.assignment()])[0].offset == 1)
    sick.leave(member)

    days = 24 * 3_600_000
    finding = sick.found("offsets_expiring", round(6.8 * days))

    assert "offsets.retention.minutes of the brokers is 10080" in finding.saw


def test_a_silent_broker() -> None:
    # the group's coordinator cannot be asked where it is: nobody answers
    with socket.create_server(("127.0.0.1", 0)) as silent:
        verdict = verdict_of(
            f"127.0.0.1:{silent.getsockname()[1]}",
            "g",
            timeout_s=0.5,
        )

    assert [each.rule for each in verdict.findings] == ["broker_unavailable"]
    assert "no answer within 0.5 s" in verdict.findings[0].saw


def test_a_group_without_a_coordinator(embedded: EmbeddedBroker) -> None:
    fault = embedded.faults.answer(
        "FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE, times=None
    )
    try:
        verdict = verdict_of(embedded.bootstrap_servers, "g", patience_s=0.3)
    finally:
        fault.remove()

    [finding] = verdict.findings
    assert finding.rule == "coordinator_unavailable"
    assert finding.severity is Severity.CRITICAL
    assert "kafka-acls" not in finding.change


def test_a_real_group_whose_coordinator_is_silent_and_then_gone(own_kafka: StartKafka) -> None:
    # each partition of the groups' log is on one node alone, and nobody else takes its groups over
    alone = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "6"}
    kafka = own_kafka(nodes=3, properties={**QUICK, **QUICK_RESTART, **alone})

    async def coordinator(name: str) -> int:
        async with ClusterClient({"bootstrap.servers": kafka.bootstrap_servers}) as client:
            return await client.coordinator(name)

    name = "g"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(TIMEOUT_S)
    with Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": name}) as member:
        member.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    number = asyncio.run(coordinator(name))
    node = next(each for each in kafka.nodes if each.node_id == number)

    def judged() -> GroupVerdict:
        return verdict_of(kafka.bootstrap_servers, name, timeout_s=6, patience_s=2)

    def findings(rule: str) -> list[Finding]:
        return [each for each in judged().findings if each.rule == rule]

    eventually(lambda: not findings("coordinator_unavailable"), judged)
    node.pause()
    [silent] = judged().findings
    assert silent.rule in ("broker_unavailable", "coordinator_unavailable")
    assert silent.severity is Severity.CRITICAL
    assert "its members" in silent.saw or "no coordinator" in silent.saw

    node.kill()
    [gone] = eventually(lambda: findings("coordinator_unavailable"), judged)
    assert gone.severity is Severity.CRITICAL
    assert "the group has no coordinator" in gone.saw
    assert "start the brokers that have the group's partition of __consumer_offsets" in gone.change

    node.start()
    eventually(lambda: not findings("coordinator_unavailable"), judged)


def test_a_broker_that_stops_answering_for_one_question(embedded: EmbeddedBroker) -> None:
    fault = embedded.faults.drop("OffsetFetch", times=None)
    try:
        verdict = verdict_of(embedded.bootstrap_servers, "g", timeout_s=1)
    finally:
        fault.remove()

    [finding] = verdict.findings
    assert finding.rule == "broker_unavailable"
    assert "its committed offsets: no answer within 1 s" in finding.saw


def test_a_missing_right_is_named(secure_kafka: LocalKafka) -> None:
    verdict = verdict_of(
        secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT"),
        "g",
        settings=POWERLESS,
    )

    [finding] = verdict.findings
    assert finding.rule == "missing_right"
    assert finding.severity is Severity.WARNING
    assert "DESCRIBE on group g" in finding.saw
    assert "--operation Describe --group g" in finding.change


def test_log_that_may_not_be_read_is_said_once(secure_kafka: LocalKafka) -> None:
    async def look() -> KnownLog:
        log = LogFollower(
            {
                "bootstrap.servers": secure_kafka.bootstrap_servers_of("SASL_PLAINTEXT"),
                **POWERLESS,
            }
        )
        async with log.beside(), asyncio.timeout(TIMEOUT_S):
            await log.has_read()
        return log.known

    known = asyncio.run(look())

    assert known.problem is not None
    assert known.problem.kind is ObstacleKind.RIGHT
    assert "READ on topic __consumer_offsets; what was before is unknown" in known.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_works_is_silent(group: MakeGroup, protocol: str) -> None:
    well = group(4)
    settings: dict[str, Any] = {"group_protocol": "consumer"} if protocol == "consumer" else {}
    members = [well.join(name, **settings) for name in ("a", "b")]
    eventually(lambda: [len(each.assignment()) for each in members] == [2, 2])
    for partition in range(4):
        well.produce(200, partition=partition)

    eventually(lambda: not well.judged().findings, lambda: well.judged())
    assert not watched(well.servers, well.name)
    # and while one of them is replaced
    well.leave(members[1])
    well.join("b", **settings)
    assert not well.judged(0).findings
