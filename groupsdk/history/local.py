"""Make the tables without Spark or a JDK: the same functions, in processes of this machine."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.groups.arrow_batches import sizes_of, tables_of
from groupsdk.history.groups.explaining import BrokerLogEntries, Context
from groupsdk.history.lease import held
from groupsdk.history.log_entries import log_entries, log_entry_rows
from groupsdk.history.pipeline import Options, Progress, make_tables, silent
from groupsdk.history.publishing import STAGING, begin, publish
from groupsdk.history.reading import (
    DEFERRED,
    RECORDS,
    TableBatches,
    resolve_transactions,
)
from groupsdk.history.sampled_lag import COMMIT_COLUMNS, sampled
from groupsdk.history.sources.filesystems import StorageDirectory
from groupsdk.history.stage_files import StageFiles
from groupsdk.history.stage_tables import MADE, StageTables
from groupsdk.history.whole_log import LAG_COLUMNS, lower_bounds


T = TypeVar("T")

BUCKET_BYTES: Final = 64 * 1024 * 1024
"""How much of a log goes into one bucket: the groups of a bucket are sorted, and held, together."""
HELD_BYTES: Final = 192 * 1024 * 1024
"""Up to so many bytes of a bucket are held at once, before they are compressed; of more, one piece after the other."""
SMALL_BYTES: Final = 24 * 1024 * 1024
"""Up to so many bytes one process is sooner done than others are started."""
BATCH_ROWS: Final = 20_000


class ReadTask(Protocol):
    """Reads a part of a log; can be pickled."""

    @property
    def name(self) -> str:
        """The name of the task's output files, unique in the log."""

    @property
    def size(self) -> int:
        """About how many bytes it reads."""

    def read(self) -> TableBatches:
        """Read the part; yields batches, each with the name of its table or stage."""


def run(
    tasks: Sequence[ReadTask],
    out: str,
    options: Options | None = None,
    *,
    names: Iterable[tuple[str, str]] = (),
    broker_logs: Sequence[BrokerLogEntries] = (),
    end_offsets: Any = None,
    processes: int | None = None,
    progress: Progress = silent,
) -> None:
    """Make every table and write it below `out`, replacing existing tables; the result is the same as Spark's.

    Memory: a process holds one bucket, the group records and sums of commits of some 64 MiB of a log. Those of one
    group are never in two; where that makes a bucket larger it is read piece by piece. Tables that are there stay as they are until all are made.

    Args:
        tasks: what to read: `sources.segment_files.segment_tasks`, `sources.topic_ranges.topic_tasks` or
            `sources.archive_files.archive_tasks`.
        out: a directory of this machine.
        options: what to do differently.
        names: ids and names of topics, as asked from a cluster.
        broker_logs: the entries of brokers' logs, from `sources.broker_log_lines`.
        end_offsets: samples of partitions' ends, of `sampled_lag.read_end_offsets`.
        processes: how many; None: one for each core where there is enough to do.
        progress: told of each step.

    Raises:
        ConfigError: an assignor is not known, the format is another one than Parquet, or another process writes into
            `out`.
    """
    options = options or Options()
    options.check()
    if options.format != "parquet":
        raise ConfigError(
            f"the local engine writes Parquet, not {options.format!r}: use --engine spark"
        )
    store = StorageDirectory(None, out)
    with held(store.root):
        begin(store, MADE)
        engine = LocalEngine(tasks, f"{store.root}/{STAGING}", processes, broker_logs, end_offsets)
        try:
            make_tables(engine, options, lambda: names, progress)
            engine.tables.fill()
            publish(store, MADE)
        finally:
            store.delete(STAGING)


