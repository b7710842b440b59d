"""Delta tables beside Parquet ones, of the same logs."""

import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyarrow import fs

from groupsdk.history.pipeline import Options
from groupsdk.history.tables.delta_tables import DeltaTables, opened
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_tables import RUN_TABLES, StageTables


CLUSTER = "prod-eu"
PLAIN = Options(assignors=("sticky",), cluster_id=CLUSTER)
DELTA = Options(assignors=("sticky",), cluster_id=CLUSTER, format="delta")

ROOT = Path(__file__).parents[2]

Rows = dict[str, list[str]]


def is_killed(command: Sequence[str], lake: Path, new_files: int) -> bool:
    """Run a command that writes into a lake until so many new files are there, and kill it; False if it ended before."""
    process = subprocess.Popen(command, cwd=ROOT)
    wanted = sum(1 for _ in lake.rglob("*")) + new_files
    while process.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.001)
        if sum(1 for _ in lake.rglob("*")) >= wanted:
            process.kill()
            break
    assert process.wait() in (0, -signal.SIGKILL)
    return process.returncode != 0


def columns_of(name: str) -> list[str]:
    """Name the columns that a table has in each format, in its files or by its folders."""
    return [each for each in TABLES[name].arrow_schema.names if each not in ("day", "place")]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        # sums come out differently in their last bits, by the order in which they are made
        return round(value, 9)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return sorted(value)
    return value


def texts(table: Any) -> list[str]:
    """Return rows in an order of their own."""
    return sorted(str([_plain(value) for value in row.values()]) for row in table.to_pylist())


def parquet_rows(out: Path) -> Rows:
    """Read every table of a directory of Parquet files."""
    tables = StageTables(fs.LocalFileSystem(), str(out))
    return {name: texts(tables.read(name, columns_of(name))) for name in RUN_TABLES}


def delta_rows(out: Path, cluster_id: str = CLUSTER) -> Rows:
    """Read the rows of a cluster from every Delta table."""
    tables = DeltaTables(str(out), cluster_id)
    return {name: texts(tables.read(name, columns_of(name))) for name in RUN_TABLES}


def versions(out: Path) -> dict[str, int]:
    """Return the version of every Delta table."""
    return {name: opened(str(out), name).version() for name in RUN_TABLES}


def live_files(out: Path, name: str) -> dict[str, int]:
    """Return the size of each file that counts, by its path."""
    table = opened(str(out), name)
    found = table.get_add_actions(flatten=True)
    return dict(
        zip(found.column("path").to_pylist(), found.column("size_bytes").to_pylist(), strict=True)
    )
