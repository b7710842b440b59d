"""Measure what it takes to merge a day into Delta tables of a month and of a year: `python -m tests.benchmarks --only history_merge`."""

import json
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
from tests.benchmarks.history_decoding import Cost, measured, spark_session
from tests.benchmarks.report import Result, load


DAYS: Final = (30, 365)
"""How many days the tables have that a day is merged into."""
ROWS: Final = 500
"""Generations of a day; the last fifty of the day before change with it."""
MERGES: Final = 3
_GROUPS: Final = 50
_CLUSTER: Final = "prod"
_TABLE: Final = "generations"


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


def run(_arguments: list[str], *, quick: bool) -> Result:
    """Measure merges of one more day."""
    del quick
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
        f" average was {load()} at the end."
    )
    return result
