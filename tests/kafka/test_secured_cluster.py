"""Members and a consumer on three nodes with TLS and SCRAM: rolling restarts, kills, hangs, elections, new passwords."""

import contextlib
import logging
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Self

import pytest
from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, and not in its __all__
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from typing_extensions import override

from groupsdk.consumer import GroupConsumer
from groupsdk.errors import AuthenticationError, GroupSdkError
from groupsdk.testing import LocalKafka
from groupsdk.testing.node import Node
from tests.support.brokers import (
    QUICK_RESTART,
    await_in_sync,
    running_again,
    telling_of_brokers,
)
from tests.support.topics import create_topic
from tests.support.workers import (
    TIMEOUT_S,
    Driven,
    OnThread,
    RecordingMember,
    Witness,
    await_active,
    await_stable,
    eventually,
)


_SOCKET_MS = 3_000
PASSWORD = "alice-secret"

pytestmark = pytest.mark.timeout(240)  # nodes start and stop; none of it takes long by itself


@pytest.fixture(scope="module")
def _secured(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(
        nodes=3, listeners=("SASL_SSL", "PLAINTEXT"), properties=QUICK_RESTART
    ) as kafka:
        yield kafka


@pytest.fixture
def cluster(_secured: LocalKafka) -> Iterator[LocalKafka]:
    """Three nodes that the test may kill, stop and restart; all run again after it."""
    with running_again(_secured):
        yield _secured


def _settings(kafka: LocalKafka, group_id: str, **settings: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap_servers_of("SASL_SSL"),
        "group_id": group_id,
        "security_protocol": "SASL_SSL",
        "ssl_ca_location": str(kafka.ca_file),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": PASSWORD,
        "session_timeout_ms": 20_000,
        "heartbeat_interval_ms": 200,
        # what waits for one of these does not end within a test
        "socket_connection_setup_timeout_ms": 600_000,
        "request_timeout_ms": 600_000,
        **settings,
    }


class Reading(OnThread):
    """A consumer that is polled on a thread of its own, and what it has read."""

    def __init__(self, topic: str, **settings: Any) -> None:
        super().__init__()
        # librdkafka waits for a leader that hangs for a minute, unless told otherwise
        self.consumer = GroupConsumer(
            auto_offset_reset="earliest",
            socket_timeout_ms=_SOCKET_MS,
            logger=logging.getLogger("librdkafka"),
            **settings,
        )
        self.consumer.subscribe(topic)
        self.values: set[bytes] = set()
        self.errors: list[BaseException] = []

    @override
    def stop(self) -> None:
        super().stop()
        self.consumer.close(1.0)

    @override
    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                for message in self.consumer.consume(100, 0.2):
                    if message.error() is None:
                        self.values.add(message.value() or b"")
            except GroupSdkError as error:
                self.errors.append(error)


class _RecentLines:
    """Keeps the newest lines of a client's log, which may come by the thousand; the client's setting `logger`."""

    def __init__(self) -> None:
        self._lines = deque[str](maxlen=400)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Keep a line, with the time."""
        when = datetime.now(UTC).time()
        self._lines.append(f"{when} {level} {message % arguments if arguments else message}")

    @override
    def __str__(self) -> str:
        return "\n".join(self._lines)


class Load:
    """Two members and a consumer at work, and records that are written for it."""

    def __init__(self, kafka: LocalKafka, group_id: str) -> None:
        self.kafka = kafka
        quiet: dict[str, Any] = {
            "logger": logging.getLogger("librdkafka"),
            "socket.timeout.ms": _SOCKET_MS,
        }
        servers = {"bootstrap.servers": kafka.bootstrap_servers_of("PLAINTEXT")}
        self.admin = AdminClient(servers | quiet)
        self.topic = f"t-{group_id}"
        create_topic(servers["bootstrap.servers"], self.topic, 3, 3)
        self._producer_log = _RecentLines()
        told = {"debug": "broker,topic,metadata", "logger": self._producer_log}
        self.producer = Producer({"acks": "all"} | servers | quiet | told)
        self.written = 0
        self._stack = contextlib.ExitStack()
        self.one = self._stack.enter_context(Driven(RecordingMember(**_settings(kafka, group_id))))
        self.two = self._stack.enter_context(Driven(RecordingMember(**_settings(kafka, group_id))))
        self.witness = self._stack.enter_context(Witness(self.one.member, self.two.member))
        self.reading = self._stack.enter_context(
            Reading(self.topic, **_settings(kafka, f"{group_id}-records"))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self) -> None:
        """Write records, and wait until all brokers that are there have them."""
        for _ in range(30):
            self.producer.produce(self.topic, str(self.written).encode())
            self.written += 1
        with telling_of_brokers(self.kafka, topic=self.topic):
            left = self.producer.flush(TIMEOUT_S)
            assert left == 0, f"{left} of 30 records are left; {self._producer_log}"

    def check(self) -> None:
        """Wait until all work: heartbeats are answered, records are read; nobody was told of an error."""
        self.write()
        await_stable(self.one, self.two)
        for each in (self.one, self.two):
            _await_beats(each)
        eventually(
            lambda: len(self.reading.values) == self.written,
            lambda: f"{len(self.reading.values)} of {self.written} records read",
        )
        self.witness.check()
        assert self.one.errors == self.two.errors == self.reading.errors == []

    def elect(self) -> None:
        """Have each partition led by its first replica again, as operators do after a restart."""
        self.admin.elect_leaders(ElectionType.PREFERRED).result(TIMEOUT_S)


def _await_beats(driven: Driven, count: int = 3) -> None:
    member = driven.member
    beats = member.metrics()["heartbeat-total"]
    eventually(
        lambda: member.metrics()["heartbeat-total"] >= beats + count,
        member.snapshot,
    )
    eventually(lambda: member.snapshot().trouble is None and member.snapshot().stable)


@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_a_node_that_goes_costs_nobody_anything(
    cluster: LocalKafka, group_id: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its groups move, and back again by an election; no rebalance, no error, few lines in the log."""
    with Load(cluster, group_id) as load:
        load.check()
        caplog.set_level(logging.INFO, logger="groupsdk")
        generations = [each.member.generation() for each in (load.one, load.two)]
        node = cluster.coordinator_of(group_id)
        getattr(node, how)()
        cluster.wait_ready()
        load.check()
        _join_anew(cluster, node, group_id)
        if node.paused:
            node.resume()
        else:
            node.start()
        cluster.wait_ready()
        load.elect()
        load.check()
        if how != "pause":  # which costs a session, as nobody can tell it from a slow coordinator
            assert [each.member.generation() for each in (load.one, load.two)] == generations
        lines = [
            each.getMessage()
            for each in caplog.records
            if each.name.startswith("groupsdk.") and f"group={group_id} " in each.getMessage()
        ]
        assert len(lines) <= 2 * 40, "\n".join(lines)


def _join_anew(cluster: LocalKafka, gone: Node, group_id: str) -> None:
    """Have members join that may ask the node that is gone first, each in a group of its own."""
    other = next(node for node in cluster.nodes if node is not gone)
    servers = ",".join(node.address("SASL_SSL") for node in (gone, other))
    with contextlib.ExitStack() as stack:
        for number in range(4):
            settings = _settings(cluster, f"{group_id}-{number}", bootstrap_servers=servers)
            await_active(stack.enter_context(Driven(RecordingMember(**settings))))


def _restart_all(cluster: LocalKafka, load: Load) -> None:
    for node in cluster.nodes:
        node.restart()
        cluster.wait_ready()
        await_in_sync(cluster, load.topic)
        load.write()
    load.elect()
    load.check()


def test_a_rolling_restart(cluster: LocalKafka, group_id: str) -> None:
    with Load(cluster, group_id) as load:
        load.check()
        generations = [each.member.generation() for each in (load.one, load.two)]
        _restart_all(cluster, load)
        assert [each.member.generation() for each in (load.one, load.two)] == generations


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rolling_restarts_again_and_again_with_kills_in_between(
    cluster: LocalKafka, group_id: str
) -> None:
    with Load(cluster, group_id) as load:
        load.check()
        for round_ in range(4):
            _restart_all(cluster, load)
            for how in ("kill", "pause", "stop"):
                node = cluster.nodes[round_ % 3]
                getattr(node, how)()
                cluster.wait_ready()
                load.check()
                if node.paused:
                    node.resume()
                else:
                    node.start()
                cluster.wait_ready()
                load.elect()
                load.check()


def _set_password(load: Load, password: str) -> None:
    change = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
    )
    for future in load.admin.alter_user_scram_credentials([change]).values():
        future.result(TIMEOUT_S)


