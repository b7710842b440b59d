"""Brokers that are killed, paused, or lose their groups to another node, under members of every kind."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from groupsdk.consumer import GroupConsumer
from groupsdk.testing import LocalKafka
from tests.kafka.driven_groups import (
    PARTITIONS,
    AnyGroup,
    ConsumerGroup,
    MemberGroup,
    driven_group,
)
from tests.support.brokers import QUICK_RESTART, running_again, telling_of_brokers
from tests.support.cases import with_long
from tests.support.consumers import PACED_BY_TESTS, PROTOCOLS
from tests.support.topics import create_topic
from tests.support.workers import Gate, await_stable, eventually


NewGroup = Callable[[LocalKafka, int], AnyGroup]
"""Make the group of the test on a broker, with sessions of so many milliseconds."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def _killed_kafka(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(properties=PACED_BY_TESTS | QUICK_RESTART) as kafka:
        yield kafka


@pytest.fixture
def killable(_killed_kafka: LocalKafka) -> Iterator[LocalKafka]:
    """A broker that the test may kill; it runs again after it."""
    with running_again(_killed_kafka):
        yield _killed_kafka


@pytest.fixture
def pausable(paced_kafka: LocalKafka) -> Iterator[LocalKafka]:
    """A broker that a pause of seconds does not fence: its groups stay where they are. It runs again after the test."""
    with running_again(paced_kafka):
        yield paced_kafka


