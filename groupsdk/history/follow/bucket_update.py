"""Continue the groups of one bucket with their new records, and list the files that this adds and removes."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain import SIZES
from groupsdk.history.explain.arrow_batches import (
    GROUP_TABLES,
    LOG_ENTRY_PARTITION,
    entries,
    read_log_entry,
    to_batches,
)
from groupsdk.history.explain.departures import LATE_MS
from groupsdk.history.explain.explaining import Context, LogEntry, TableRows
from groupsdk.history.explain.timeline.modern_protocols import PROTOCOL_BY_RECORD_TYPE
from groupsdk.history.follow.group_state import FollowedGroup, ReplayContext
from groupsdk.history.read.buckets import in_order
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.tables import table_files
from groupsdk.history.tables.ledger import CLOSED, OPEN, LiveFile
from groupsdk.history.tables.stage_files import STAGES, StageFiles, list_files
from groupsdk.history.tables.stage_tables import BATCH_ROWS
from groupsdk.history.tables.stages import RECORDS


READ: Final = "read"
"""The directory of the records read, within an update's."""
PENDING: Final = "pending"
"""The directory of the records of open transactions, within an update's."""

_AT_ONCE: Final = 256
"""How many groups that are replayed from their first records are in memory together."""
_MANY: Final = 20_000
"""How many rows are held in memory until they are written."""
_FEW: Final = 500
"""How many states are held in memory until they are written."""
_NOWHERE: Final = (-1, -1)
_LAST: Final = (1 << 31, 0)
_MODERN: Final = frozenset(each.to_bytes(2, "big") for each in PROTOCOL_BY_RECORD_TYPE)


@dataclass(frozen=True, slots=True)
class BucketTask:
    """The update of one bucket; can be pickled.

    `root` is the directory of the tables as every process understands it, `phase` counts how often the groups have been processed in
    this update. The groups in `remake`, all of the newer protocols, or all, are replayed from their first records.
    """

    root: str
    folder: str
    phase: int
    update: int
    bucket: int
    files: Sequence[LiveFile]
    context: Context
    cluster_id: str
    remake: frozenset[str] = frozenset()
    remake_modern: bool = False
    remake_all: bool = False

    @property
    def part(self) -> str:
        return f"groups-{self.phase}-{self.bucket}"


@dataclass(frozen=True, slots=True)
class Changed:
    """The files that a task added and removed, see `ledger.Change`; and the groups whose earlier rows are not valid any more."""

    added: Sequence[tuple[str, LiveFile]] = ()
    removed: Sequence[str] = ()
    remade: Sequence[str] = ()


def update_bucket(task: BucketTask) -> Changed:
    """Continue the groups of a bucket that have new records, and make their rows.

    In memory are the bucket's new records, the states of their groups, and all records of up to 256 groups that are replayed.
    """
    return _BucketUpdate(task).carry_out()


@dataclass(frozen=True, slots=True)
class _Known:
    place: tuple[int, int] = _NOWHERE
    modern: bool = False
    state: bytes | None = None


_NEW: Final = _Known()


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of some groups, sorted by group and log order."""

    table: Any
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Any) -> "_Rows":
        table = in_order(table).combine_chunks()
        if not table.num_rows:
            return cls(table)
        codes = pc.dictionary_encode(table.column("group_id").combine_chunks())
        indices = codes.indices.to_numpy()
        begins = np.flatnonzero(np.diff(indices, prepend=-1)).tolist()
        names = codes.dictionary.to_pylist()
        ends = [*begins[1:], table.num_rows]
        return cls(
            table,
            {names[indices[begin]]: (begin, end) for begin, end in zip(begins, ends, strict=True)},
        )

    def take(self, group: str) -> Any:
        begin, end = self.places.get(group, (0, 0))
        return self.table.slice(begin, end - begin)

    def first(self, group: str) -> tuple[int, int] | None:
        """Return the place of a group's first record; None if there are only entries of brokers' logs."""
        begin, end = self.places[group]
        for row in range(begin, end):
            place = self._place(row)
            if place[0] != LOG_ENTRY_PARTITION:
                return place
        return None

    def log_entries(self, group: str) -> Iterator[LogEntry]:
        """Yield the entries of brokers' logs about a group, which precede its records."""
        begin, end = self.places[group]
        for row in range(begin, end):
            if self._place(row)[0] != LOG_ENTRY_PARTITION:
                return
            yield read_log_entry(group, self.table.column("value")[row].as_py())

    def last(self, group: str) -> tuple[int, int]:
        return self._place(self.places[group][1] - 1)

    def _place(self, row: int) -> tuple[int, int]:
        partition = self.table.column("src_partition")[row].as_py()
        return partition, self.table.column("src_offset")[row].as_py()


