"""Brokers of each kind for a test, and real ones that tests may break, and that run again afterwards."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.testing.node import Node, deadline_in
from tests.support.workers import TIMEOUT_S, eventually


_DUMP_ENDS: Final = "JNI global refs"
_TOLD_THREADS: Final = ("group-coordinator", "request-handler", "Fetcher", "raft", "broker-")

QUICK_RESTART = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
"""Properties: a broker that was killed is refused until the session of its old process ends.

A machine that halts for as long has the controller take the broker for dead: its partitions have no leader for a
moment. `STEADY` is for tests that kill no broker.
"""
STEADY = {"broker.session.timeout.ms": "20000"}
"""Properties: a machine that halts for some seconds ends no session of a broker; one that was killed is refused for as long.

For brokers that are started again, or on a directory that another one has left, and that nobody kills; the first
process of any other `LocalKafka` of one node has a longer session by itself.
"""

KINDS: Final = ("embedded", pytest.param("kafka", marks=pytest.mark.kafka))
"""The parameters of a fixture that yields what `servers_of` does."""


@contextmanager
def servers_of(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give the bootstrap servers of a broker of the kind that the fixture's parameter names: a new one, or the session's Kafka."""
    if request.param == "kafka":
        yield request.getfixturevalue("kafka").bootstrap_servers
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


@contextmanager
def running_again(kafka: LocalKafka) -> Iterator[LocalKafka]:
    """Resume the nodes that the with block left paused, and start those that it left stopped."""
    yield kafka
    for node in kafka.nodes:
        if node.paused:
            node.resume()
    kafka.start()


def await_in_sync(kafka: LocalKafka, topic: str) -> None:
    """Wait until all running nodes know the replicas of a topic on them as in sync.

    `LocalKafka.wait_ready` waits for the groups' own topic alone: without this, the next node to be stopped may be the
    only one that has the topic's newest records.
    """
    nodes = [node for node in kafka.nodes if node.pid is not None and not node.paused]
    for node in nodes:
        node.await_in_sync(
            topic, {each.node_id for each in nodes}, deadline_in(int(TIMEOUT_S * 1000))
        )


@contextmanager
def telling_of_brokers(
    kafka: LocalKafka, group_id: str | None = None, topic: str | None = None
) -> Iterator[None]:
    """Add to a failed assertion of the with block what each node knows, what it does, and the end of its log."""
    try:
        yield
    except AssertionError as error:
        for node in kafka.nodes:
            error.add_note(f"node {node.node_id} {_told_of(node, group_id, topic)}")
        raise


def _told_of(node: Node, group_id: str | None, topic: str | None) -> str:
    if node.pid is None or node.paused:
        return "is paused" if node.paused else f"is not running; its log ends:\n{node.log_tail()}"
    told, log = [], node.log_tail()
    try:
        with node.probe() as probe:
            told.append(f"knows the brokers {sorted(probe.broker_ids())}")
            if topic is not None:
                told.append(f"replicas and those in sync, by partition: {probe.in_sync(topic)}")
            if group_id is not None:
                told.append(f"takes {probe.find_coordinator(group_id)} for the coordinator")
                told.append(f"answers a heartbeat with {probe.heartbeat_error(group_id)}")
    except OSError as refused:
        told.append(repr(refused))
    return f"{'; '.join(told)}; its log ends:\n{log}\nits threads:\n{_threads_of(node)}"


def _threads_of(node: Node) -> str:
    """Return the stacks of the threads that answer clients and copy records, as Java prints them upon SIGQUIT."""
    before = node.log_file.stat().st_size

    def printed() -> str:
        with node.log_file.open("rb") as log:
            log.seek(before)
            return log.read().decode(errors="replace")

    node.signal_if_running(signal.SIGQUIT)
    try:
        eventually(lambda: _DUMP_ENDS in printed() or not node.running, timeout_s=10)
    except AssertionError:
        return f"none printed; {printed()}"
    stacks = printed().split("\n\n")
    return "\n\n".join(
        each for each in stacks if any(name in each.partition("\n")[0] for name in _TOLD_THREADS)
    )
