"""Keep the tables of a directory up to date: one implementation for streams, archives and the local engine."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from threading import RLock
from typing import Final
from urllib.parse import quote

import pyarrow.compute as pc
from pyarrow import parquet

from groupsdk.assignment import AssignorLike
from groupsdk.errors import ConfigError
from groupsdk.history.explain.arrow_batches import (
    LOG_ENTRY_PARTITION,
    StoredEntry,
    log_entry_rows,
    stored_entries,
)
from groupsdk.history.explain.explaining import LogEntry
from groupsdk.history.follow.bucket_update import READ
from groupsdk.history.follow.group_state import fingerprint
from groupsdk.history.follow.update_steps import STEPS, Each, R, T, TablesDirectory, Update
from groupsdk.history.pipeline import Options, Progress, silent
from groupsdk.history.read.buckets import Buckets
from groupsdk.history.sources.filesystems import StorageDirectory, file_system, local_path
from groupsdk.history.sources.topic_ranges import TopicRange, TopicSettings
from groupsdk.history.tables import lease
from groupsdk.history.tables.delta_ledger import DeltaLedger
from groupsdk.history.tables.delta_tables import Batch, DeltaTables, check_cluster
from groupsdk.history.tables.lake_changes import app_id
from groupsdk.history.tables.ledger import OUTBOX, Ledger, State
from groupsdk.history.tables.publishing import DELTA, FOLLOWED, PARQUET, finish, refuse_other
from groupsdk.history.tables.stage_tables import RUN_TABLES
from groupsdk.history.tables.stages import RECORDS
from groupsdk.history.tables.table_files import read_files


logger = logging.getLogger(__name__)

FOLLOWING: Final = "_following"
"""The directory, below Delta tables, of the files that are kept of each cluster to go on."""
BUCKETS: Final = 16
"""The default number of parts into which the groups are split; the groups of one part are replayed together."""


def one_by_one(function: Callable[[T], R], values: Sequence[T], /) -> Sequence[R]:
    return [function(each) for each in values]


class _ReplacedError(ConfigError):
    """The tables of a lakehouse are not those of the last update any more; the next process that follows starts over."""


class Updater:
    """Keeps the tables of one directory up to date; for one thread of one process at a time.

    No other process can write into a directory of Parquet until `close`, or until this process ends. An update reads the new records,
    continues the groups that have some, and is committed as a whole, with the position in the log: an update that is
    interrupted leaves nothing behind. After each update the tables equal those of one run over everything read so far.

    With the format "delta", `out` has Delta tables of many clusters. An update counts with one transaction of the table `followed`, which has
    the position in the log; of two processes that follow one cluster the later one is refused there. Then the rows that it changed are merged
    into each table, once for each update, by the update's number; a process that ended in between is continued by the next one.

    Args:
        source: identifies the followed log.
        options: if they or the code changed since the last update, all groups are replayed from the records that are
            kept; nothing is read again.
        broker_logs: returns the entries of brokers' logs since its last call; at its first call all of them.
        buckets: into how many parts the groups are split, 2 or more; ignored if there are tables already.
        replace_other: start over if another source was followed into this directory.

    Raises:
        ConfigError: an assignor is not known, pyarrow does not know the file system, the format is not Parquet or Delta, another
            source is followed into this directory, or another process writes into it.
    """

    def __init__(
        self,
        out: str,
        source: str,
        options: Options | None = None,
        *,
        each: Each = one_by_one,
        names: Callable[[], Iterable[tuple[str, str]]] = tuple,
        broker_logs: Callable[[], Iterable[LogEntry]] | None = None,
        buckets: int = BUCKETS,
        replace_other: bool = False,
    ) -> None:
        self._options = options or Options()
        self._options.check()
        if buckets < 2:
            raise ConfigError(f"buckets must be at least 2, not {buckets}")
        if self._options.format not in (PARQUET, DELTA):
            raise ConfigError(
                f"tables that are kept up to date are Parquet or Delta, not {self._options.format!r}"
            )
        self._lake: DeltaTables | None = None
        self._delivered = 0
        self._updating = RLock()
        where = out
        if self._options.format == DELTA:
            check_cluster(self._options.cluster_id)
            self._lake = DeltaTables(out, self._options.cluster_id)
            where = f"{out.rstrip('/')}/{FOLLOWING}/{quote(self._options.cluster_id, safe='')}"
        elif local_path(out) is not None:
            refuse_other(StorageDirectory(None, out), PARQUET)
        self.out = where
        local = local_path(where)
        system, root = file_system(where)
        self._directory = TablesDirectory(
            system, root, where.rstrip("/") if local is None else str(local)
        )
        self._each = each
        self._names = names
        self._read_logs = broker_logs
        # apart, as an update looks at the pending ones only: a broker that has run for long has logged many
        self._stored_entries: set[StoredEntry] | None = None
        self._pending_entries: dict[StoredEntry, None] = {}
        self._ledger: Ledger
        self._lease: lease.Lease
        if self._lake is None:
            # before anything is looked at: opening the ledger deletes what an update has left
            self._lease = lease.take(where)
            self._ledger = Ledger(system, root)
        else:
            self._lease = self._ledger = DeltaLedger(system, root, out, self._options.cluster_id)
        try:
            self.state = self._open(where, source, buckets, replace_other=replace_other)
            try:
                self._deliver()
            except _ReplacedError as error:
                logger.warning("history: %s: following starts over", error)
                self.start_over()
        except BaseException:
            self._lease.release()
            raise

    def _open(self, out: str, source: str, buckets: int, *, replace_other: bool) -> State:
        if self._lake is None and local_path(out) is not None:
            # a run that was killed as it put its tables in their places
            finish(StorageDirectory(None, out), RUN_TABLES)
        state = self._ledger.open()
        if state is not None and state.source != source and not replace_other:
            raise ConfigError(
                f"the tables in {out} are of {state.source}, not of {source}: choose another directory, or delete"
                f" {out}/{FOLLOWED} to begin again"
            )
        mine = self._options.cluster_id
        if state is not None and state.cluster_id != mine and not replace_other:
            raise ConfigError(
                f"the tables in {out} are of the cluster {state.cluster_id!r}, not of {mine!r}: choose another"
                f" directory, or delete {out}/{FOLLOWED} to begin again"
            )
        if state is None or (state.source, state.cluster_id) != (source, mine):
            state = self._ledger.create(
                State(source, fingerprint(), self._settings(), buckets, mine)
            )
        return state

    def close(self) -> None:
        """Release the directory for other processes, once an update that another thread carries out, as Spark's, has ended."""
        # where Spark has died it goes on, and threads of Arrow's that it waits for would never let the process end
        with self._updating:
            self._lease.release()

    @property
    def checkpoint(self) -> str:
        """The location of a stream's checkpoint, valid in every process."""
        return f"{self._directory.shared}/{FOLLOWED}/{self.state.checkpoint}"

    @property
    def is_current(self) -> bool:
        """Whether the existing tables were made with this code and these options."""
        mine = fingerprint(), self._settings()
        return self.state.update > 0 and (self.state.code, self.state.settings) == mine

    def start_over(self) -> None:
        """Start over from the beginning of the log: the tables of the next update replace the existing ones."""
        self._delivered = 0
        self.state = self._ledger.create(
            State(
                *(self.state.source, fingerprint(), self._settings()),
                *(self.state.buckets, self.state.cluster_id),
            )
        )
        if self._stored_entries is not None:
            self._pending_entries = dict.fromkeys((*self._stored_entries, *self._pending_entries))
            self._stored_entries = set()

    def update(
        self,
        read: Callable[[Buckets], None],
        *,
        batch: int | None = None,
        positions: Mapping[str, int] | None = None,
        progress: Progress = silent,
    ) -> bool:
        """Bring the tables up to date; returns whether the batch was new.

        `read` writes the stages of `groupsdk.history.read.reading` to the given files. `batch` is the number in a stream; a
        committed one is skipped. `positions`: the next offset of each partition, if no stream keeps them.

        Raises:
            LateTransactionError: the outcome of a transaction is known only after reading everything again; see `start_over`.
            ConfigError: another process has taken over the directory, because this one was paused for long; or, with Delta, it has followed or
                written the cluster's tables since.
        """
        with self._updating:
            return self._update(read, batch, positions, progress)

    def _update(
        self,
        read: Callable[[Buckets], None],
        batch: int | None,
        positions: Mapping[str, int] | None,
        progress: Progress,
    ) -> bool:
        self._lease.check()
        # the last update, if that failed
        self._deliver()
        if batch is not None and batch <= self.state.batch:
            logger.info("history: batch %s is in the tables", batch)
            return False

        def step(name: str) -> None:
            logger.info("history: update %s: %s", self.state.update + 1, name)
            progress(name, STEPS.index(name), len(STEPS))

        change = self._ledger.begin()
        update = Update(
            self._directory,
            self.state,
            change,
            self._options,
            each=self._each,
            names=self._names,
            step=step,
            remake=self.state.update > 0 and not self.is_current,
            lake=self._lake,
        )
        try:
            step("read")
            output = Buckets(
                f"{self._directory.shared}/{change.folder}/{READ}",
                self.state.buckets,
                self.state.cluster_id,
            )
            read(output)
            # after the records: a broker logs the reason before it writes the record
            self._write_log_entries(output)
            after = update.carry_out()
            self._lease.check()
        except BaseException:
            update.abandon()
            self._ledger.abandon(change)
            # which may have deleted what this update was reading
            self._lease.check()
            raise
        step("commit")
        after = replace(
            after,
            code=fingerprint(),
            settings=self._settings(),
            batch=self.state.batch if batch is None else batch,
            positions=self.state.positions if positions is None else dict(positions),
        )
        self.state = self._ledger.commit(after, change)
        self._deliver()
        if self._stored_entries is not None:
            self._stored_entries.update(self._pending_entries)
            self._pending_entries.clear()
        return True

    def _deliver(self) -> None:
        """Bring the Delta tables up to date with the update that counts: a table that has its number is passed over."""
        lake, state = self._lake, self.state
        if lake is None or self._delivered == state.update:
            return
        batch = Batch(f"{app_id(state.cluster_id)}/{state.checkpoint}", state.update)
        root, system = self._directory.root, self._directory.system
        changed = {each.kind: f"{root}/{each.path}" for each in state.of(OUTBOX)}
        retention = self._options.retention
        for name in RUN_TABLES:
            after, last, seen = lake.last(name, app_id(lake.cluster_id), batch.app, batch.seen)
            if state.update == 1 and last < 1:
                paths = [f"{root}/{each.path}" for each in state.of(name)]
                rows = read_files(system, paths, name)
                lake.replace(name, rows, after, batch=batch, retention=retention)
            elif after != seen:
                raise _ReplacedError(
                    f"a run has replaced rows of the cluster {lake.cluster_id!r} in {lake.root}/{name}"
                )
            elif last < batch.number and name in changed:
                with system.open_input_file(changed[name]) as file:
                    rows = parquet.read_table(file)
                lake.merge(
                    name, rows if retention is None else retention.keep(name, rows), after, batch
                )
        self._delivered = state.update

    def _write_log_entries(self, output: Buckets) -> None:
        """Write the entries of brokers' logs that the tables do not have; they are pending until the update counts."""
        if self._read_logs is None:
            return
        if self._stored_entries is None:
            self._stored_entries = set(self._stored_log_entries())
        for each in stored_entries(self._read_logs()):
            if each not in self._stored_entries:
                self._pending_entries[each] = None
        if self._pending_entries:
            output.files("logs").write([(RECORDS, log_entry_rows(list(self._pending_entries)))])

    def _stored_log_entries(self) -> Iterator[StoredEntry]:
        paths = [f"{self._directory.root}/{each.path}" for each in self.state.of(RECORDS)]
        columns = ("group_id", "src_partition", "value")
        for path in paths:
            rows = read_files(self._directory.system, [path], RECORDS, columns)
            for row in rows.filter(
                pc.equal(rows.column("src_partition"), LOG_ENTRY_PARTITION)
            ).to_pylist():
                yield row["group_id"], row["value"]

    def _settings(self) -> str:
        chosen = self._options
        return json.dumps(
            [
                [_text(each) for each in chosen.assignors],
                chosen.storm_generations,
                chosen.storm_window_ms,
                chosen.session_timeout_ms,
            ]
        )


def catch_up_topic(
    settings: TopicSettings,
    updater: Updater,
    *,
    after: Callable[[], None] = lambda: None,
) -> None:
    """Bring the tables up to date with a live topic, without Spark, in as many updates as its new records need.

    Reads up to the last stable offset: open transactions hold back what follows them. Each update reads `max_offsets` of a partition.

    Raises:
        DataLossError: the next offsets to read are no longer in the topic.
        NetworkError: a broker cannot be reached.
    """
    spans = settings.spans()
    while True:
        positions = dict(updater.state.positions)
        ranges = settings.next_ranges(spans, {int(key): each for key, each in positions.items()})
        if not ranges and updater.is_current:
            return
        positions |= {str(each.partition): each.end for each in ranges}
        updater.update(partial(_read_ranges, settings, ranges), positions=positions)
        after()


def _read_ranges(settings: TopicSettings, ranges: Sequence[TopicRange], output: Buckets) -> None:
    for each in ranges:
        output.files(each.name).write(settings.read(each))


def _text(assignor: AssignorLike) -> str:
    if isinstance(assignor, str):
        return assignor
    kind = assignor if isinstance(assignor, type) else type(assignor)
    return f"{kind.__module__}:{kind.__qualname__}"
