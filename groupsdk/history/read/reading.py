"""Read a log: committed offsets become a table at once; group records and sums of commits go to the next stage.

The first of two stages. It needs no Spark: Spark's tasks and the local engine's processes call it, for segment files,
fetched batches and archived records alike. Each batch is paired with the name of its table, or of its stage.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.arrow_batches import tally_rows
from groupsdk.history.explain.explaining import UNDECODABLE
from groupsdk.history.explain.timeline.modern_protocols import (
    HINT_TYPES,
    NAMING_TYPES,
    PROTOCOL_BY_RECORD_TYPE,
    TopicHint,
    hints_in_topic_list,
    topic_hints,
    topic_id_text,
)
from groupsdk.history.read.arrow_rows import (
    Reject,
    commit_rows,
    from_arrow,
    group_ids,
    raw_rows,
)
from groupsdk.history.read.batches import Records
from groupsdk.history.read.columns import Flags, Longs, timestamps
from groupsdk.history.read.commit_parts import SPANS, commit_parts
from groupsdk.history.read.commits import Commits, key_of, read_commits, value_of
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stages import (
    COVERAGE,
    DEFERRED,
    RECORD_ROWS,
    RECORDS,
    STAGED,
    TALLY,
    TOPIC_HINTS,
)
from groupsdk.history.times import LAST_MS, micros


COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
PENDING: Final = "pending"

BAD_BATCHES: Final = "bad_batches"

_NO_TIME: Final = LAST_MS + 1

_REJECT_TABLE: Final = TABLES["rejects"].arrow_schema
TableBatches = Iterator[tuple[str, Any]]
"""Batches, each with the name of its table or stage."""


_NO_LEADER_EPOCH: Final = -1


class ReadTask(Protocol):
    """Reads a part of a log; can be pickled."""

    @property
    def name(self) -> str:
        """The name of the task's output files, unique in the log."""

    @property
    def size(self) -> int: ...

    def read(self) -> TableBatches:
        """Read the part; yields batches, each with the name of its table or stage."""


@dataclass(slots=True)
class _Covered:
    first_offset: int
    last_offset: int
    records: int = 0
    first_ms: int = _NO_TIME
    last_ms: int = -1
    since_ms: int = _NO_TIME
    commits: int = 0
    deferred: int = 0
    modern: int = 0


