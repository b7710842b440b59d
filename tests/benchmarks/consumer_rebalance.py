"""Measure how long partitions are without an owner: in a cooperative rebalance, and while all members restart."""

import argparse
import time
import uuid
from typing import Any, Final

from groupsdk.testing import LocalKafka
from tests.benchmarks.consumer_fleet import Fleet, Owners
from tests.benchmarks.observer import create_topic
from tests.benchmarks.report import Result, spread


CLIENTS: Final = {"groupsdk": "groupsdk", "confluent-kafka": "librdkafka", "Java": "Java"}
"""The clients of the fleets, by the names that the result shows."""
_STRATEGY: Final = "cooperative-sticky"
_MEMBERS, _PARTITIONS = 10, 300
_TIMEOUT_S: Final = 120.0
_NOTE: Final = (
    "Heartbeats every {} ms; dynamic members, which leave and come back one after the other. From the moment that"
    " the old owner was told until the new one was; all members are threads of one process of their own. Partitions that do"
    " not move are never without an owner. Java is kafka-clients 4.4.0."
)


def measure_once(client: str, servers: str, heartbeat_ms: int) -> dict[str, Any]:
    """Let a group come together, a member join, and then restart them all, one after the other."""
    group = f"rebalance-{uuid.uuid4().hex[:8]}"
    topic = f"topic-{group}"
    create_topic(servers, topic, _PARTITIONS)
    owners = Owners()
    names = [str(number) for number in range(_MEMBERS)]
    with Fleet(CLIENTS[client], servers, group, topic, owners, heartbeat_ms) as fleet:

        def shared() -> None:
            owners.wait_shared(_PARTITIONS, set(names), _TIMEOUT_S)

        newest = names.pop()
        fleet.start(*names)
        shared()
        time.sleep(2 * heartbeat_ms / 1000)
        owners.take_gaps()
        names.append(newest)
        fleet.start(newest)
        shared()
        moved = owners.take_gaps()
        total = 0.0
        began = time.perf_counter()
        for number in range(_MEMBERS):
            fleet.stop(names.pop(0), wait=True)
            names.append(str(number + 100))
            fleet.start(names[-1])
            shared()
            total += sum(owners.take_gaps())
        return {
            "moved": [gap * 1000 for gap in moved],
            "partition_seconds": total,
            "took_s": time.perf_counter() - began,
        }


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
