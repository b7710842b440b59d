"""Measure members of the consumer protocol (KIP-848) beside those of other libraries: `python -m tests.benchmarks.consumer_protocol`."""

import os
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from statistics import median
from typing import Final

from groupsdk.testing import LocalKafka
from tests.benchmarks import consumer_throughput
from tests.benchmarks.consumer_fleet import CLASSIC, CLIENTS, Fleet, Owners
from tests.benchmarks.processes import cost_of
from tests.benchmarks.recording_proxy import LISTENER, RecordingProxy, kafka_behind_proxy
from tests.benchmarks.report import Result, options_of
from tests.support.consumers import PACED_BY_TESTS, Group
from tests.support.topics import create_topic


COUNTS: Final = (2, 10, 50)
PARTS: Final = ("start", "rolling", "kill", "throughput", "idle", "jitter")
_PARTITIONS: Final = 60
_ROLLING_PARTITIONS: Final = 300
_ROLLING_MEMBERS: Final = 10
_TIMEOUT_S: Final = 60.0
_SHORT_SESSION_MS: Final = 6_000
_SHORT_INTERVAL_MS: Final = 1_000
_IDLE_MEMBERS: Final = 25
_IDLE_S: Final = 12.0
_JITTER_S: Final = 15.0
_RECORDS: Final = 1_000_000
_BUSY: Final = "groupsdk, its caller in a Python loop"
_THROUGHPUT: Final = ("groupsdk", CLASSIC)

Key = tuple[str, int, str]
"""What was measured, with how many members, of which client."""


@dataclass(slots=True)
class Bench:
    """A broker, and what was found."""

    kafka: LocalKafka
    proxy: RecordingProxy
    end_s: float
    """When to begin nothing more."""
    rounds: int = 1
    round: int = 0
    found: defaultdict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)

    def note(self, what: str, count: int, client: str, value: float) -> None:
        """Keep a figure, and print it."""
        self.found[what, count, client].append(value)
        print(f"{what}, {count} members: {client} {value:.3f}", flush=True)

    def pause(self, client: str, count: int) -> float:
        """Return a share of a heartbeat interval: the rounds of each client are at even distances in it.

        Members that start together heartbeat together, and how long they take to notice a leave is where in the
        interval it falls. So each client needs leaves from all over it, and no luck; the first one is anywhere.
        """
        first = Random(f"{client} {count}").random()
        return (first + self.round / self.rounds) % 1

    def group(
        self, partitions: int, *, short: bool, servers: str | None = None, interval_ms: int = 0
    ) -> Group:
        """Return a new group with a topic of its own; with Kafka's default pace, or a short one."""
        address = self.kafka.bootstrap_servers
        name = f"g-{uuid.uuid4().hex}"
        create_topic(address, f"t-{name}", partitions)
        session_ms, paced_ms = (_SHORT_SESSION_MS, _SHORT_INTERVAL_MS) if short else (45_000, 5_000)
        group = Group(
            "consumer",
            name,
            f"t-{name}",
            servers or address,
            address,
            session_ms,
            interval_ms or paced_ms,
        )
        return group.configure()

    @contextmanager
    def fleet(self, client: str, group: Group, owners: Owners) -> Iterator[Fleet]:
        """Start a process for members of a client."""
        with Fleet(client, group.servers, group.group_id, group.topic, owners) as fleet:
            yield fleet


