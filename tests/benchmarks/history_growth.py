"""Measure how the history grows with its log: `python -m tests.benchmarks --only history_growth [--full]`.

Logs of several sizes are read to Parquet by one Spark with two tasks at a time, one after the other. `--only history_merge` merges a day
into Delta tables of a month and of a year.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from groupsdk.history.tables.delta_tables import Batch, DeltaTables
from groupsdk.history.tables.lake_changes import changes, lake_rows
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_files import with_cluster
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
DAYS: Final = (30, 365)
"""How many days the tables have that a day is merged into."""
ROWS: Final = 500
"""Generations of a day; the last fifty of the day before change with it."""
MERGES: Final = 3
_GROUPS: Final = 50
_CLUSTER: Final = "prod"
_TABLE: Final = "generations"


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


def generations(day: int, moved: int = 0) -> list[dict[str, Any]]:
    """Give the generations of a day; the last one of each group moves so many partitions."""
    each_us = 86_400_000_000 // ROWS
    begin_us = 1_767_225_600_000_000 + day * 86_400_000_000
    return [
        {
            "group_id": f"group-{number % _GROUPS}",
            "seq": (day * ROWS + number) // _GROUPS,
            "ts": begin_us + number * each_us,
            "n_members": 3,
            "causes": ["join"],
            "primary_cause": "join",
            "moved": moved if number >= ROWS - _GROUPS else number % 7,
        }
        for number in range(ROWS)
    ]


def changed(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Any:
    """Give the changes that make rows of other ones."""
    schema = TABLES[_TABLE].arrow_schema
    both = (pa.Table.from_pylist(rows, schema=schema) for rows in (before, after))
    return changes(
        _TABLE, *(lake_rows(_TABLE, with_cluster(_TABLE, rows, _CLUSTER)) for rows in both)
    )


def a_day(days: int) -> Any:
    """Give what a day changes in a table of so many: its own rows, and the last ones of the day before."""
    last = generations(days - 1)
    return changed(last, [*generations(days - 1, moved=9), *generations(days)])


def merged(root: Path, days: int, merge: Callable[[int], None]) -> tuple[Cost, list[Any]]:
    """Merge one day after the other, and tell what the middle one took and changed in the table's log."""
    costs = [measured(partial(merge, days + number), ROWS) for number in range(MERGES)]
    newest = max((root / _TABLE / "_delta_log").glob("*.json"))
    actions = map(json.loads, newest.read_text(encoding="utf-8").splitlines())
    middle = median_low(each.cpu_s for each in costs)
    return next(each for each in costs if each.cpu_s == middle), list(actions)


def merge_row(engine: str, days: int, cost: Cost, actions: list[Any]) -> tuple[str, ...]:
    """Say what a merge took, and which files it took away and added."""
    gone, new = ([each[kind] for each in actions if kind in each] for kind in ("remove", "add"))
    files = f"{len(gone)} of {days}", f"{len(new)}"
    sizes = (f"{sum(each['size'] for each in kind) / 1e3:,.0f}" for kind in (gone, new))
    return engine, f"{days}", f"{cost.cpu_s:.2f}", f"{cost.wall_s:.2f}", *files, *sizes


def run_merges() -> Result:
    """Measure merges of one more day, and print the table."""
    from groupsdk.history.sources.filesystems import StorageDirectory
    from groupsdk.history.tables.table_formats import SparkDelta, format_settings

    result = Result(
        "history_merge",
        f"History: a day of {ROWS:,} generations merged into a Delta table",
        ["", "days", "CPU s", "s", "files replaced", "written", "KB replaced", "written"],
    )
    spark = spark_session(more=format_settings("delta"))
    with tempfile.TemporaryDirectory(prefix="history-bench-") as scratch:
        for days in DAYS:
            root = Path(scratch) / str(days)
            lake = DeltaTables(str(root), _CLUSTER)
            rows = [each for day in range(days) for each in generations(day)]
            lake.merge(_TABLE, changed([], rows), -1, Batch("benchmark", 0))
            found = [a_day(days + number) for number in range(2 * MERGES)]
            (root / "changes").mkdir()
            for day, rows in enumerate(found, days):
                parquet.write_table(rows, root / "changes" / f"{day}.parquet")

            def local(day: int) -> None:
                number = day - days  # noqa: B023
                lake.merge(_TABLE, found[number], number, Batch("benchmark", number + 1))  # noqa: B023

            store = StorageDirectory(spark, str(root))

            def by_spark(day: int) -> None:
                rows = f"{root}/changes/{day}.parquet"  # noqa: B023
                SparkDelta(spark, store, _CLUSTER, None).merge(_TABLE, spark.read.parquet(rows))  # noqa: B023

            result.rows.append(merge_row("local", days, *merged(root, days, local)))
            later = days + MERGES
            result.rows.append(merge_row("Spark", later, *merged(root, later, by_spark)))
    spark.stop()
    result.raw = result.rows
    result.notes.append(
        f"A file for each day before, partitioned as `run` and `follow` write. {_GROUPS} generations of the day before change, so two days are"
        f" touched. The middle one of {MERGES} merges in CPU seconds of all processes; the files are those of the last one. Spark's session begins with the first of them. The load"
        f" average was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end."
    )
    return result.finish()


if __name__ == "__main__":
    run(
        [each for each in sys.argv[1:] if each[:1] in "0123456789/"], quick="--full" not in sys.argv
    )
