"""Measure how long a broker takes to serve, and what it holds then."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.benchmarks.broker_servers import (
    KAFKA,
    KFAKE,
    OURS,
    UVLOOP,
    Server,
    groupsdk,
    has_uvloop,
    kafka,
    kfake,
)
from tests.benchmarks.processes import ROOT, compiled_environment
from tests.benchmarks.report import Result, options_of, spread


_LIMIT_MS: Final = 150
_LIMIT_IN_PROCESS_MS: Final = 30
_LIMIT_MIB: Final = 40
_IN_PROCESS: Final = """
import time
from groupsdk.broker.embedded import EmbeddedBroker
for _ in range(2):
    start = time.perf_counter()
    with EmbeddedBroker() as broker:
        print((time.perf_counter() - start) * 1000)
"""


def in_process_ms() -> tuple[float, float]:
    """Return how long an EmbeddedBroker takes to start in a process: the first, which imports, and the second."""
    done = subprocess.run(
        [sys.executable, "-c", _IN_PROCESS],
        cwd=ROOT,
        env=compiled_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    first, second = map(float, done.stdout.split())
    return first, second


def run(arguments: list[str], *, quick: bool) -> Result:
    options = options_of("broker_start", arguments, repetitions=5 if quick else 15)
    with tempfile.TemporaryDirectory() as root:

        def directory() -> Path:
            return Path(tempfile.mkdtemp(dir=root))

        starts: dict[str, Callable[[], AbstractContextManager[Server | None]]] = {
            OURS: lambda: groupsdk(directory()),
            KAFKA: kafka,
            KFAKE: kfake,
        }
        if has_uvloop():
            starts[UVLOOP] = lambda: groupsdk(directory(), uvloop=True)
        times: dict[str, list[float]] = {name: [] for name in starts}
        cpu: dict[str, list[float]] = {name: [] for name in starts}
        sizes: dict[str, list[float]] = {name: [] for name in starts}
        embedded: list[tuple[float, float]] = []
        for repetition in range(options.repetitions + 1):
            for name, start in starts.items():
                if name == KAFKA and repetition > 2:
                    continue
                with start() as server:
                    if server is None:
                        continue
                    times[name].append(server.started_ms)
                    cpu[name].append(server.cpu_s() * 1000)
                    sizes[name].append(server.resident() / 2**20)
            embedded.append(in_process_ms())
    # the first ones compile modules, and make Kafka's archive of classes
    del embedded[0]
    for values in (*times.values(), *cpu.values(), *sizes.values()):
        del values[:1]
    result = Result(
        "broker_start",
        "Brokers: until one serves, and what it holds then: median (least to most)",
        ["broker", "ms from the start of its process", "CPU ms", "MiB resident"],
        raw={"ms": times, "cpu_ms": cpu, "mib": sizes, "in process": embedded},
    )
    for name, values in times.items():
        if values:
            row = [name, spread(values, 0), spread(cpu[name], 0), spread(sizes[name], 0)]
            result.rows.append(row)
    firsts, seconds = [each[0] for each in embedded], [each[1] for each in embedded]
    result.rows += [
        ["`EmbeddedBroker`, the first of a process (imports)", spread(firsts, 0), "-", "-"],
        ["`EmbeddedBroker`, a further one", spread(seconds, 1), "-", "-"],
    ]
    _say_behind(result, times[OURS], seconds, sizes[OURS])
    result.notes = [
        (
            "Ours with a data directory, Kafka as `LocalKafka` tunes it; each with a topic of 100 partitions,"
            " which Kafka gets after it has started."
        )
    ]
    return result


def _say_behind(result: Result, ms: list[float], in_process: list[float], mib: list[float]) -> None:
    for what, values, limit, unit in (
        ("the process", ms, _LIMIT_MS, "ms"),
        ("a further one in process", in_process, _LIMIT_IN_PROCESS_MS, "ms"),
        ("its memory", mib, _LIMIT_MIB, "MiB"),
    ):
        middle = statistics.median(values)
        if middle > limit:
            result.behind.append(f"{what}: {middle:.0f} {unit}, the aim is {limit}")