def _names(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def measure_start_and_leave(bench: Bench, client: str, count: int) -> None:
    """Have so many members start at once, and one leave some time later."""
    group, owners, names = bench.group(_PARTITIONS, short=False), Owners(), _names(count)
    pause = bench.pause(client, count)
    with bench.fleet(client, group, owners) as fleet:
        began = time.perf_counter()
        fleet.start(*names)
        owners.wait_shared(_PARTITIONS, set(names), _TIMEOUT_S)
        bench.note("start", count, client, time.perf_counter() - began)
        time.sleep(1 + 5 * pause)  # anywhere between two heartbeats
        began = time.perf_counter()
        fleet.stop(names[-1])
        owners.wait_shared(_PARTITIONS, set(names[:-1]), _TIMEOUT_S)
        bench.note("leave", count, client, time.perf_counter() - began)


def measure_kill(bench: Bench, client: str, count: int) -> None:
    """Kill the process of one member."""
    group, owners, names = bench.group(_PARTITIONS, short=True), Owners(), _names(count)
    pause = bench.pause(client, count)
    with (
        bench.fleet(client, group, owners) as stay,
        bench.fleet(client, group, owners) as victim,
    ):
        stay.start(*names[:-1])
        victim.start(names[-1])
        owners.wait_shared(_PARTITIONS, set(names), _TIMEOUT_S)
        time.sleep(2 + pause)
        began = time.perf_counter()
        victim.kill()
        owners.gone(names[-1])
        owners.wait_shared(_PARTITIONS, set(names[:-1]), _TIMEOUT_S)
        bench.note("kill", count, client, time.perf_counter() - began)


def measure_rolling(bench: Bench, client: str, count: int) -> None:
    """Restart all members, one after the other."""
    group, owners, names = bench.group(_ROLLING_PARTITIONS, short=True), Owners(), _names(count)
    with bench.fleet(client, group, owners) as fleet:
        fleet.start(*names)
        owners.wait_shared(_ROLLING_PARTITIONS, set(names), _TIMEOUT_S)
        time.sleep(2)
        owners.take_gaps()
        began = time.perf_counter()
        present = set(names)
        for name in names:
            fleet.stop(name, wait=True)
            fleet.start(f"{name}-again")
            present = present - {name} | {f"{name}-again"}
            owners.wait_shared(_ROLLING_PARTITIONS, present, _TIMEOUT_S)
        took_s = time.perf_counter() - began
        gaps = owners.take_gaps()
        bench.note("rolling: seconds in all", count, client, took_s)
        bench.note("rolling: partition-seconds without an owner", count, client, sum(gaps))
        # one that goes to another member first and to the new one later has two short gaps in place of a long one
        bench.note("rolling: moves of partitions", count, client, len(gaps))
        bench.note("rolling: ms without an owner, each", count, client, median(gaps) * 1000)


def measure_jitter(bench: Bench, client: str, _: int) -> None:
    """See how evenly heartbeats go out at 1 s."""
    servers = bench.kafka.bootstrap_servers_of(LISTENER)
    group = bench.group(_PARTITIONS, short=False, servers=servers, interval_ms=1_000)
    owners = Owners()
    with bench.fleet(client.split(",")[0], group, owners) as fleet:
        fleet.start("0")
        owners.wait_shared(_PARTITIONS, {"0"}, _TIMEOUT_S)
        time.sleep(4)  # what follows a join is not the steady state
        bench.proxy.take()
        if client == _BUSY:
            fleet.busy("0", _JITTER_S + 1)
        time.sleep(_JITTER_S)
        late_ms = [abs(b - a - 1.0) * 1000 for a, b in pairwise(bench.proxy.take())]
    bench.note("heartbeats every second: ms too early or late, median", 1, client, median(late_ms))
    bench.note("heartbeats every second: ms too early or late, most", 1, client, max(late_ms))


def measure_idle(bench: Bench, client: str, count: int) -> None:
    """See what members cost that have nothing to do."""
    group, owners, names = bench.group(_PARTITIONS, short=False), Owners(), _names(count)
    with bench.fleet(client, group, owners) as fleet:
        fleet.start(*names)
        owners.wait_shared(_PARTITIONS, set(names), _TIMEOUT_S)
        time.sleep(8)
        before, began = cost_of(fleet.pid)[0], time.monotonic()
        time.sleep(_IDLE_S)
        share = (cost_of(fleet.pid)[0] - before) / (time.monotonic() - began) / count
    bench.note("idle member: CPU seconds an hour", count, client, share * 3600)


def measure_throughput(bench: Bench, client: str, _: int) -> None:
    """Read a topic that is full already."""
    address, topic = bench.kafka.bootstrap_servers, "consumer-protocol-throughput"
    if not any(what == "records a second" for what, _, _ in bench.found):
        create_topic(address, topic, consumer_throughput.PARTITIONS)
        consumer_throughput.fill(address, topic, 100, _RECORDS)
    protocol = "classic" if client == CLASSIC else "consumer"
    figures = consumer_throughput.measure_once(protocol, address, topic, _RECORDS)
    bench.note("records a second", 1, client, figures["rate"])
    bench.note("CPU of a record, us", 1, client, figures["cpu_us"])


Part = Callable[[Bench, str, int], None]
_PARTS: Final[dict[str, tuple[Part, tuple[str, ...], tuple[int, ...]]]] = {
    "start": (measure_start_and_leave, CLIENTS, COUNTS),
    "kill": (measure_kill, CLIENTS, COUNTS),
    "rolling": (measure_rolling, CLIENTS, (_ROLLING_MEMBERS,)),
    "jitter": (measure_jitter, (*CLIENTS, _BUSY), (1,)),
    "idle": (measure_idle, (CLIENTS[0], CLASSIC, *CLIENTS[1:]), (_IDLE_MEMBERS,)),
    "throughput": (measure_throughput, _THROUGHPUT, (1,)),
}


def run_part(bench: Bench, part: str, counts: tuple[int, ...] | None) -> None:
    """Measure one thing with all clients, one after the other."""
    measure, clients, usual = _PARTS[part]
    for count in usual if counts is None or len(usual) == 1 else counts:
        if time.monotonic() > bench.end_s:
            bench.failed.append(f"no time for round {bench.round + 1} of {part} of {count}")
            continue
        for client in clients:
            try:
                measure(bench, client, count)
            except (TimeoutError, OSError) as error:
                bench.failed.append(f"{part} of {count}, {client}: {str(error)[:100]}")
                print(bench.failed[-1], flush=True)


def tables(bench: Bench, rounds: int) -> Result:
    """Return everything found as one table: the best of the rounds, and all of them where there are several."""
    columns = [*CLIENTS, CLASSIC, _BUSY]
    there = {client for _, _, client in bench.found}
    header = [each for each in dict.fromkeys(columns) if each in there]
    rows: dict[tuple[str, int], list[str]] = {}
    for what, count, _ in bench.found:
        if (what, count) not in rows:
            cells = [bench.found.get((what, count, client), []) for client in header]
            most = what == "records a second"
            rows[what, count] = [_cell(each, most=most) for each in cells]
    result = Result(
        "consumer_protocol",
        "Consumer protocol (KIP-848): the best of the rounds (all rounds)",
        ["", *header],
        [
            [f"{what}, {count} members" if count > 1 else what, *cells]
            for (what, count), cells in rows.items()
        ],
        raw=[[*key, *values] for key, values in bench.found.items()],
    )
    load = os.getloadavg()
    result.notes.append(
        f"Up to {rounds} rounds, the clients in turn; load average {load[0]:.1f} and {load[2]:.1f} (1 and 15 minutes) at the end on"
        f" {os.cpu_count()} cores. Failed: {'; '.join(bench.failed) or 'nothing'}."
    )
    return result


def _cell(values: list[float], *, most: bool) -> str:
    if not values:
        return "-"
    best = max(values) if most else min(values)
    digits = 0 if best >= 100 else 2
    every = ", ".join(f"{each:.{digits}f}" for each in values)
    return f"{best:.{digits}f} ({every})" if len(values) > 1 else f"{best:.{digits}f}"


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "consumer_protocol",
        arguments,
        rounds=1 if quick else 2,
        parts=",".join(PARTS),
        minutes=120.0,  # begin nothing after so many
        counts="",  # numbers of members, with commas; the usual ones
    )
    counts = tuple(map(int, options.counts.split(","))) if options.counts else None
    # Kafka's defaults but for the bounds of what a group may set
    bounds = {key: value for key, value in PACED_BY_TESTS.items() if ".min." in key}
    with kafka_behind_proxy(bounds) as (kafka, proxy):
        bench = Bench(kafka, proxy, time.monotonic() + 60 * options.minutes, options.rounds)
        for number in range(options.rounds):
            bench.round = number
            for part in options.parts.split(","):
                if number == 0 or part not in ("jitter", "idle"):
                    run_part(bench, part, counts)
    return tables(bench, options.rounds)


if __name__ == "__main__":
    run(sys.argv[1:], quick=False).finish()
