"""Make the tables without Spark or a JDK: the same functions, in processes of this machine."""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.explain.arrow_batches import log_entry_rows, stored_entries
from groupsdk.history.explain.explaining import Context, LogEntry
from groupsdk.history.pipeline import Options, Progress, make_tables, silent
from groupsdk.history.read.buckets import Buckets, bucket_count
from groupsdk.history.read.reading import ReadTask, resolve_transactions
from groupsdk.history.read.whole_log import LAG_COLUMNS, lower_bounds
from groupsdk.history.sources.filesystems import StorageDirectory, local_path
from groupsdk.history.tables.delta_tables import DeltaTables, check_cluster
from groupsdk.history.tables.lease import held
from groupsdk.history.tables.publishing import DELTA, PARQUET, STAGING, begin, publish, refuse_other
from groupsdk.history.tables.sampled_lag import COMMIT_COLUMNS, sampled
from groupsdk.history.tables.stage_tables import BATCH_ROWS, RUN_TABLES, StageTables
from groupsdk.history.tables.stages import DEFERRED, RECORDS
from groupsdk.history.without_pandas import leave_out_pandas


__all__ = ["run"]

T = TypeVar("T")

SMALL_BYTES: Final = 24 * 1024 * 1024
"""Up to so many bytes one process is sooner done than others are started."""


def run(
    tasks: Sequence[ReadTask],
    out: str,
    options: Options | None = None,
    *,
    names: Iterable[tuple[str, str]] = (),
    broker_logs: Sequence[LogEntry] = (),
    end_offsets: Any = None,
    processes: int | None = None,
    progress: Progress = silent,
) -> None:
    """Make every table and write it below `out`, replacing existing tables; the result is the same as Spark's.

    Memory: a process holds one bucket, the group records and sums of commits of some 32 MiB of a log. A group is in
    one bucket; a bucket that becomes larger is read piece by piece. Existing tables stay as they are until all new
    ones are complete.

    Args:
        tasks: the parts of the log: `sources.segment_files.segment_tasks`, `sources.topic_ranges.topic_tasks` or
            `sources.archive_files.archive_tasks`.
        out: a directory of this machine; for Delta also a URI that deltalake knows.
        options: assignors and storms; the defaults unless given.
        names: ids and names of topics, from a cluster.
        broker_logs: the entries of brokers' logs, from `sources.broker_log_lines`.
        end_offsets: samples of partitions' ends, of `sampled_lag.read_end_offsets`.
        processes: how many; None: one for each core, but one for a small log.
        progress: called before each step.

    Raises:
        ConfigError: an assignor is not known, the format is another one than Parquet, or another process writes into
            `out`.
    """
    options = options or Options()
    options.check()
    make = partial(LocalEngine, tasks, processes, broker_logs, end_offsets, options.cluster_id)
    if options.format == DELTA:
        _write_delta(make, out, options, names, progress)
        return
    if options.format != PARQUET:
        raise ConfigError(
            f"the local engine writes Parquet and Delta, not {options.format!r}: use --engine spark"
        )
    store = StorageDirectory(None, out)
    refuse_other(store, PARQUET)
    with held(store.root):
        begin(store, RUN_TABLES)
        engine = make(f"{store.root}/{STAGING}")
        try:
            make_tables(engine, options, lambda: names, progress)
            engine.tables.fill()
            publish(store, RUN_TABLES)
        finally:
            store.delete(STAGING)


def _write_delta(
    make: Callable[[str], "LocalEngine"],
    out: str,
    options: Options,
    names: Iterable[tuple[str, str]],
    progress: Progress,
) -> None:
    """Make the tables in a scratch directory of this machine, and bring those of the lakehouse up to date with them."""
    check_cluster(options.cluster_id)
    if local_path(out) is not None:
        refuse_other(StorageDirectory(None, out), DELTA)
    lake = DeltaTables(out, options.cluster_id)
    versions = lake.versions()
    with TemporaryDirectory(prefix="groupsdk-history-") as scratch:
        engine = make(scratch)
        make_tables(engine, options, lambda: names, progress)
        for name in RUN_TABLES:
            lake.replace(
                name, engine.tables.read(name), versions[name], retention=options.retention
            )


class LocalEngine:
    """Runs the steps in processes of this machine."""

    def __init__(
        self,
        tasks: Sequence[ReadTask],
        processes: int | None,
        broker_logs: Sequence[LogEntry],
        end_offsets: Any,
        cluster_id: str,
        root: str,
    ) -> None:
        self._tasks = tasks
        self._end_offsets = end_offsets
        self._broker_logs = broker_logs
        size = sum(task.size for task in tasks)
        cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
        self._processes = processes or (1 if size <= SMALL_BYTES else cores or 1)
        self._buckets = Buckets(root, bucket_count(size, self._processes), cluster_id)
        self.tables = self.staged = StageTables(fs.LocalFileSystem(), root, cluster_id)

    def read(self) -> None:
        self._each(self._buckets.read, self._tasks)
        if self._broker_logs:
            rows = log_entry_rows(stored_entries(self._broker_logs))
            self._buckets.files("broker-log").write([(RECORDS, rows)])

    def resolve_transactions(self) -> None:
        deferred = self.tables.read(DEFERRED)
        ordered = deferred.sort_by([("src_partition", "ascending"), ("src_offset", "ascending")])
        batches = ordered.to_batches(max_chunksize=BATCH_ROWS)
        self._buckets.files("late").write(resolve_transactions(batches))

    def learn_session_timeout(self, context: Context) -> None:
        self._follow(context, learning=True)

    def explain(self, context: Context) -> None:
        self._follow(context, learning=False)

    def lag(self) -> None:
        behind = lower_bounds(self.tables.read("commit_spans", LAG_COLUMNS))
        if self._end_offsets is not None:
            commits = self.tables.read("offset_commits", COMMIT_COLUMNS)
            behind = pa.concat_tables([behind, sampled(commits, self._end_offsets)])
        self.tables.write("lag", behind)

    def _follow(self, context: Context, *, learning: bool) -> None:
        explain = partial(self._buckets.explain, context=context, learning=learning)
        self._each(explain, range(self._buckets.count))

    def _each(self, function: Callable[[T], None], items: Sequence[T]) -> None:
        if self._processes == 1 or len(items) < 2:
            for item in items:
                function(item)
            return
        # threads of Arrow's may run here, which a plain fork would not survive
        with ProcessPoolExecutor(
            min(self._processes, len(items)),
            mp_context=get_context("forkserver"),
            initializer=leave_out_pandas,
        ) as pool:
            for _ in pool.map(function, items):
                pass