class Reader:
    """Reads the records of one task; holds sums only. With `has_holes` there may be gaps between pieces, as in an archive."""

    def __init__(self, *, has_holes: bool = False) -> None:
        self._has_holes = has_holes
        self._covered: dict[tuple[int, int], _Covered] = {}
        self._tally: dict[tuple[int, str], int] = {}
        self._hints: set[tuple[str | None, TopicHint]] = set()
        self._begins: dict[int, tuple[int, int | None]] = {}
        self._ends: dict[int, tuple[int, int]] = {}

    def begin(self, partition: int, offset: int, end_offset: int | None) -> None:
        """Say at which offset the log of a partition begins: what is missing from there on is a gap.

        `end_offset`: where the next task's part of the partition begins, or the partition ends; None: that is not known.
        """
        self._begins[partition] = offset, end_offset

    def end(self, partition: int, offset: int, end_offset: int) -> None:
        """Say where a partition of the log ends at least, whose part from `offset` on is read here: what is missing is a gap."""
        self._ends[partition] = offset, end_offset

    def take(
        self, records: Records, partition: int, place: str, *, has_holes: bool = False
    ) -> TableBatches:
        """Read the next records of a partition, in the order of the log; `place` is named in rejects, and `has_holes` says that some
        between these could not be read.
        """
        if not len(records):
            return
        commits = read_commits(records)
        plain = ~records.is_transactional[commits.rows]
        if plain.any():
            states = pa.repeat(pa.scalar(COMMITTED), len(commits))
            rows = commit_rows(records, commits, partition, states)
            yield "offset_commits", rows if plain.all() else rows.filter(pa.array(plain))
            holes = has_holes or self._has_holes
            parts = commit_parts(records, commits, plain, partition, has_holes=holes)
            yield RECORDS, record_rows(parts)
        others = np.ones(len(records), dtype=np.bool_)
        others[commits.rows] = False
        for row in commits.undecodable:
            others[row] = False
        types = records.key_types
        control = records.is_control
        of_groups = np.flatnonzero(others & ~control)
        if len(of_groups):
            yield RECORDS, _group_rows(records, of_groups, partition)
        deferred = others & control
        deferred[commits.rows[~plain]] = True
        if deferred.any():
            yield DEFERRED, _without_day(raw_rows(records.take(deferred), partition))
        if commits.undecodable:
            yield "rejects", _undecodable(records, commits, partition, place)
            self._count(partition, UNDECODABLE, len(commits.undecodable))
        self._cover(records, commits, partition, plain, types)
        yield from self._names(records, commits, of_groups, types)

    def refuse(self, rejects: Iterable[Reject], partition: int) -> TableBatches:
        rows = list(rejects)
        if not rows:
            return
        self._count(partition, BAD_BATCHES, len(rows))
        yield (
            "rejects",
            pa.RecordBatch.from_pylist(
                [
                    {
                        "src_partition": partition,
                        "src_offset": each.offset,
                        "reason": each.reason,
                        "place": each.place,
                        "lost": each.lost,
                    }
                    for each in rows
                ],
                schema=_REJECT_TABLE,
            ),
        )

    def close(self) -> TableBatches:
        for partition, (offset, end_offset) in self._begins.items():
            self._cover_begin(partition, offset, end_offset)
        for partition, (offset, end_offset) in self._ends.items():
            self._cover_end(partition, offset, end_offset)
        if self._covered:
            yield COVERAGE, _coverage(self._covered)
        if self._tally:
            yield TALLY, tally_rows(self._tally)

    def _count(self, partition: int, what: str, n: int) -> None:
        self._tally[partition, what] = self._tally.get((partition, what), 0) + n

    def _cover_begin(self, partition: int, offset: int, end_offset: int | None) -> None:
        mine = [found for place, found in self._covered.items() if place[0] == partition]
        if mine:
            first = min(mine, key=lambda found: found.first_offset)
            first.first_offset = min(first.first_offset, offset)
        elif end_offset is not None:
            # a broker writes into a file before it begins the next one
            self._covered[partition, _NO_LEADER_EPOCH] = _Covered(offset, offset - 1)

    def _cover_end(self, partition: int, offset: int, end_offset: int) -> None:
        mine = [found for place, found in self._covered.items() if place[0] == partition]
        if mine:
            last = max(mine, key=lambda found: found.last_offset)
            last.last_offset = max(last.last_offset, end_offset - 1)
        elif end_offset > offset:
            self._covered[partition, _NO_LEADER_EPOCH] = _Covered(offset, end_offset - 1)

    def _cover(
        self, records: Records, commits: Commits, partition: int, plain: Flags, types: Longs
    ) -> None:
        count = len(records.offsets)
        removed = np.zeros(count, dtype=np.bool_)
        removed[commits.rows[commits.is_tombstone]] = True
        committed = np.zeros(count, dtype=np.int64)
        committed[commits.rows] = 1
        deferred = np.zeros(count, dtype=np.int64)
        deferred[commits.rows[~plain]] = 1
        modern = np.isin(types, _MODERN) & ~records.is_control
        times = records.timestamps
        known = (times >= 0) & (times <= LAST_MS)
        for epoch in np.unique(records.leader_epochs).tolist():
            mine = records.leader_epochs == epoch
            offsets = records.offsets[mine]
            first, last = int(offsets.min()), int(offsets.max())
            found = self._covered.setdefault((partition, epoch), _Covered(first, last))
            found.first_offset = min(found.first_offset, first)
            found.last_offset = max(found.last_offset, last)
            found.records += len(offsets)
            found.commits += int(committed[mine].sum())
            found.deferred += int(deferred[mine].sum())
            found.modern += int(modern[mine].sum())
            of_time = times[mine & known]
            if len(of_time):
                found.first_ms = min(found.first_ms, int(of_time.min()))
                found.last_ms = max(found.last_ms, int(of_time.max()))
            written = times[mine & known & ~removed]
            if len(written):
                found.since_ms = min(found.since_ms, int(written.min()))

    def _names(
        self, records: Records, commits: Commits, of_groups: Longs, types: Longs
    ) -> TableBatches:
        found: list[tuple[str | None, TopicHint]] = []
        if commits.topic_id.null_count < len(commits.topic_id):
            found += _paired(commits.topic, commits.topic_id)
        telling = of_groups[np.isin(types[of_groups], _NAMING)]
        if len(telling):
            groups = group_ids(records, telling).to_pylist()
            for row, group in zip(telling.tolist(), groups, strict=True):
                key, value = key_of(records, row) or b"", value_of(records, row)
                kind = int(types[row])
                if kind in NAMING_TYPES:
                    found += [(None, each) for each in hints_in_topic_list(key, value)]
                else:
                    found += [(group, each) for each in topic_hints(kind, key, value)]
        new = [each for each in dict.fromkeys(found) if each not in self._hints]
        if new:
            self._hints.update(new)
            yield TOPIC_HINTS, _hint_rows(new)


