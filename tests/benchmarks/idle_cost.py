"""Measure what members cost that have nothing to do: CPU and memory."""

import time
import uuid

from groupsdk.testing import LocalKafka
from tests.benchmarks.clients import PEERS
from tests.benchmarks.members import Settings
from tests.benchmarks.observer import TOPIC, Observer, kafka_with_topic
from tests.benchmarks.processes import Worker, WorkerError, cost_of
from tests.benchmarks.report import Result, options_of


NAMES = ("groupsdk", "groupsdk asyncio", "groupsdk process", *PEERS)
_SESSION_MS = 45_000
_INTERVAL_MS = 3_000
_MAX_BYTES = 6 << 30
_BATCH = 25
_PROCESS_LIMIT = 100  # a process for each member: nobody runs a thousand on one machine


class TooExpensiveError(Exception):
    """The members did not come up within the bounds of time and memory."""


def measure_once(
    kafka: LocalKafka, observer: Observer, client: str, count: int, seconds: float, limit_s: float
) -> tuple[float, float, float]:
    """Return CPU seconds per member and hour, MiB per member, and threads per member.

    Raises:
        TooExpensiveError: see there.
    """
    # Groups of 25: what is measured is a member that has nothing to do, not a large group.
    name = f"idle-{uuid.uuid4().hex[:12]}"
    settings = Settings(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=name,
        topic=TOPIC,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=_INTERVAL_MS,
        poll_s=1.0,
        members_per_group=_BATCH,
    )
    end = time.monotonic() + limit_s
    with Worker(client, settings) as worker:
        _, empty, few = worker.empty
        for first in range(0, count, _BATCH):
            batch = min(_BATCH, count - first)
            worker.call("start", first=first, count=batch)
            _wait(worker, observer, f"{name}-{first // _BATCH}", batch, end)
        while worker.call("taken")["members"] < count:
            _check(worker, end)
            time.sleep(0.1)
        time.sleep(2 * _INTERVAL_MS / 1000)
        before, began = cost_of(worker.pid)[0], time.monotonic()
        time.sleep(seconds)
        cpu_s, memory, threads = cost_of(worker.pid)
        share = (cpu_s - before) / (time.monotonic() - began) / count
        return share * 3600, (memory - empty) / count / 2**20, (threads - few) / count


def _wait(worker: Worker, observer: Observer, group_id: str, members: int, end: float) -> None:
    while observer.group(group_id) != ("Stable", members):
        _check(worker, end)
        time.sleep(0.05)


def _check(worker: Worker, end: float) -> None:
    if time.monotonic() > end:
        raise TooExpensiveError("not up in time")
    if cost_of(worker.pid)[1] > _MAX_BYTES:
        raise TooExpensiveError(f"more than {_MAX_BYTES >> 30} GiB")


def measure(
    kafka: LocalKafka, names: list[str], counts: list[int], seconds: float, limit_s: float
) -> Result:
    """Measure all clients at all counts."""
    result = Result(
        "idle_cost",
        "One idle member: CPU seconds an hour / MiB / threads, its share of the process",
        ["members in the process", *names],
    )
    raw: dict[str, tuple[float, ...]] = {}
    with Observer(kafka.bootstrap_servers) as observer:
        for count in counts:
            row = [f"{count:,}"]
            for name in names:
                if name == "groupsdk process" and count > _PROCESS_LIMIT:
                    row.append("-")
                    continue
                try:
                    cost = measure_once(kafka, observer, name, count, seconds, limit_s)
                except (TooExpensiveError, WorkerError) as error:
                    row.append(f"no: {error}" if isinstance(error, TooExpensiveError) else "failed")
                    result.notes.append(f"{name} with {count:,}: {error}.")
                    continue
                raw[f"{count} members, {name}"] = cost
                row.append(f"{cost[0]:.1f} / {cost[1]:.2f} / {cost[2]:.1f}")
                print(f"{count} members: {name} {row[-1]}", flush=True)
            result.rows.append(row)
            result.behind += _behind(raw, count)
    result.raw = raw
    result.notes.append(
        f"From {seconds:g} s after the members are up; heartbeat interval {_INTERVAL_MS // 1000} s, callers"
        f" that poll(1.0) in a loop (a thread each, or tasks of one loop); groups of {_BATCH}; memory is"
        " what the process alone has written to, less that before the client's import (with asyncio); child"
        " processes counted. The"
        " peers' partitions are paused, so that they need not fetch."
    )
    return result


def _behind(raw: dict[str, tuple[float, ...]], count: int) -> list[str]:
    ours = raw.get(f"{count} members, groupsdk")
    peers = [raw[key] for name in PEERS if (key := f"{count} members, {name}") in raw]
    if ours is None or not peers:
        return []
    behind = []
    for index, what in ((0, "CPU s an hour"), (1, "MiB")):
        best = min(peer[index] for peer in peers)
        if ours[index] > best * 1.02:
            behind.append(f"{count:,} members: {ours[index]:.1f} {what}, the best peer {best:.1f}")
    return behind


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "idle_cost",
        arguments,
        counts="1,100" if quick else "1,100,1000",
        seconds=15.0 if quick else 60.0,
        limit=180.0,  # seconds for members to be up
        clients=",".join(NAMES),
    )
    counts = [int(count) for count in options.counts.split(",")]
    with kafka_with_topic() as kafka:
        names = options.clients.split(",")
        return measure(kafka, names, counts, options.seconds, options.limit)