@pytest.fixture
def _password_as_before(cluster: LocalKafka) -> Iterator[None]:
    yield
    cluster.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers_of("PLAINTEXT")})
    change = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(TIMEOUT_S)


@pytest.mark.usefixtures("_password_as_before")
def test_a_password_that_changes_under_running_members(cluster: LocalKafka, group_id: str) -> None:
    passwords = [PASSWORD]

    def provider() -> tuple[str, str]:
        return "alice", passwords[-1]

    provided = _settings(cluster, f"{group_id}-provided", sasl_credentials_provider=provider)
    del provided["sasl_username"], provided["sasl_password"]
    with Load(cluster, group_id) as load, Reading(load.topic, **provided) as reading:
        load.check()
        eventually(lambda: len(reading.values) == load.written)
        generations = [each.member.generation() for each in (load.one, load.two)]
        _set_password(load, "changed")
        passwords.append("changed")
        cluster.restart()  # what is connected would stay so
        for each in (load.one, load.two, load.reading):
            eventually(lambda each=each: each.errors)  # type: ignore[misc]
            assert {type(error) for error in each.errors} == {AuthenticationError}
            assert len(each.errors) < 20, "not at every node once a second"
        for member in (load.one.member, load.two.member, load.reading.consumer):
            member.set_sasl_credentials("alice", "changed")
        eventually(lambda: not _failing(load))
        for each in (load.one, load.two, load.reading):
            each.errors.clear()
        load.check()
        assert [each.member.generation() for each in (load.one, load.two)] == generations
        eventually(
            lambda: len(reading.values) == load.written,
            lambda: f"{len(reading.values)} of {load.written}: {reading.consumer.snapshot()}",
        )
        assert reading.errors == [], "the provider had the new password in time"


def _failing(load: Load) -> bool:
    snapshots = [
        load.one.member.snapshot(),
        load.two.member.snapshot(),
        load.reading.consumer.snapshot(),
    ]
    return any(each.trouble is not None for each in snapshots)