def read_arrow_batches(batches: Iterable[Any]) -> TableBatches:
    """Read records from Arrow batches of the schema `RAW`, in any order, such as those of an archive."""
    reader = Reader(has_holes=True)
    for batch in batches:
        # partitions may be mixed, though they rarely are
        for partition in pc.unique(batch.column("src_partition")).to_pylist():
            mine = batch.filter(pc.equal(batch.column("src_partition"), partition))
            mine = mine.sort_by("src_offset")
            yield from reader.take(from_arrow(mine), partition, f"partition {partition}")
    yield from reader.close()


_MODERN: Final = np.array(sorted(PROTOCOL_BY_RECORD_TYPE))
_NAMING: Final = np.array(sorted(NAMING_TYPES | HINT_TYPES))


def resolve_transactions(batches: Iterable[Any]) -> TableBatches:
    """Resolve commits within transactions: committed, aborted, or pending at the end of the log; holds those of open ones.

    The batches are of `DEFERRED`, those of a partition together and in log order.
    """
    waiting: Any = None
    last = -1
    hints: set[tuple[str | None, TopicHint]] = set()
    for batch in batches:
        numbers = batch.column("src_partition")
        for partition in pc.unique(numbers).to_pylist():
            mine = batch.filter(pc.equal(numbers, partition))
            if waiting is not None and partition != last:
                yield from _resolved(waiting, last, [PENDING] * waiting.num_rows, hints)
                waiting = None
            last = partition
            if waiting is not None:
                mine = pa.Table.from_batches([waiting, mine]).combine_chunks().to_batches()[0]
            states = _outcomes(mine)
            is_open = pa.array([state == PENDING for state in states], type=pa.bool_())
            closed = [state for state in states if state != PENDING]
            yield from _resolved(mine.filter(pc.invert(is_open)), partition, closed, hints)
            waiting = mine.filter(is_open)
            if not waiting.num_rows:
                waiting = None
    if waiting is not None:
        yield from _resolved(waiting, last, [PENDING] * waiting.num_rows, hints)


_COMMIT_MARKER: Final = b"\0\1"
_ABORT_MARKER: Final = b"\0\0"


def _outcomes(batch: Any) -> list[str]:
    """Return the state of each row; "" for control records."""
    producers = batch.column("producer_id").to_pylist()
    keys = batch.column("key").to_pylist()
    control = batch.column("control").to_pylist()
    states = [""] * batch.num_rows
    ends: dict[int, str] = {}
    for row in reversed(range(batch.num_rows)):
        if not control[row]:
            states[row] = ends.get(producers[row], PENDING)
            continue
        kind = (keys[row] or b"")[2:4]
        if kind == _COMMIT_MARKER:
            ends[producers[row]] = COMMITTED
        elif kind == _ABORT_MARKER:
            ends[producers[row]] = ABORTED
    return states


