"""Run the history of each cluster in a process of its own, so that one that fails, hangs or is killed stops no other."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from groupsdk.clock import SystemClock
from groupsdk.history.fleet.clusters import ClusterSource
from groupsdk.history.tables.publishing import DELTA, PARQUET
from groupsdk.printable import printable


PARTITION: Final = "cluster_id="
"""The prefix of a cluster's directory: engines take it as the column `cluster_id` of every table."""
REPORTS: Final = "reports"
"""The directory, beside Delta tables, of the clusters' reports."""
_TAIL_BYTES: Final = 4_000
_DONE, _FAILED = "done", "failed"


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """How the run of one cluster went; `error` is "" if it is done."""

    cluster_id: str
    state: str
    """"done" or "failed"."""
    error: str
    seconds: float

    @property
    def is_done(self) -> bool:
        return self.state == _DONE


def directory_of(out: str, cluster_id: str) -> Path:
    """Return where the Parquet tables of a cluster are."""
    return Path(out) / f"{PARTITION}{cluster_id}"


def report_of(out: str, cluster_id: str, table_format: str = PARQUET) -> Path:
    """Return where the report of a cluster is: not among the tables of a lakehouse, which are of all clusters."""
    if table_format == DELTA:
        return Path(out) / REPORTS / f"{cluster_id}.html"
    return directory_of(out, cluster_id) / "report.html"


def run_clusters(
    clusters: Sequence[ClusterSource],
    out: str,
    *,
    table_format: str = PARQUET,
    arguments: Sequence[str] = (),
    processes: int | None = None,
    timeout_s: float | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[ClusterRun]:
    """Make the tables of all clusters below `out`, and return how each run went, in their order.

    Parquet tables of a cluster are in a directory of its own, Delta tables have those of all clusters. The tables of a cluster whose run
    fails stay as they were.

    Args:
        arguments: further arguments of `groupsdk history run`, for all clusters.
        processes: how many run at a time; None: one for each core.
        timeout_s: for how long a cluster's run may take; None: for ever.
        say: called with a line for each that is done, on this thread.
    """
    found: dict[str, ClusterRun] = {}
    with ThreadPoolExecutor(processes or os.cpu_count() or 1) as pool:
        runs = [
            pool.submit(_run, each, out, table_format, arguments, timeout_s) for each in clusters
        ]
        for number, future in enumerate(as_completed(runs), 1):
            done = future.result()
            found[done.cluster_id] = done
            result = "done" if done.is_done else f"FAILED: {done.error}"
            say(
                f"[{number}/{len(clusters)}] {done.cluster_id}: {result} after {done.seconds:.1f} s"
            )
    return [found[each.cluster_id] for each in clusters]


def _run(
    cluster: ClusterSource,
    out: str,
    table_format: str,
    arguments: Sequence[str],
    timeout_s: float | None,
) -> ClusterRun:
    tables = out if table_format == DELTA else directory_of(out, cluster.cluster_id)
    command = [
        *(sys.executable, "-m", "groupsdk.history", "run", "--quiet"),
        *cluster.arguments(),
        *arguments,
        f"--cluster={cluster.cluster_id}",
        f"--format={table_format}",
        f"--out={tables}",
        f"--report={report_of(out, cluster.cluster_id, table_format)}",
    ]
    clock = SystemClock()
    began_ms = clock.now_ms()
    error = ""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        error = f"not done after {timeout_s} s"
    except OSError as problem:
        error = str(problem)
    else:
        if ended.returncode:
            error = _last_line(ended.stderr) or f"exit code {ended.returncode}"
    seconds = (clock.now_ms() - began_ms) / 1000
    return ClusterRun(cluster.cluster_id, _FAILED if error else _DONE, error, seconds)


def _last_line(stderr: bytes) -> str:
    text = stderr[-_TAIL_BYTES:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else ""
