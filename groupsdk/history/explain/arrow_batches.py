"""Convert Arrow batches to the entries of groups, and the resulting rows to Arrow batches of the tables."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from groupsdk.history.explain import SIZES, explaining
from groupsdk.history.explain.assignments import AssignmentRow
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.commit_spans import CommitPart
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.explain.timeline.member import CLASSIC
from groupsdk.history.explain.timeline.rows import GroupRecord, MemberRow
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stages import RECORD_ROWS, STAGED, TALLY
from groupsdk.history.times import micros


ROWS: Final = 5_000
"""How many rows of one table make a record batch."""
LOG_ENTRY_PARTITION: Final = -1
"""The place, before all partitions of the log, of what brokers' logs say of a group, as JSON."""
GROUP_TABLES: Final = (
    *("generations", "memberships", "departures", "assignments", "moves", "commit_spans"),
    *("payloads", "storms", "advice", "replay", "replay_summary", "rejects"),
    *("standstills", "progress", "groups"),
)
"""The tables that one replay of the groups makes."""
StoredEntry = tuple[str, bytes]
"""A group, and an entry of brokers' logs about it as `read_log_entry` reads it."""


def tables_of(batches: Iterable[Any], context: explaining.Context) -> Iterator[tuple[str, Any]]:
    """Follow the groups, and yield record batches, each with its table's name; the last is of the stage "tally".

    `batches` are of the schema `stages.RECORD_ROWS`: the rows of a group together, in the order of the log.
    """
    tally: Counter[tuple[int, str]] = Counter()
    yield from to_batches(explaining.explain(entries(batches), context, tally))
    if tally:
        yield TALLY, tally_rows(tally)


def tally_rows(tally: Mapping[tuple[int, str], int]) -> Any:
    return pa.RecordBatch.from_pylist(
        [{"src_partition": p, "what": what, "n": n} for (p, what), n in tally.items()],
        schema=STAGED[TALLY],
    )


def sizes_of(batches: Iterable[Any], context: explaining.Context) -> Iterator[tuple[str, Any]]:
    """Follow the groups only to learn how long their members' sessions last; see `explaining.silence_sizes`."""
    yield from to_batches(explaining.silence_sizes(entries(batches), context))


def entries(batches: Iterable[Any]) -> Iterator[explaining.Entry]:
    """Yield the group records, sums of commits and brokers' log entries of batches, in order."""
    for batch in (each.slice(at, ROWS) for each in batches for at in range(0, len(each), ROWS)):
        columns = [batch.column(name).to_pylist() for name in _TEXTS]
        times = [batch.column(name).cast(pa.int64()).to_pylist() for name in _TIMES]
        for row in zip(*columns, *times, strict=True):
            yield _entry(*row)


_TEXTS: Final = (
    *("group_id", "src_partition", "src_offset", "leader_epoch", "key", "value"),
    *("topic", "partition", "last_offset", "commits"),
)
_TIMES: Final = ("ts", "first_commit_ts", "last_commit_ts")


def _entry(
    group: str | None,
    src_partition: int,
    src_offset: int,
    leader_epoch: int,
    key: bytes | None,
    value: bytes | None,
    topic: str | None,
    partition: int | None,
    last_offset: int | None,
    commits: int | None,
    time: int | None,
    first: int | None,
    last: int | None,
) -> explaining.Entry:
    if topic is not None:
        assert partition is not None
        return CommitPart(
            group or "",
            src_partition,
            src_offset,
            leader_epoch,
            topic,
            partition,
            None if first is None else first // 1000,
            None if last is None else last // 1000,
            last_offset,
            commits or 0,
        )
    if src_partition == LOG_ENTRY_PARTITION:
        return read_log_entry(group or "", value or b"")
    ts_ms = -1 if time is None else time // 1000
    return GroupRecord(group or "", src_partition, src_offset, ts_ms, leader_epoch, key, value)


def read_log_entry(group_id: str, text: bytes) -> explaining.LogEntry:
    found = json.loads(text)
    if "member_id" in found:
        return LoggedDeparture(group_id, found["member_id"], found["ts_ms"], found["reason"])
    return LoggedReason(
        *(group_id, found["generation"], found["ts_ms"], found["reason"]),
        found.get("cause"),
        found["compatible"],
    )


_SCHEMAS: Final = {
    **{name: TABLES[name].arrow_schema for name in GROUP_TABLES},
    SIZES: STAGED[SIZES],
}


def to_batches(rows: Iterable[explaining.TableRows], size: int = ROWS) -> Iterator[tuple[str, Any]]:
    tables: explaining.TableRows | None = None
    for tables in rows:
        for name, waiting in tables.items():
            if len(waiting) >= size:
                yield name, _batch(name, waiting)
                waiting.clear()
    for name, left in () if tables is None else tables.items():
        if left:
            yield name, _batch(name, left)


def _batch(name: str, rows: list[Any]) -> Any:
    schema = _SCHEMAS[name]
    if name == "assignments":
        return _assignments(rows, schema)
    columns = [
        pa.array(column, type=field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _assignments(rows: Sequence[AssignmentRow], schema: Any) -> Any:
    """Build a row for each partition, without creating an object for it."""
    shares = [share for row in rows for share in row.assigned]
    own = [
        (None if row.of.protocol == CLASSIC else topic)
        for row in rows
        for topic, _ in row.of.member.assigned
    ]
    shares_of = np.array([len(row.assigned) for row in rows], dtype=np.int64)
    counts = np.array([len(numbers) for _, numbers in shares], dtype=np.int64)
    row_of_share = np.repeat(np.arange(len(rows)), shares_of)
    of_share = pa.array(np.repeat(np.arange(len(shares)), counts))
    of_row = pa.array(np.repeat(row_of_share, counts))
    found = {
        "topic": pa.array([topic for topic, _ in shares], pa.string()).take(of_share),
        "topic_id": pa.array(own, pa.string()).take(of_share),
        "partition": pa.array([n for _, numbers in shares for n in numbers], pa.int32()),
    }
    for name, column in _common(rows):
        found[name] = pa.array(column, type=schema.field(name).type).take(of_row)
    return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def _common(rows: Sequence[AssignmentRow]) -> Iterator[tuple[str, Any]]:
    """Yield the columns that are the same for all partitions of a row."""
    of = [row.of for row in rows]
    names = MemberRow._fields
    columns = dict(zip(names, zip(*of, strict=True), strict=True))
    for name in ("group_id", "protocol", "seq", "generation", "phase"):
        yield name, columns[name]
    yield "ts", list(map(micros, columns["ts_ms"]))
    yield "member_id", [each.member_id for each in columns["member"]]
    yield "client_id", [each.client_id for each in columns["member"]]
    yield "src_partition", columns["partition"]
    yield "src_offset", columns["offset"]


def stored_entries(found: Iterable[explaining.LogEntry]) -> Iterator[StoredEntry]:
    for each in found:
        said = each._asdict()
        yield said.pop("group_id"), json.dumps(said).encode()


def log_entry_rows(entries: Iterable[StoredEntry]) -> Any:
    """Convert entries to a batch of `stages.RECORD_ROWS`, to precede the records of their groups."""
    rows = [
        {
            "group_id": group_id,
            "src_partition": LOG_ENTRY_PARTITION,
            "src_offset": 0,
            "value": value,
        }
        for group_id, value in entries
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_ROWS)
