"""Measure how evenly heartbeats go out, on the wire, while the caller is busy."""

import time
import uuid
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from groupsdk.testing import LocalKafka
from tests.benchmarks.clients import PEERS
from tests.benchmarks.members import BLOCK_S, Settings
from tests.benchmarks.observer import PARTITIONS, TOPIC, Observer
from tests.benchmarks.processes import Worker, WorkerError
from tests.benchmarks.recording_proxy import LISTENER, RecordingProxy, kafka_behind_proxy
from tests.benchmarks.report import Result, options_of, percentile
from tests.support.topics import create_topic


NAMES = ("groupsdk", "groupsdk process", "groupsdk asyncio", *PEERS)
_INTERVAL_S = 1.0
_SESSION_MS = 45_000
_LIMIT_MS = 50.0
_ON_LOOP = ("groupsdk asyncio", "aiokafka")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the caller does meanwhile."""

    label: str
    how: str | None
    loop_only: bool = False
    within: tuple[str, ...] = ()
    """The clients that are to stay within 50 ms."""


_OURS: Final = ("groupsdk", "groupsdk process", "groupsdk asyncio")
SCENARIOS: Final = (
    Scenario("idle", None, within=_OURS),
    Scenario("pure Python loop", "python", within=_OURS),
    Scenario(
        f"native calls of {BLOCK_S:g} s that hold the GIL", "native", within=("groupsdk process",)
    ),
    Scenario(f"event loop blocked for {BLOCK_S:g} s at a time", "sleep", True, _OURS),
)


def measure_once(
    kafka: LocalKafka, proxy: RecordingProxy, client: str, scenario: Scenario, seconds: float
) -> list[float]:
    """Return |interval - 1 s| in milliseconds for each pair of heartbeats; the last runs until the end."""
    settings = Settings(
        bootstrap_servers=kafka.bootstrap_servers_of(LISTENER),
        group_id=f"jitter-{uuid.uuid4().hex[:12]}",
        topic=TOPIC,
        session_timeout_ms=_SESSION_MS,
        heartbeat_interval_ms=int(_INTERVAL_S * 1000),
    )
    with Observer(kafka.bootstrap_servers) as observer, Worker(client, settings) as worker:
        worker.call("start", first=0, count=1)
        observer.wait_stable(settings.group_id, 1, 60)
        time.sleep(3 * _INTERVAL_S)  # what follows a join is not the steady state
        proxy.take()
        if scenario.how is not None:
            worker.call("occupy", how=scenario.how, seconds=seconds + 1)
        begin = time.monotonic()
        time.sleep(seconds)
        times = proxy.take()
        end = time.monotonic()
    # A client that sends none is as late as the time is long.
    marks = [begin if not times else times[0], *times[1:]]
    late_ms = [abs(b - a - _INTERVAL_S) * 1000 for a, b in pairwise(marks)]
    silence_ms = (end - marks[-1] - _INTERVAL_S) * 1000
    return [*late_ms, silence_ms] if silence_ms > 0 or not late_ms else late_ms


def measure(kafka: LocalKafka, proxy: RecordingProxy, names: list[str], seconds: float) -> Result:
    """Measure all clients in all scenarios."""
    result = Result(
        "heartbeat_jitter",
        "Heartbeats at 1 s on the wire: |interval - 1 s| in ms, p50 / p99 / max",
        ["the caller's thread is in", *names],
    )
    raw: dict[str, list[float]] = {}
    for scenario in SCENARIOS:
        row = [scenario.label]
        for name in names:
            if scenario.loop_only and name not in _ON_LOOP:
                row.append("-")
                continue
            try:
                late_ms = measure_once(kafka, proxy, name, scenario, seconds)
            except (TimeoutError, WorkerError) as error:
                result.notes.append(f"{name}, {scenario.label}: {error}")
                row.append("failed")
                continue
            raw[f"{scenario.label}, {name}"] = late_ms
            worst = max(late_ms)
            row.append(
                f"{percentile(late_ms, 0.5):.1f} / {percentile(late_ms, 0.99):.1f} / {worst:.1f}"
            )
            print(f"{scenario.label}: {name} {row[-1]}", flush=True)
            if name in scenario.within and worst > _LIMIT_MS:
                result.behind.append(f"{name}, {scenario.label}: {worst:.0f} ms is over 50 ms")
        result.rows.append(row)
    result.raw = raw
    result.notes.append(
        f"{seconds:g} s each, at a proxy in front of the broker; session timeout {_SESSION_MS // 1000} s;"
        " p99 of so few intervals is about their maximum; a silence at the end counts as an interval. The"
        " asyncio clients run the caller on the loop. A native call that holds the GIL stops every thread"
        " of its process that runs Python: only another process or native threads heartbeat through it."
    )
    return result


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of(
        "heartbeat_jitter",
        arguments,
        seconds=15.0 if quick else 60.0,
        clients=",".join(NAMES),
    )
    with kafka_behind_proxy({}) as (kafka, proxy):
        create_topic(kafka.bootstrap_servers, TOPIC, PARTITIONS)
        return measure(kafka, proxy, options.clients.split(","), options.seconds)
