"""Measure how soon a group of the consumer protocol (KIP-848) is at rest: `python -m tests.benchmarks.consumer_protocol`."""

import argparse
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, Final

from confluent_kafka import Consumer

from groupsdk.consumer import GroupConsumer
from groupsdk.testing import LocalKafka
from tests.benchmarks.observer import create_topic
from tests.benchmarks.report import Result, spread


CLIENTS: Final = ("groupsdk", "confluent-kafka")
_PARTITIONS: Final = 60
_TIMEOUT_S: Final = 120.0


class Member:
    """One consumer on a thread of its own."""

    def __init__(self, client: str, servers: str, group: str, topic: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": False,
        }
        self.consumer: Any = GroupConsumer(settings) if client == "groupsdk" else Consumer(settings)
        self.owned: frozenset[int] = frozenset()
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Join."""
        self._thread.start()

    def leave(self) -> None:
        """Leave, and wait for the end."""
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        self.consumer.subscribe([self._topic])
        while not self._stop.is_set():
            self.consumer.poll(0.02)
            self.owned = frozenset(each.partition for each in self.consumer.assignment())
        self.consumer.close()
        self.owned = frozenset()


def seconds_until(condition: Callable[[], bool]) -> float:
    """Return how long it takes until a condition holds."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > _TIMEOUT_S:
            raise TimeoutError(f"not within {_TIMEOUT_S} s")
        time.sleep(0.005)
    return time.monotonic() - start


def shared(members: list[Member]) -> bool:
    """Return whether every partition is owned once, and all members own as many."""
    owned = [each.owned for each in members]
    sizes = {len(each) for each in owned}
    return sizes == {_PARTITIONS // len(members)} and len(frozenset().union(*owned)) == _PARTITIONS


def measure(client: str, servers: str, count: int, topic: str, random: Random) -> dict[str, float]:
    """Have so many members start at once, and one leave."""
    group = f"g-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        members = [Member(client, servers, group, topic) for _ in range(count)]
        for each in members:
            stack.callback(each.leave)
            each.start()
        start = seconds_until(lambda: shared(members))
        time.sleep(1 + 5 * random.random())  # anywhere between two heartbeats
        gone = members.pop()
        leaving = threading.Thread(target=gone.leave)
        leaving.start()

        def all_owned() -> bool:
            every = [one for each in members for one in each.owned]
            return len(every) == len(set(every)) == _PARTITIONS

        leave = seconds_until(all_owned)
        leaving.join()
    return {"start": start, "leave": leave}


def run(kafka: LocalKafka, repetitions: int) -> Result:
    """Measure all clients in turn, and return the table."""
    topic = f"t-{uuid.uuid4().hex}"
    create_topic(kafka.bootstrap_servers, topic, _PARTITIONS)
    found: dict[tuple[str, int, str], list[float]] = {}
    for repetition in range(repetitions):
        for count in (2, 10):
            for client in CLIENTS:
                measured = measure(
                    client, kafka.bootstrap_servers, count, topic, Random(repetition)
                )
                for what, took in measured.items():
                    found.setdefault((what, count, client), []).append(took)
    words = {
        "start": "KIP-848: start of {} members at once",
        "leave": "KIP-848: a leave from {} members",
    }
    rows: list[Sequence[str]] = [
        [words[what].format(count), *(spread(found[what, count, client]) for client in CLIENTS)]
        for what in words
        for count in (2, 10)
    ]
    note = (
        f"The broker's defaults: heartbeats every 5 s, one assignment a second; {_PARTITIONS} partitions,"
        f" {repetitions} repetitions, interleaved; all members are threads of one process."
    )
    title = "Consumer protocol (KIP-848): seconds until every partition has its owner: median (least to most)"
    raw = [[*key, *values] for key, values in found.items()]
    return Result("consumer_protocol", title, ["", *CLIENTS], rows, [note], raw=raw)


def main() -> None:
    """Start a Kafka, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=3)
    repetitions: int = parser.parse_args().repetitions
    with LocalKafka() as kafka:
        run(kafka, repetitions).finish()


if __name__ == "__main__":
    main()