class LocalEngine:
    """Runs the steps in processes of this machine.

    Args:
        tasks: what to read.
        root: the directory of the run.
        processes: how many; None: as many as there are cores, but one for a small log.
        broker_logs: the entries of brokers' logs.
        end_offsets: samples of partitions' ends.
    """

    def __init__(
        self,
        tasks: Sequence[ReadTask],
        root: str,
        processes: int | None,
        broker_logs: Sequence[BrokerLogEntries] = (),
        end_offsets: Any = None,
    ) -> None:
        self._tasks = tasks
        self._end_offsets = end_offsets
        self._broker_logs = broker_logs
        self._root = root
        size = sum(task.size for task in tasks)
        cores = os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count()
        self._processes = processes or (1 if size <= SMALL_BYTES else cores or 1)
        self._buckets = -(-size // BUCKET_BYTES) or 1
        if self._processes > 1:
            # groups differ: more buckets than processes keep all busy to the end
            self._buckets = max(self._buckets, 2 * self._processes)
        self.tables = self.staged = StageTables(fs.LocalFileSystem(), root)

    def read(self) -> None:
        """Read the log, each task on its own."""
        place = _Place(self._root, self._buckets)
        self._each(_read, [(task, place) for task in self._tasks])
        if self._broker_logs:
            files = StageFiles(fs.LocalFileSystem(), self._root, "told", buckets=self._buckets)
            files.write([(RECORDS, log_entry_rows(log_entries(self._broker_logs)))])

    def resolve_transactions(self) -> None:
        """Resolve commits within transactions."""
        deferred = self.tables.read(DEFERRED)
        ordered = deferred.sort_by([("src_partition", "ascending"), ("src_offset", "ascending")])
        files = StageFiles(fs.LocalFileSystem(), self._root, "late", buckets=self._buckets)
        files.write(resolve_transactions(ordered.to_batches(max_chunksize=BATCH_ROWS)))

    def learn_session_timeout(self, context: Context) -> None:
        """Learn how long sessions last."""
        self._follow(context, learning=True)

    def explain(self, context: Context) -> None:
        """Explain all groups, bucket by bucket."""
        self._follow(context, learning=False)

    def lag(self) -> None:
        """Compare the groups' commits."""
        behind = lower_bounds(self.tables.read("commit_spans", LAG_COLUMNS))
        if self._end_offsets is not None:
            commits = self.tables.read("offset_commits", COMMIT_COLUMNS)
            behind = pa.concat_tables([behind, sampled(commits, self._end_offsets)])
        self.tables.write("lag", behind)

    def _follow(self, context: Context, *, learning: bool) -> None:
        place = _Place(self._root, self._buckets)
        self._each(_explain_bucket, [(place, n, context, learning) for n in range(self._buckets)])

    def _each(self, function: Callable[[T], None], items: Sequence[T]) -> None:
        if self._processes == 1 or len(items) < 2:
            for item in items:
                function(item)
            return
        # threads of Arrow's may run here, which a plain fork would not survive
        with ProcessPoolExecutor(
            min(self._processes, len(items)), mp_context=get_context("forkserver")
        ) as pool:
            for _ in pool.map(function, items):
                pass


@dataclass(frozen=True, slots=True)
class _Place:
    root: str
    buckets: int


def _read(item: tuple[ReadTask, _Place]) -> None:
    task, place = item
    StageFiles(fs.LocalFileSystem(), place.root, task.name, buckets=place.buckets).write(
        task.read()
    )


def _explain_bucket(item: tuple[_Place, int, Context, bool]) -> None:
    place, bucket, context, learning = item
    tables = StageTables(fs.LocalFileSystem(), place.root)
    files = [
        each for each in tables.files(RECORDS) if place.buckets == 1 or f"/bucket={bucket}/" in each
    ]
    batches = (
        batch
        for records in _in_pieces(tables, files)
        for batch in records.to_batches(max_chunksize=BATCH_ROWS)
    )
    follow = sizes_of if learning else tables_of
    name = f"part-{bucket:05}-{'learned' if learning else 'explained'}"
    StageFiles(fs.LocalFileSystem(), place.root, name).write(follow(batches, context))


def _in_pieces(tables: StageTables, files: Sequence[str]) -> Iterator[Any]:
    """Read the rows of a bucket in order, in pieces if they do not fit in memory."""
    count, size = tables.sizes(files)
    if size <= HELD_BYTES:
        yield _in_order(tables.read(RECORDS, files=files))
        return
    limit = max(1, count * HELD_BYTES // size)
    keys = tables.read(RECORDS, ("group_id", "src_partition", "src_offset"), files=files)
    names = pc.fill_null(keys.column("group_id"), pa.scalar(""))
    band: list[str | None] = []
    held = 0
    for each in pc.value_counts(names).to_pylist():
        group, rows = each["values"], each["counts"]
        if rows > limit and group:
            yield from _of_group(tables, files, group, keys.filter(pc.equal(names, group)), limit)
            continue
        if band and held + rows > limit:
            yield _in_order(tables.read(RECORDS, groups=band, files=files))
            band, held = [], 0
        # rows without a name count as those of a group named ""
        band += [group] if group else [group, None]
        held += rows
    if band:
        yield _in_order(tables.read(RECORDS, groups=band, files=files))


def _of_group(
    tables: StageTables, files: Sequence[str], group: str, keys: Any, limit: int
) -> Iterator[Any]:
    """Read the rows of one group in order, about the given number at a time."""
    places = keys.select(["src_partition", "src_offset"]).sort_by(
        [("src_partition", "ascending"), ("src_offset", "ascending")]
    )
    partitions, offsets = (column.to_numpy() for column in places.columns)
    start = 0
    while start < len(offsets):
        stop = min(start + limit, len(offsets)) - 1
        last = int(partitions[stop]), int(offsets[stop])
        # one that stands in the log several times stays in one piece
        while stop + 1 < len(offsets) and (partitions[stop + 1], offsets[stop + 1]) == last:
            stop += 1
        first = int(partitions[start]), int(offsets[start])
        yield _in_order(tables.read_range(RECORDS, group, first, last, files))
        start = stop + 1


def _in_order(records: Any) -> Any:
    """Put the rows of each group together, in the order of the log."""
    groups = pc.fill_null(records.column("group_id"), pa.scalar(""))
    records = records.set_column(0, records.schema.field(0), groups)
    order = [(name, "ascending") for name in ("group_id", "src_partition", "src_offset")]
    return records.sort_by(order)
