"""Measure the history of a million groups, and of a group of a million generations.

`python -m tests.benchmarks --only history_scale [--full]`: every table, with four assignors and two tasks at a time. The
question is not how fast it is but that it ends, and in which memory.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from examples.history_log import LogWriter, Pair, Seat, commit, generation
from tests.benchmarks.history_decoding import (
    WORKER_AIM_MB,
    every_table,
    measured,
    peak_worker_mb,
    spark_session,
)
from tests.benchmarks.report import Result, load


QUICK: Final = 20_000
FULL: Final = 1_000_000
WALL_AIM_S: Final = 600.0
_START_MS: Final = 1_790_899_200_000
_BATCH: Final = 50
_MEMBERS: Final = 3


def many_groups(count: int) -> Iterator[Pair]:
    """Give groups of one member each, which commits twice."""
    for number in range(count):
        group = f"group-{number:07}"
        at = _START_MS + number
        yield generation(group, 1, {"m": Seat("client", {"orders": [0, 1]})}, ts_ms=at)
        yield commit(group, "orders", 0, number, at)
        yield commit(group, "orders", 1, number, at)


def many_generations(count: int) -> Iterator[Pair]:
    """Give one group, in each of whose generations one of three members is another one."""
    for number in range(1, count + 1):
        seats = {
            f"member-{n}-{(number + n) // _MEMBERS:07}": Seat(
                f"client-{n}", {"orders": [4 * n, 4 * n + 1, 4 * n + 2, 4 * n + 3]}
            )
            for n in range(_MEMBERS)
        }
        at = _START_MS + 60_000 * number
        yield generation("orders", number, seats, ts_ms=at)
        yield commit("orders", "orders", number % 12, number, at + 30_000)


LOGS: Final = {"groups": many_groups, "generations of one group": many_generations}


def write(root: Path, pairs: Iterator[Pair]) -> int:
    """Write a log of one partition; returns how many records it has."""
    with LogWriter(root, 0, batch_records=_BATCH) as log:
        at = _START_MS
        waiting: list[Pair] = []
        for pair in pairs:
            waiting.append(pair)
            if len(waiting) == _BATCH:
                at += 1
                log.append(at, *waiting)
                waiting.clear()
        log.append(at, *waiting)
        return log.offset


def run(options: list[str], *, quick: bool) -> Result:
    """Measure, and print the table.

    Args:
        options: how many groups and generations, in the place of the usual number.
        quick: twenty thousand; a million otherwise.
    """
    count = int(options[0]) if options else QUICK if quick else FULL
    result = Result(
        "history_scale",
        f"History: every table of {count:,} groups, and of {count:,} generations of one group",
        ["", "records", "CPU seconds", "seconds", "largest Python worker, MB"],
    )
    with tempfile.TemporaryDirectory(prefix="history-bench-") as scratch:
        base = Path(scratch)
        for name, pairs in LOGS.items():
            root = base / name.replace(" ", "-")
            records = write(root, pairs(count))
            spark = spark_session()
            cost = measured(lambda: every_table(spark, root, base / "out"), records)  # noqa: B023
            worker_mb = peak_worker_mb(os.getpid())
            spark.stop()
            result.rows.append(
                (
                    name,
                    f"{records:,}",
                    f"{cost.cpu_s:.0f}",
                    f"{cost.wall_s:.0f}",
                    f"{worker_mb:.0f}",
                )
            )
            if cost.wall_s > WALL_AIM_S:
                result.behind.append(f"{name}: {cost.wall_s:.0f} s, the aim is {WALL_AIM_S:.0f}")
            if worker_mb > WORKER_AIM_MB:
                result.behind.append(f"{name}: a worker takes {worker_mb:.0f} MB")
    result.raw = result.rows
    result.notes.append(
        "Four assignors are replayed, with two tasks at a time; Spark's start is not counted. The load average was"
        f" {load()} at the end."
    )
    return result