def _resolved(
    batch: Any, partition: int, states: list[str], hints: set[tuple[str | None, TopicHint]]
) -> TableBatches:
    keep = np.array([state != "" for state in states], dtype=np.bool_)
    if not keep.any():
        return
    records = from_arrow(batch).take(keep)
    commits = read_commits(records)
    mine = np.array([state for state in states if state])[commits.rows]
    every = pa.array(mine.tolist(), type=pa.string())
    yield "offset_commits", commit_rows(records, commits, partition, every)
    # not summed: group records between two of them are not known here
    chosen = np.flatnonzero(~commits.is_tombstone)
    rows = commits.rows[chosen]
    times = timestamps(records.timestamps[rows])
    counted = mine[chosen] == COMMITTED
    at = pa.array(chosen)
    parts = [
        commits.group_id.take(at),
        commits.topic.take(at),
        pa.array(commits.partition[chosen].astype(np.int32)),
        times,
        times,
        pa.array(commits.offset[chosen], mask=~counted),
        pa.array(counted.astype(np.int64)),
        pa.array(np.full(len(rows), partition, dtype=np.int32)),
        pa.array(records.offsets[rows]),
        pa.array(records.leader_epochs[rows].astype(np.int32)),
    ]
    yield RECORDS, record_rows(pa.RecordBatch.from_arrays(parts, schema=SPANS))
    if commits.topic_id.null_count < len(commits.topic_id):
        new = [each for each in _paired(commits.topic, commits.topic_id) if each not in hints]
        if new:
            hints.update(new)
            yield TOPIC_HINTS, _hint_rows(new)


def _paired(topics: Any, ids: Any) -> list[tuple[str | None, TopicHint]]:
    both = pa.table({"topic": topics, "topic_id": ids}).filter(pc.is_valid(ids))
    pairs = both.group_by(["topic", "topic_id"]).aggregate([])
    return [
        (None, TopicHint(row["topic"], topic_id_text(UUID(bytes=row["topic_id"])), -1, False))
        for row in pairs.to_pylist()
    ]


def record_rows(batch: Any) -> Any:
    """Return an Arrow record batch with all columns of `RECORD_ROWS`; those that `batch` lacks are null."""
    names = set(batch.schema.names)
    return pa.RecordBatch.from_arrays(
        [
            batch.column(each.name) if each.name in names else pa.nulls(batch.num_rows, each.type)
            for each in RECORD_ROWS
        ],
        schema=RECORD_ROWS,
    )


def _group_rows(records: Records, rows: Longs, partition: int) -> Any:
    raw = raw_rows(records.take(rows), partition)
    return record_rows(raw.append_column("group_id", group_ids(records, rows)))


def _without_day(raw: Any) -> Any:
    return raw.remove_column(raw.schema.get_field_index("day"))


def _undecodable(records: Records, commits: Commits, partition: int, place: str) -> Any:
    types = records.key_types
    rows = sorted(commits.undecodable)
    groups = group_ids(records, np.array(rows, dtype=np.int64)).to_pylist()
    return pa.RecordBatch.from_pylist(
        [
            {
                "src_partition": partition,
                "src_offset": int(records.offsets[row]),
                "group_id": group,
                "record_type": int(types[row]),
                "reason": commits.undecodable[row],
                "place": place,
                "lost": 1,
                "key": key_of(records, row),
                "value": value_of(records, row),
            }
            for row, group in zip(rows, groups, strict=True)
        ],
        schema=_REJECT_TABLE,
    )


def _hint_rows(hints: Iterable[tuple[str | None, TopicHint]]) -> Any:
    columns = list(zip(*((group, *each) for group, each in hints), strict=True))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, type=field.type)
            for column, field in zip(columns, STAGED[TOPIC_HINTS], strict=True)
        ],
        schema=STAGED[TOPIC_HINTS],
    )


def _coverage(covered: dict[tuple[int, int], _Covered]) -> Any:
    rows = [
        {
            "src_partition": partition,
            "leader_epoch": epoch,
            "first_offset": each.first_offset,
            "last_offset": each.last_offset,
            "records": each.records,
            "first_ts": micros(each.first_ms),
            "last_ts": micros(each.last_ms),
            "since": micros(each.since_ms),
            "commits": each.commits,
            "deferred": each.deferred,
            "modern": each.modern,
        }
        for (partition, epoch), each in covered.items()
    ]
    return pa.RecordBatch.from_pylist(rows, schema=STAGED[COVERAGE])