@pytest.fixture(scope="module")
def _paced_cluster(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(nodes=3, properties=PACED_BY_TESTS, log=True) as kafka:
        yield kafka


@pytest.fixture
def cluster(_paced_cluster: LocalKafka) -> Iterator[LocalKafka]:
    """Three brokers, which the test may kill; all run again after it."""
    with running_again(_paced_cluster):
        yield _paced_cluster


@pytest.fixture(params=["member", *PROTOCOLS])
def new_group(request: pytest.FixtureRequest, group_id: str) -> NewGroup:
    def make(kafka: LocalKafka, session_ms: int) -> AnyGroup:
        # what a paused broker costs that nobody else says is gone
        more = {"request.timeout.ms": 5_000} if len(kafka.nodes) > 1 else {}
        return driven_group(request.param, kafka, group_id, session_ms, **more)

    return make


def test_broker_killed_and_back_within_the_session_disturbs_nobody(
    new_group: NewGroup, killable: LocalKafka
) -> None:
    group = new_group(killable, 60_000)
    with group.pair() as members, group.undisturbed(*members):
        under = group.acts_under(members[0])
        killable.kill()
        eventually(lambda: group.subject(members[0]).snapshot().trouble)
        # Its session is not over, so the group cannot have expelled it.
        assert group.acts_under(members[0]) == under
        killable.start()


def test_broker_killed_for_longer_than_the_session_stops_all_until_it_is_back(
    new_group: NewGroup, killable: LocalKafka
) -> None:
    # About as long as Kafka takes to load the group, expel its members, and load it again to serve it. While it loads
    # it accepts any heartbeat of the classic protocol.
    group = new_group(killable, 1_000)
    with group.pair() as members:
        killable.kill()
        group.await_doubt(*members)
        assert not [each for each in members if group.acts_under(each)]
        for each in members:
            # of the two threads, the one that has the connection may run later
            eventually(lambda each=each: group.subject(each).snapshot().trouble)  # type: ignore[misc]
        killable.start()
        group.await_shared(*members)


@pytest.mark.parametrize("new_group", ["member"], indirect=True)
def test_broker_killed_while_a_join_is_parked_completes_the_rebalance_once_it_is_back(
    new_group: NewGroup, killable: LocalKafka
) -> None:
    group = new_group(killable, 8_000)
    assert isinstance(group, MemberGroup)
    with group.pair() as (one, two):
        before = one.member.generation().generation_id
        two.crash()
        # The coordinator waits for the one that fell silent, and is killed meanwhile.
        one.member.protocols = [("v0", b"changed")]
        one.member.request_rejoin("to wait")
        eventually(lambda: one.member.snapshot().rejoin_pending)
        killable.kill()
        killable.start()
        assert await_stable(one) > before


@pytest.mark.parametrize("new_group", PROTOCOLS, indirect=True)
def test_broker_killed_while_partitions_move_completes_the_move_once_it_is_back(
    new_group: NewGroup, killable: LocalKafka
) -> None:
    group = new_group(killable, 30_000)
    assert isinstance(group, ConsumerGroup)
    with group.member() as one, group.member() as two:
        group.await_shared(one, two)
        three, gate = group.member(), Gate()
        one.hooks["revoked"] = two.hooks["revoked"] = gate.wait
        with group.witness(one, two, three) as witness, three, gate:
            eventually(gate.reached.is_set)
            killable.kill()
            killable.start()
            gate.open()
            group.await_shared(one, two, three)
            witness.check()
            assert not [*one.errors, *two.errors, *three.errors]


def test_broker_paused_for_shorter_than_the_session_disturbs_nobody(
    new_group: NewGroup, pausable: LocalKafka
) -> None:
    group = new_group(pausable, 30_000)
    with group.pair() as members, group.undisturbed(*members):
        under = group.acts_under(members[0])
        pausable.pause()
        # No heartbeat follows one that is not answered.
        subject = group.subject(members[0])
        eventually(lambda: subject.metrics()["last-heartbeat-seconds-ago"] >= 1)
        assert group.acts_under(members[0]) == under
        pausable.resume()


def test_broker_paused_for_longer_than_the_session_stops_all_until_it_is_back(
    new_group: NewGroup, pausable: LocalKafka
) -> None:
    group = new_group(pausable, 1_000)
    with group.pair() as members:
        pausable.pause()
        group.await_doubt(*members)
        pausable.resume()
        group.await_shared(*members)


@pytest.mark.parametrize("how", ["kill", "stop", "pause"])
def test_coordinator_that_moves_within_the_session_costs_nobody_anything(
    new_group: NewGroup, cluster: LocalKafka, group_id: str, how: str
) -> None:
    group = new_group(cluster, 30_000)
    with group.pair() as members:
        under = [group.acts_under(each) for each in members]
        at_first = cluster.coordinator_of(group_id)
        getattr(at_first, how)()
        cluster.wait_ready()
        now = cluster.coordinator_of(group_id)
        assert now.node_id != at_first.node_id
        with telling_of_brokers(cluster, group_id):
            for each in members:
                group.await_coordinator(each, now.node_id)
            group.await_beats(*members)
            group.await_shared(*members)
        assert not [each for each in members if group.was_lost(each)]
        if group.kind == "consumer":  # in the classic protocol the new coordinator may rebalance
            assert [group.acts_under(each) for each in members] == under


def test_sessions_that_end_before_the_coordinator_has_moved_stop_all_until_then(
    new_group: NewGroup, cluster: LocalKafka, group_id: str
) -> None:
    group = new_group(cluster, 1_500)
    with group.pair() as members:
        cluster.coordinator_of(group_id).kill()
        group.await_doubt(*members)
        group.await_shared(*members)


def test_failure_under_a_cluster_tells_what_the_brokers_know_and_do(
    cluster: LocalKafka, group_id: str
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


@pytest.mark.parametrize("protocol", with_long(PROTOCOLS, "classic"))
def test_all_brokers_restarted_again_and_again_cost_a_consumer_no_record(
    cluster: LocalKafka, group_id: str, protocol: str
) -> None:
    address, topic = cluster.bootstrap_servers, f"t-{group_id}"
    create_topic(address, topic, PARTITIONS, 3)
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "group.id": group_id,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "statistics.interval.ms": 500,
    }
    got: list[int] = []
    with GroupConsumer(settings) as consumer:

        def read() -> None:
            batch = consumer.consume(100, 0.5)
            got.extend(int(each.value() or b"") for each in batch if each.error() is None)

        consumer.subscribe(topic)
        for turn in range(3):
            if turn:
                restart = threading.Thread(target=cluster.restart)
                restart.start()
                while restart.is_alive():
                    read()
            producer = Producer({"bootstrap.servers": address})
            for number in range(turn * 20, turn * 20 + 20):
                producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
            assert producer.flush(60) == 0
            while len(got) < turn * 20 + 20:
                read()
    assert sorted(got) == list(range(60)), "each once: nothing is committed to go back to"
