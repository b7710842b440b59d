"""Measure how the history grows with its log: `python -m tests.benchmarks --only history_growth [--full]`.

Logs of several sizes are read to Parquet by one Spark with two tasks at a time, one after the other.
"""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from groupsdk.wire.records.batch import batches
from tests.benchmarks.history_decoding import (
    WORKER_AIM_MB,
    Cost,
    measured,
    peak_worker_mb,
    spark_session,
    to_parquet,
)
from tests.benchmarks.history_log import write_log
from tests.benchmarks.report import Result


QUICK: Final = (200_000, 1_000_000)
FULL: Final = (2_000_000, 5_000_000, 20_000_000)
PARTITIONS: Final = 8


def read_all(master: str, logs: dict[Path, int], out: Path, warm: Path) -> list[tuple[Cost, float]]:
    """Read logs one after the other with one Spark; gives what each took, and the largest worker's MB."""
    spark = spark_session(master)
    try:
        to_parquet(spark, warm, out / "warm")
        return [
            (
                measured(partial(to_parquet, spark, root, out / root.name), records),
                peak_worker_mb(os.getpid()),
            )
            for root, records in logs.items()
        ]
    finally:
        spark.stop()


def run(options: list[str], *, quick: bool) -> Result:
    """Measure, and print the table.

    Args:
        options: how many records the logs have, in the place of the usual numbers; a directory in the place of
            a number is a log that is there.
        quick: up to a million records; twenty otherwise.
    """
    result = Result(
        "history_growth",
        "History: to Parquet, by the size of the log",
        ["records", "records a CPU second", "records a second", "largest worker, MB"],
    )
    with tempfile.TemporaryDirectory(prefix="history-bench-") as scratch:
        base = Path(scratch)
        logs = {}
        for size in options or [str(each) for each in (QUICK if quick else FULL)]:
            root = Path(size) if os.sep in size else base / size
            logs[root] = (
                _count(root)
                if os.sep in size
                else write_log(root, int(size), partitions=PARTITIONS)
            )
        warm = base / "small"
        write_log(warm, QUICK[0], partitions=PARTITIONS)
        costs = read_all("local[2]", logs, base / "out", warm)
        for cost, worker_mb in costs:
            result.rows.append(_row(cost, worker_mb))
            if worker_mb > WORKER_AIM_MB:
                result.behind.append(f"a worker takes {worker_mb:.0f} MB")
    result.raw = result.rows
    first, last = costs[0][0], costs[-1][0]
    result.notes.append(
        f"From {first.records:,} to {last.records:,} records the CPU of one grew by"
        f" {last.cpu_s / last.records / (first.cpu_s / first.records) - 1:+.0%}. The load average"
        f" was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end."
    )
    return result.finish()


def _row(cost: Cost, worker_mb: float) -> tuple[str, ...]:
    speed = cost.records / cost.wall_s
    return f"{cost.records:,}", f"{cost.rate:,.0f}", f"{speed:,.0f}", f"{worker_mb:.0f}"


def _count(root: Path) -> int:
    return sum(
        header.records_count
        for path in root.glob("*/*.log")
        for header, _ in batches(path.read_bytes())
    )


if __name__ == "__main__":
    run(
        [each for each in sys.argv[1:] if each[:1] in "0123456789/"], quick="--full" not in sys.argv
    )
