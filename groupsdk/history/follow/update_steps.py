"""The steps of one update after reading: bring all tables up to date with the new records."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from groupsdk.history.explain import SIZES
from groupsdk.history.explain.arrow_batches import GROUP_TABLES
from groupsdk.history.explain.explaining import Context
from groupsdk.history.follow.bucket_update import PENDING, READ, BucketTask, Changed, update_bucket
from groupsdk.history.follow.running_totals import FOLDED, fold, resolve_more
from groupsdk.history.pipeline import Options
from groupsdk.history.read import whole_log
from groupsdk.history.slo import NEEDED, budgets, slo_table
from groupsdk.history.standing import latest_ms
from groupsdk.history.tables import ledger
from groupsdk.history.tables.lake_changes import changes, lake_rows, lake_schema
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_files import NO_DAY, STAGES, StageFiles, list_files, with_cluster
from groupsdk.history.tables.stage_tables import RUN_TABLES, TableSource, highest, sum_of
from groupsdk.history.tables.stages import COVERAGE, DEFERRED, RECORDS, TALLY, TOPIC_HINTS
from groupsdk.history.tables.table_files import (
    TALLIES,
    added_below,
    merge,
    merge_tasks,
    read_files,
)


T = TypeVar("T")
R = TypeVar("R")

STEPS: Final = ("read", "transactions", "topics", "groups", "lag", "quality", "merge", "commit")

_DRIVER: Final = "driver"
"""The directory of an update for the files that the driver writes."""
_READ_TABLES: Final = ("offset_commits", "rejects", RECORDS)
"""Stages and tables whose rows later updates do not change."""
_READ_AGAIN: Final = frozenset({*NEEDED, "commit_spans", "rejects"})
"""The tables whose rows an update takes from files: to compare groups, and as they have no key. Of the others only the lakehouse has the
rows that do not change any more, if there is one."""


class Each(Protocol):
    """Maps a function over values, in order, in processes of this machine or of a cluster."""

    def __call__(self, function: Callable[[T], R], values: Sequence[T], /) -> Sequence[R]: ...


@dataclass(frozen=True, slots=True)
class TablesDirectory:
    """The directory of tables that an update writes to; `shared` is `root` as every process understands it."""

    system: Any
    root: str
    shared: str


class Update:
    """Carries out one update, from the records read to the files to commit in `change`.

    `remake`: replay all groups from their first records, since code or options changed. `lake`: the tables of the lakehouse, which have
    the rows of all updates before.
    """

    def __init__(
        self,
        directory: TablesDirectory,
        state: ledger.State,
        change: ledger.Change,
        options: Options,
        *,
        each: Each,
        names: Callable[[], Iterable[tuple[str, str]]],
        step: Callable[[str], None],
        remake: bool,
        lake: TableSource | None = None,
    ) -> None:
        self._directory = directory
        self._system = directory.system
        self._state = state
        self._change = change
        self._options = options
        self._each = each
        self._names = names
        self._step = step
        self._remake = remake
        self._lake = lake
        self._remade: list[str] = []
        self._delivered = _delivered(state) if lake is not None else frozenset()
        change.removed |= self._delivered
        self._number = state.update + 1
        self._folder = f"{directory.root}/{change.folder}"
        self._cluster_id = options.cluster_id
        self._out = self._files(_DRIVER, "part")
        self._folded: dict[str, Any] = {}

    def carry_out(self) -> ledger.State:
        """Run all steps after reading; returns the next state, whose files `ledger.commit` adds."""
        self._step("transactions")
        settled = self._settle()
        self._fold()
        self._add(READ, ledger.CLOSED, _READ_TABLES)
        self._add(PENDING, ledger.OPEN, ("offset_commits",))
        self._step("topics")
        hints, covered = self._folded[TOPIC_HINTS], self._folded[COVERAGE]
        named = whole_log.topic_names(hints, self._names(), self._committed)
        epochs = whole_log.took_over(covered)
        context = replace(
            self._options.context(named, epochs),
            learned_session_timeout_ms=self._state.learned_session_timeout_ms,
        )
        self._step("groups")
        context = self._update_groups(context, hints, has_modern=bool(sum_of(covered, "modern")))
        self._step("lag")
        spans = self._paths("commit_spans")
        self._replace(
            "lag",
            whole_log.lower_bounds(
                read_files(self._system, spans, "commit_spans", whole_log.LAG_COLUMNS)
            ),
        )
        self._step("quality")
        self._replace("topics", whole_log.topics_table(named))
        self._replace("quality", whole_log.quality_table(covered, self._tally()))
        self._replace("slo", self._slo(latest_ms(covered)))
        self._out.close()
        self._add(_DRIVER, ledger.OPEN)
        self._step("merge")
        self._merge()
        if self._lake is None:
            self._show_empty()
        else:
            self._fill_outbox(self._lake)
        return replace(
            self._state,
            update=self._number,
            names=named,
            took_over=tuple((*place, ms) for place, ms in epochs.items()),
            learned_session_timeout_ms=context.learned_session_timeout_ms,
            settled=settled,
        )

    def _slo(self, end_ms: int | None) -> Any:
        objectives = self._options.slos
        if not objectives or end_ms is None:
            return slo_table(())
        since_ms = end_ms - max(each.period_ms for each in objectives)
        needed = {
            name: read_files(
                self._system,
                self._paths(name),
                name,
                columns,
                since=("end_ts", since_ms) if name == "standstills" else None,
            )
            for name, columns in NEEDED.items()
        }
        return slo_table(budgets(objectives, needed, end_ms))

    def abandon(self) -> None:
        """Close the files that are being written."""
        self._out.abandon()

    def _settle(self) -> Mapping[str, int]:
        """Resolve commits within transactions; returns how far they are resolved."""
        new = read_files(self._system, self._read_paths(DEFERRED), DEFERRED)
        carried = self._live_rows(DEFERRED)
        for table in ("offset_commits", DEFERRED):
            for live in self._state.of(table, kind=ledger.OPEN):
                self._change.removed.add(live.path)
        if not new.num_rows and not carried.num_rows:
            return self._state.settled
        settled = resolve_more(carried, new, self._state.settled)
        for part, batches in ((READ, settled.done), (PENDING, settled.pending)):
            self._files(part, "settled").write(batches)
        for batch in settled.open_rows.to_batches():
            self._out.add(DEFERRED, batch)
        return settled.last

    def _fold(self) -> None:
        for name in FOLDED:
            new = read_files(self._system, self._read_paths(name), name)
            rows = fold(name, self._live_rows(name), new)
            self._folded[name] = rows
            self._replace(name, rows)

    def _committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        """Return the highest partition that each of some groups has committed of each topic."""
        columns = ("group_id", "topic", "partition", "commits")
        rows = read_files(
            self._system, self._paths(RECORDS), RECORDS, columns, groups=sorted(groups)
        )
        return highest(rows.filter(pc.greater(pc.fill_null(rows.column("commits"), 0), 0)))

    def _update_groups(self, context: Context, hints: Any, *, has_modern: bool) -> Context:
        before = self._state
        known = {(partition, epoch): ms for partition, epoch, ms in before.took_over}
        remake_all = self._remake or any(
            context.took_over.get(place) != ms for place, ms in known.items()
        )
        renamed = {
            topic_id
            for topic_id in {*context.names, *before.names}
            if context.names.get(topic_id) != before.names.get(topic_id)
        }
        remake = frozenset(
            row["group_id"]
            for row in hints.to_pylist()
            if row["topic_id"] in renamed and row["group_id"] is not None
        )
        learns = self._options.session_timeout_ms is None and has_modern
        if not learns:
            context = replace(context, learned_session_timeout_ms=None)
        every = before.learned_session_timeout_ms is not None and not learns
        changes = self._update_buckets(
            context, remake, phase=0, remake_modern=every, remake_all=remake_all
        )
        if learns:
            learned = whole_log.session_timeout(self._sizes(changes))
            if learned != context.learned_session_timeout_ms:
                # with the new session timeout, departures may be explained differently
                context = replace(context, learned_session_timeout_ms=learned)
                changes = self._update_buckets(
                    context, remake, phase=1, remake_modern=True, remake_all=remake_all
                )
        for each in changes:
            self._change.merge(each.added, each.removed)
            self._remade += each.remade
        return context

    def _update_buckets(
        self,
        context: Context,
        remake: frozenset[str],
        *,
        phase: int,
        remake_modern: bool,
        remake_all: bool,
    ) -> Sequence[Changed]:
        many = self._state.buckets
        chosen = set(range(many))
        if not remake_modern and not remake_all:
            chosen = {crc32(each.encode()) % many for each in remake}
            for part in (READ, PENDING):
                paths = list_files(self._system, f"{self._folder}/{part}/{STAGES}/{RECORDS}")
                chosen |= {int(each.path.split("/bucket=")[1].split("/")[0]) for each in paths}
        files: defaultdict[int, list[ledger.LiveFile]] = defaultdict(list)
        for live in self._state.files:
            if live.path not in self._delivered:
                files[live.bucket].append(live)
        tasks = [
            BucketTask(
                self._directory.shared,
                self._change.folder,
                phase,
                self._number,
                bucket,
                tuple(files[bucket]),
                context,
                self._cluster_id,
                frozenset(each for each in remake if crc32(each.encode()) % many == bucket),
                remake_modern,
                remake_all,
            )
            for bucket in sorted(chosen)
        ]
        return self._each(update_bucket, tasks)

    def _sizes(self, changes: Iterable[Changed]) -> Any:
        """Read the sizes of silences, which show the session timeout, with some changes applied."""
        removed = {path for each in changes for path in each.removed}
        paths = [
            f"{self._directory.root}/{live.path}"
            for live in self._state.of(SIZES)
            if live.path not in removed
        ]
        paths += [
            f"{self._folder}/{source}"
            for each in changes
            for source, live in each.added
            if live.table == SIZES
        ]
        return read_files(self._system, paths, SIZES)

    def _tally(self) -> Any:
        groups = read_files(
            self._system, self._paths(TALLIES), TALLIES, ("src_partition", "what", "n")
        )
        return pa.concat_tables([self._folded[TALLY], groups])

    def _merge(self) -> None:
        left = [live for live in self._state.files if live.path not in self._change.removed]
        tasks = list(
            merge_tasks(
                left, self._directory.shared, self._change.folder, self._number, self._cluster_id
            )
        )
        for added, removed in self._each(merge, tasks):
            self._change.merge(added, removed)

    def _show_empty(self) -> None:
        """Write a file for each table without rows, so that other tools find its columns."""
        added = {live.table for _, live in self._change.added}
        left = {
            live.table
            for live in self._state.files
            if live.kind != ledger.EMPTY and live.path not in self._change.removed
        }
        for name in RUN_TABLES:
            empty = self._state.of(name, kind=ledger.EMPTY)
            if name in added | left:
                self._change.removed |= {live.path for live in empty}
            elif not empty:
                self._change.added.append(self._empty(name))

    def _empty(self, name: str) -> tuple[str, ledger.LiveFile]:
        source = f"{ledger.EMPTY}-{name}.parquet"
        schema = TABLES[name].stored_schema
        if TABLES[name].partition_by:
            schema = schema.remove(schema.get_field_index("day"))
        parquet.write_table(
            schema.empty_table(), f"{self._folder}/{source}", filesystem=self._system
        )
        folder = f"{name}/day={NO_DAY}" if TABLES[name].partition_by else name
        path = f"{folder}/{ledger.EMPTY}-{self._number:08}.parquet"
        return source, ledger.LiveFile(name, path, ledger.EMPTY, ledger.NO_BUCKET)

    def _fill_outbox(self, lake: TableSource) -> None:
        """Write the rows that this update changes in a lakehouse: the first one's are in its files."""
        for name in RUN_TABLES if self._state.update else ():
            before, after = (
                lake_rows(
                    name,
                    with_cluster(name, read_files(self._system, paths, name), self._cluster_id),
                )
                for paths in self._changed_paths(name)
            )
            if self._remade and name in GROUP_TABLES and name not in _READ_AGAIN:
                earlier = lake.read(name, lake_schema(name).names, self._remade)
                before = lake_rows(name, pa.concat_tables([before, earlier]))
            found = changes(name, before, after)
            if found.num_rows:
                source = f"{ledger.OUTBOX}-{name}.parquet"
                parquet.write_table(found, f"{self._folder}/{source}", filesystem=self._system)
                live = ledger.LiveFile(ledger.OUTBOX, source, name)
                self._change.added.append((source, live))

    def _changed_paths(self, name: str) -> tuple[list[str], list[str]]:
        """Return the files of a table whose rows this update takes away, and those that it adds."""
        gone = self._change.removed - self._delivered
        before = [
            f"{self._directory.root}/{live.path}"
            for live in self._state.of(name)
            if live.path in gone
        ]
        after = [
            f"{self._folder}/{source}"
            for source, live in self._change.added
            if live.table == name and live.kind != ledger.EMPTY
        ]
        return before, after

    def _replace(self, name: str, table: Any) -> None:
        for live in self._state.of(name, kind=ledger.OPEN, bucket=ledger.NO_BUCKET):
            self._change.removed.add(live.path)
        for batch in table.to_batches():
            self._out.add(name, batch)

    def _add(self, part: str, kind: str, tables: Collection[str] | None = None) -> None:
        found = added_below(self._system, self._folder, part, kind, ledger.NO_BUCKET, self._number)
        self._change.merge(
            (each for each in found if tables is None or each[1].table in tables), ()
        )

    def _files(self, part: str, name: str) -> StageFiles:
        return StageFiles(
            self._system,
            f"{self._folder}/{part}",
            name,
            buckets=self._state.buckets,
            cluster_id=self._cluster_id,
        )

    def _read_paths(self, stage: str) -> list[str]:
        folder = f"{self._folder}/{READ}/{STAGES}/{stage}"
        return [each.path for each in list_files(self._system, folder)]

    def _live_rows(self, name: str) -> Any:
        paths = [
            f"{self._directory.root}/{each.path}" for each in self._state.of(name, kind=ledger.OPEN)
        ]
        return read_files(self._system, paths, name)

    def _paths(self, table: str) -> list[str]:
        root = self._directory.root
        paths = [
            f"{root}/{live.path}"
            for live in self._state.of(table)
            if live.path not in self._change.removed and live.kind != ledger.EMPTY
        ]
        new = [source for source, live in self._change.added if live.table == table]
        return [*paths, *(f"{self._folder}/{source}" for source in new)]


def _delivered(state: ledger.State) -> frozenset[str]:
    """Return the files that are not needed any more once a lakehouse has the rows."""
    return frozenset(
        live.path
        for live in state.files
        if live.table == ledger.OUTBOX
        or (
            live.table in RUN_TABLES
            and live.table not in _READ_AGAIN
            and live.kind == ledger.CLOSED
        )
    )
