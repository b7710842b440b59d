"""Measure how soon an event in the log is an alert: `python -m tests.benchmarks --only history_alerts`.

A group's log of so many generations is in a topic of the embedded broker, and its tables are up to date. Then its last member goes. Measured is from
the broker's acknowledgement of that record until the alert's command has ended: one round of `history alert`, that began at once.
"""

import os
import shlex
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from examples.history_log import Pair, Seat, commit, generation
from groupsdk.broker import EmbeddedBroker
from groupsdk.clock import WallClock
from groupsdk.history.follow.alerting import Alerting, Rules, command_sink, find
from groupsdk.history.follow.updater import Updater, catch_up_topic
from groupsdk.history.pipeline import Options
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.sources.topic_ranges import TopicSettings
from tests.benchmarks.report import Result


QUICK: Final = (10, 500)
FULL: Final = (10, 500, 5_000)
PARTITIONS: Final = 10
EVENTS: Final = 3
"""How often the group's members go; the middle one of the times counts."""
_STEP_MS: Final = 60_000


class Log:
    """Writes records of the groups' log into a topic."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers})
        self._topic = topic

    def write(self, now_ms: int, *pairs: Pair) -> None:
        for key, value in pairs:
            while True:
                try:
                    self._producer.produce(self._topic, value, key, partition=0, timestamp=now_ms)
                    break
                except BufferError:
                    self._producer.poll(0.1)

    def flush(self) -> None:
        self._producer.flush()


def lived(log: Log, generations: int, begin_ms: int) -> None:
    """Let two members of the group replace each other."""
    for number in range(generations):
        now_ms = begin_ms + number * _STEP_MS
        log.write(now_ms, present(number + 1, now_ms))
        log.write(now_ms + 1_000, *_commits(number, now_ms + 1_000))
    log.flush()


def present(number: int, now_ms: int) -> Pair:
    halves = [*range(PARTITIONS // 2)], [*range(PARTITIONS // 2, PARTITIONS)]
    seats = {f"{number + n}": Seat(f"c{n}", {"t": half}) for n, half in enumerate(halves)}
    return generation("g", number, seats, ts_ms=now_ms)


def _commits(number: int, now_ms: int) -> list[Pair]:
    return [commit("g", "t", partition, number, now_ms) for partition in range(PARTITIONS)]


def _cpu_s() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def measure(servers: str, topic: str, generations: int, scratch: Path) -> tuple[float, float]:
    """Return the seconds and the CPU seconds from a record in the log to the end of the alert's command."""
    clock = WallClock()
    log, settings = Log(servers, topic), {"bootstrap.servers": servers, "topic": topic}
    lived(log, generations, clock.now_ms() - generations * _STEP_MS)
    out, told = str(scratch / topic), scratch / f"{topic}.jsonl"
    system, root = file_system(out)
    sink = command_sink(shlex.join(["sh", "-c", f"cat >> {shlex.quote(str(told))}"]))
    alerting = Alerting(system, f"{root}/alerts.json", [sink])
    times = []
    with closing(Updater(out, topic, Options(assignors=()))) as updater:

        def round_() -> None:
            catch_up_topic(TopicSettings("the benchmark", settings), updater)
            now_ms = clock.now_ms()
            alerting.look(find(ParquetTables(out), Rules(), now_ms), now_ms)

        round_()
        for event in range(EVENTS):
            number = generations + 2 * event
            log.write(clock.now_ms(), generation("g", number + 1, {}, ts_ms=clock.now_ms()))
            log.flush()
            size = told.stat().st_size if told.exists() else 0
            began, spent = time.perf_counter(), _cpu_s()
            round_()
            times.append((time.perf_counter() - began, _cpu_s() - spent))
            assert told.stat().st_size > size
            log.write(clock.now_ms(), present(number + 2, clock.now_ms()))
            log.flush()
            round_()
    return sorted(times)[EVENTS // 2]


def run(_arguments: list[str], *, quick: bool) -> Result:
    """Measure, and print the table."""
    result = Result(
        "history_alerts",
        "History: from a record in the log to the end of an alert's command",
        ["generations of the group", "ms", "CPU ms"],
    )
    sizes = QUICK if quick else FULL
    topics = {f"log-{size}": 1 for size in sizes}
    with (
        tempfile.TemporaryDirectory(prefix="history-alerts-") as scratch,
        EmbeddedBroker(topics=topics) as broker,
    ):
        for size in sizes:
            wall_s, cpu_s = measure(broker.bootstrap_servers, f"log-{size}", size, Path(scratch))
            result.rows.append([f"{size:,}", f"{1000 * wall_s:,.0f}", f"{1000 * cpu_s:,.0f}"])
    result.raw = result.rows
    result.notes.append(
        f"The middle one of {EVENTS}, of a group with two members and {PARTITIONS} partitions, by the local engine, with the embedded broker and the command's"
        " own process. A round begins after up to `--every` seconds, which are not in it."
    )
    return result
