"""Brokers that are killed, paused, or lose their groups to another node, under members of a group."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupsdk.testing import LocalKafka
from tests.support.brokers import QUICK_RESTART, running_again
from tests.support.groups import describe_group
from tests.support.workers import (
    Driven,
    RecordingMember,
    Witness,
    await_stable,
    eventually,
)


NewMember = Callable[..., RecordingMember]


@pytest.fixture(scope="module")
def _broker(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(properties=QUICK_RESTART) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def _steady_broker(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka() as kafka:
        yield kafka


@pytest.fixture
def broker(_broker: LocalKafka) -> Iterator[LocalKafka]:
    """A broker that the test may kill and pause; it runs again after it."""
    with running_again(_broker):
        yield _broker


def _member(kafka: LocalKafka, group_id: str, **settings: Any) -> RecordingMember:
    defaults: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": group_id,
        "heartbeat_interval_ms": 100,
        "socket_connection_setup_timeout_ms": 500,
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": 200,
    }
    return RecordingMember(**(defaults | settings))


@contextlib.contextmanager
def _two_members(
    kafka: LocalKafka, group_id: str, **settings: Any
) -> Iterator[tuple[Driven, Driven]]:
    """Two driven members, watched: neither may act under a generation older than the other's."""
    with (
        Driven(_member(kafka, group_id, **settings)) as one,
        Driven(_member(kafka, group_id, **settings)) as two,
        Witness(one.member, two.member) as witness,
    ):
        await_stable(one, two)
        yield one, two
        witness.check()
        assert not one.errors
        assert not two.errors


class TestKilled:
    def test_and_back_within_the_session_nobody_rebalances(
        self, broker: LocalKafka, group_id: str
    ) -> None:
        with _two_members(broker, group_id, session_timeout_ms=60_000) as (one, two):
            generation = one.member.generation()
            callbacks = (list(one.member.callbacks), list(two.member.callbacks))
            broker.kill()
            eventually(lambda: one.member.snapshot().trouble)
            # Its session is not over, so the group cannot have expelled it.
            assert one.member.generation_if_stable() == generation
            broker.start()
            for each in (one, two):
                _await_beats(each)
            assert one.member.generation_if_stable() == generation
            assert (one.member.callbacks, two.member.callbacks) == callbacks
            assert describe_group(broker.bootstrap_servers, group_id).state == "Stable"

    def test_for_longer_than_the_session_nobody_acts_and_all_come_back(
        self, broker: LocalKafka, group_id: str
    ) -> None:
        with _two_members(broker, group_id, session_timeout_ms=1_000) as (one, two):
            before = one.member.generation().generation_id
            broker.kill()
            for each in (one, two):
                _await_doubt(each)
                # of the two threads, the one that has the connection may run later
                eventually(lambda each=each: each.member.snapshot().trouble)  # type: ignore[misc]
            broker.start()
            assert await_stable(one, two) >= before

    def test_while_a_join_is_parked(self, broker: LocalKafka, group_id: str) -> None:
        with _two_members(broker, group_id, session_timeout_ms=8_000) as (one, two):
            before = one.member.generation().generation_id
            two.crash()
            # The coordinator waits for the one that fell silent, and is killed meanwhile.
            one.member.protocols = [("v0", b"changed")]
            one.member.request_rejoin("to wait")
            eventually(lambda: one.member.snapshot().rejoin_pending)
            broker.kill()
            broker.start()
            assert await_stable(one) > before


class TestPaused:
    @pytest.fixture
    def broker(self, _steady_broker: LocalKafka) -> Iterator[LocalKafka]:
        """A broker that a pause of seconds does not fence: its groups stay where they are."""
        with running_again(_steady_broker):
            yield _steady_broker

    def test_for_shorter_than_the_session_costs_nothing(
        self, broker: LocalKafka, group_id: str
    ) -> None:
        with _two_members(broker, group_id, session_timeout_ms=30_000) as (one, two):
            generation = one.member.generation()
            callbacks = (list(one.member.callbacks), list(two.member.callbacks))
            broker.pause()
            # No heartbeat follows one that is not answered.
            eventually(lambda: one.member.metrics()["last-heartbeat-seconds-ago"] >= 1)
            assert one.member.generation_if_stable() == generation
            broker.resume()
            for each in (one, two):
                _await_beats(each)
            assert one.member.generation_if_stable() == generation
            assert (one.member.callbacks, two.member.callbacks) == callbacks

    def test_for_longer_than_the_session_nobody_acts_and_all_come_back(
        self, broker: LocalKafka, group_id: str
    ) -> None:
        with _two_members(broker, group_id, session_timeout_ms=1_000) as (one, two):
            before = one.member.generation().generation_id
            broker.pause()
            for each in (one, two):
                _await_doubt(each)
            broker.resume()
            assert await_stable(one, two) >= before


def _await_doubt(driven: Driven) -> None:
    """Wait until the member itself takes it for possible that it is out."""
    eventually(lambda: driven.member.generation_if_stable() is None)


def _await_coordinator(driven: Driven, kafka: LocalKafka, group_id: str) -> None:
    """Wait until the member has found its coordinator where the cluster says that it is.

    On a machine that stalls a cluster moves it once more than the test does.
    """

    def found() -> bool:
        node_id = kafka.coordinator_of(group_id).node_id
        return f"(node {node_id})" in (driven.member.snapshot().coordinator or "")

    eventually(found, driven.member.snapshot)


def _await_beats(driven: Driven, count: int = 3) -> None:
    """Wait until the coordinator has answered some more heartbeats."""
    member = driven.member
    beats = member.metrics()["heartbeat-total"]
    eventually(lambda: member.metrics()["heartbeat-total"] >= beats + count)
    eventually(lambda: member.snapshot().trouble is None and member.snapshot().stable)


class TestCoordinatorMoves:
    @pytest.mark.parametrize("how", ["kill", "stop", "pause"])
    def test_to_another_node(self, kafka_cluster: LocalKafka, group_id: str, how: str) -> None:
        with _two_members(kafka_cluster, group_id, session_timeout_ms=5_000) as (one, two):
            before = one.member.generation().generation_id
            _await_coordinator(one, kafka_cluster, group_id)
            at_first = kafka_cluster.coordinator_of(group_id)
            getattr(at_first, how)()
            kafka_cluster.wait_ready()
            now = kafka_cluster.coordinator_of(group_id)
            assert now.node_id != at_first.node_id
            for each in (one, two):
                _await_coordinator(each, kafka_cluster, group_id)
                _await_beats(each)
            assert await_stable(one, two) >= before

    def test_sessions_that_end_before_the_group_has_moved(
        self, kafka_cluster: LocalKafka, group_id: str
    ) -> None:
        with _two_members(kafka_cluster, group_id, session_timeout_ms=1_500) as (one, two):
            before = one.member.generation().generation_id
            kafka_cluster.coordinator_of(group_id).kill()
            for each in (one, two):
                _await_doubt(each)
            assert await_stable(one, two) >= before
