"""Measure the history on Spark's standalone cluster: `python -m tests.benchmarks --only history_cluster [--full]`.

Every table of one log is made by two workers of one core each, and then by four; a master and the workers run on
this machine, each a process of its own, so that there have to be as many cores. Each cluster reads a small log first.
"""

import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from groupsdk.history.tables.schemas import TABLES
from tests.benchmarks.history_decoding import (
    WORKER_AIM_MB,
    Cost,
    every_table,
    measured,
    peak_worker_mb,
    spark_session,
)
from tests.benchmarks.history_log import write_log
from tests.benchmarks.report import Result


QUICK: Final = 200_000
FULL: Final = 20_000_000
WARM: Final = 100_000
PARTITIONS: Final = 8
WORKERS: Final = (2, 4)


@dataclass(frozen=True, slots=True)
class Run:
    """What a cluster took, and made."""

    workers: int
    cost: Cost
    worker_mb: float
    """The largest Python worker's."""
    rows: dict[str, int]
    """Of each table."""


def on_cluster(workers: int, log: Path, records: int, warm: Path, out: Path) -> Run:
    """Make every table on a cluster of its own."""
    from tests.spark.cluster import standalone

    with standalone(out / "spark", workers) as master:
        spark = spark_session(
            master,
            {
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "1g",
                # the executors are on this machine: they find the library where this process does
                "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
                # all of them before the first task, or one would do what there is to do
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.cores.max": str(workers),
            },
        )
        try:
            every_table(spark, warm, out / "warm")
            cost = measured(partial(every_table, spark, log, out / "tables"), records)
            worker_mb = peak_worker_mb(os.getpid())
        finally:
            spark.stop()
    return Run(workers, cost, worker_mb, counted(out / "tables"))


def counted(out: Path) -> dict[str, int]:
    """Count the rows of each table, by what its files say."""
    from pyarrow import parquet

    return {
        name: sum(parquet.read_metadata(path).num_rows for path in (out / name).rglob("*.parquet"))
        for name in TABLES
    }


def run(options: list[str], *, quick: bool) -> Result:
    """Measure, and print the table.

    Args:
        options: how many records the log has, in the place of the usual number.
        quick: 200,000 records; twenty million otherwise.
    """
    records = int(options[0]) if options else QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="history-bench-") as scratch:
        base = Path(scratch)
        count = write_log(base / "log", records, partitions=PARTITIONS)
        write_log(base / "warm", WARM, partitions=PARTITIONS)
        runs = [
            on_cluster(workers, base / "log", count, base / "warm", base / f"on-{workers}")
            for workers in WORKERS
        ]
    first, last = runs[0], runs[-1]
    assert first.rows == last.rows, f"{first.rows} and {last.rows}"
    result = Result(
        "history_cluster",
        f"History: every table of {count:,} records on a standalone cluster",
        ["workers of a core each", "seconds", "records a CPU second", "largest worker, MB"],
    )
    for each in runs:
        result.rows.append(
            (
                str(each.workers),
                f"{each.cost.wall_s:.1f}",
                f"{each.cost.rate:,.0f}",
                f"{each.worker_mb:.0f}",
            )
        )
        if each.worker_mb > WORKER_AIM_MB:
            result.behind.append(f"a worker takes {each.worker_mb:.0f} MB")
    result.notes.append(
        f"From {first.workers} to {last.workers} workers:"
        f" {first.cost.wall_s / last.cost.wall_s:.2f} times as fast. All of it ran on one machine of"
        f" {os.cpu_count()} cores, where more workers than cores cannot be faster; the load average was"
        f" {os.getloadavg()[0]:.1f} at the end. CPU of all processes: driver, executors and Python."
    )
    result.raw = [(each.workers, each.cost.cpu_s, each.cost.wall_s) for each in runs]
    return result