class _BucketUpdate:
    def __init__(self, task: BucketTask) -> None:
        self._task = task
        self._system, self._root = file_system(task.root)
        base = f"{self._root}/{task.folder}/{task.part}"
        cluster = task.cluster_id
        self._closed = StageFiles(self._system, f"{base}/{CLOSED}", "part", cluster_id=cluster)
        self._open = StageFiles(self._system, f"{base}/{OPEN}", "part", cluster_id=cluster)
        self._removed: list[str] = []
        self._replay_context = ReplayContext(task.context)
        self._rows: dict[str, TableRows] = {CLOSED: defaultdict(list), OPEN: defaultdict(list)}
        self._waiting = 0
        self._kept: defaultdict[tuple[str, str], list[tuple[Any, ...]]] = defaultdict(list)

    def carry_out(self) -> Changed:
        try:
            fresh, pending = self._fresh(READ), self._fresh(PENDING)
            known = self._load_states({*fresh.places, *pending.places})
            touched = sorted({*fresh.places, *pending.places, *known})
            if not touched:
                return Changed()
            remade = self._update_groups(touched, known, fresh, pending)
            self._keep_open(touched)
            self._drop_closed(remade)
            self._closed.close()
            self._open.close()
        finally:
            self._closed.abandon()
            self._open.abandon()
        return Changed(tuple(self._added()), tuple(self._removed), tuple(remade))

    def _fresh(self, part: str) -> _Rows:
        task = self._task
        folder = f"{self._root}/{task.folder}/{part}/{STAGES}/{RECORDS}/bucket={task.bucket}"
        paths = [each.path for each in list_files(self._system, folder)]
        return _Rows.of(table_files.read_files(self._system, paths, RECORDS))

    def _load_states(self, fresh: Collection[str]) -> dict[str, _Known]:
        """Load the states of the groups with new records, and rewrite those of the others."""
        known: dict[str, _Known] = {}
        task = self._task
        wanted = pa.array(sorted({*fresh, *task.remake}), type=pa.string())
        for live in self._live(table_files.STATES, OPEN):
            self._removed.append(live.path)
            for batch in self._batches(live):
                chosen = pc.is_in(batch.column("group_id"), wanted)
                if task.remake_modern:
                    chosen = pc.or_(chosen, batch.column("modern"))
                if task.remake_all:
                    chosen = pc.is_valid(batch.column("group_id"))
                for row in batch.filter(chosen).to_pylist():
                    place = row["src_partition"], row["src_offset"]
                    known[row["group_id"]] = _Known(place, row["modern"], row["state"])
                self._open.add(table_files.STATES, batch.filter(pc.invert(chosen)))
        return known

    def _update_groups(
        self, touched: Iterable[str], known: Mapping[str, _Known], fresh: _Rows, pending: _Rows
    ) -> list[str]:
        """Process the groups; returns those whose earlier rows are no longer valid."""
        again = []
        for group in touched:
            before = known.get(group, _NEW)
            if group in pending.places or (group in known and self._is_over(group, before, fresh)):
                again.append(group)
            else:
                self._go_on(group, before, fresh)
        for begin in range(0, len(again), _AT_ONCE):
            self._replay_all(again[begin : begin + _AT_ONCE], fresh, pending)
        self._flush()
        return [each for each in again if each in known]

    def _is_over(self, group: str, before: _Known, fresh: _Rows) -> bool:
        task = self._task
        return (
            before.state is None
            or task.remake_all
            or group in task.remake
            or (task.remake_modern and before.modern)
            # its records are late, or duplicates
            or (group in fresh.places and (fresh.first(group) or _LAST) <= before.place)
            or self._has_late_entries(group, before.state, fresh)
        )

    def _has_late_entries(self, group: str, state: bytes, fresh: _Rows) -> bool:
        """Return whether entries of brokers' logs may be about generations whose rows are made."""
        found = list(fresh.log_entries(group)) if group in fresh.places else ()
        if not found:
            return False
        explained_ms = self._replay_context.load(state).explained_ms
        return min(each.ts_ms for each in found) <= explained_ms + LATE_MS

    def _replay_all(self, groups: Sequence[str], fresh: _Rows, pending: _Rows) -> None:
        paths = [f"{self._root}/{each.path}" for each in self._live(RECORDS, CLOSED)]
        stored = table_files.read_files(self._system, paths, RECORDS, groups=groups)
        new = [fresh.take(group) for group in groups]
        every = _Rows.of(pa.concat_tables([stored, *new]))
        for group in groups:
            if group in pending.places:
                self._replay_unsettled(group, every, pending)
            else:
                self._go_on(group, _NEW, every)

    def _go_on(self, group: str, before: _Known, rows: _Rows) -> None:
        """Process a group's rows, and keep its state from before the last generation is closed."""
        replaying = self._replay_context
        followed = replaying.group(group) if before.state is None else replaying.load(before.state)
        mine = rows.take(group)
        self._take(CLOSED, followed, mine)
        # entries of brokers' logs stand before all records
        place = max(rows.last(group), before.place) if group in rows.places else before.place
        modern = before.modern or _is_modern(mine)
        self._kept[OPEN, table_files.STATES].append(
            (group, *place, modern, replaying.dump(followed))
        )
        self._close(followed)

    def _replay_unsettled(self, group: str, settled: _Rows, pending: _Rows) -> None:
        """Replay a group with records in open transactions: all of its rows may still change."""
        followed = self._replay_context.group(group)
        rows = _Rows.of(pa.concat_tables([settled.take(group), pending.take(group)])).take(group)
        self._take(OPEN, followed, rows)
        place = settled.last(group) if group in settled.places else _NOWHERE
        self._kept[OPEN, table_files.STATES].append((group, *place, _is_modern(rows), None))
        self._close(followed)

    def _close(self, followed: FollowedGroup) -> None:
        followed.close()
        self._gather(OPEN, followed)
        self._kept[OPEN, table_files.TALLIES] += [
            (followed.group_id, *what, n) for what, n in followed.tally.items()
        ]
        if len(self._kept[OPEN, table_files.STATES]) >= _FEW:
            self._flush()

    def _take(self, kind: str, followed: FollowedGroup, rows: Any) -> None:
        for entry in entries(rows.to_batches(max_chunksize=BATCH_ROWS)):
            if followed.take(entry):
                self._gather(kind, followed)
        self._gather(kind, followed)

    def _gather(self, kind: str, followed: FollowedGroup) -> None:
        rows = self._rows[kind]
        for name, waiting in followed.tables.items():
            rows[name] += waiting
            self._waiting += len(waiting)
            waiting.clear()
        self._kept[kind, SIZES] += [(followed.group_id, *each) for each in followed.sizes]
        followed.sizes.clear()
        if self._waiting >= _MANY:
            self._flush()

    def _flush(self) -> None:
        outs = {CLOSED: self._closed, OPEN: self._open}
        self._waiting = 0
        for kind, waiting in self._rows.items():
            for name, batch in to_batches([waiting]):
                outs[kind].add(name, batch)
            waiting.clear()
        for (kind, name), rows in self._kept.items():
            outs[kind].add(name, table_files.rows_of(rows, name))
            rows.clear()

    def _keep_open(self, touched: Collection[str]) -> None:
        """Rewrite the open rows of the groups that have nothing new."""
        gone = pa.array(sorted(touched), type=pa.string())
        for name in (*GROUP_TABLES, SIZES, table_files.TALLIES):
            for live in self._live(name, OPEN):
                self._removed.append(live.path)
                for batch in self._batches(live):
                    others = pc.invert(pc.is_in(batch.column("group_id"), gone))
                    self._open.add(name, batch.filter(others))

    def _drop_closed(self, groups: Sequence[str]) -> None:
        """Rewrite the files that have rows of some groups, without these rows."""
        gone = pa.array(groups, type=pa.string())
        for name in (*GROUP_TABLES, SIZES) if groups else ():
            for live in self._live(name, CLOSED):
                table = table_files.read_files(self._system, [f"{self._root}/{live.path}"], name)
                others = pc.invert(pc.is_in(table.column("group_id"), gone))
                if pc.all(others, min_count=0).as_py():
                    continue
                self._removed.append(live.path)
                for batch in table.filter(others).to_batches():
                    self._closed.add(name, batch)

    def _added(self) -> Iterator[tuple[str, LiveFile]]:
        task = self._task
        folder = f"{self._root}/{task.folder}"
        for kind in (CLOSED, OPEN):
            part = f"{task.part}/{kind}"
            yield from table_files.added_below(
                self._system, folder, part, kind, task.bucket, task.update
            )

    def _live(self, name: str, kind: str) -> list[LiveFile]:
        return [each for each in self._task.files if each.table == name and each.kind == kind]

    def _batches(self, live: LiveFile) -> Iterator[Any]:
        yield from table_files.read_batches(self._system, f"{self._root}/{live.path}", live.table)


def _is_modern(rows: Any) -> bool:
    prefixes = pc.unique(pc.binary_slice(rows.column("key"), 0, 2)).to_pylist()
    return not _MODERN.isdisjoint(prefixes)
