"""Put the rows of followed groups into Arrow record batches: one column for each kind of row."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from groupsdk.history.groups.derived import Derived, derive
from groupsdk.history.groups.member import Partitions
from groupsdk.history.groups.owners import CLASSIC, AssignmentRow, MoveRow
from groupsdk.history.groups.replaying import AssignorLike, ReplayRow
from groupsdk.history.groups.rows import (
    DepartureRow,
    GenerationRow,
    GroupRecord,
    MembershipRow,
    RejectRow,
    TopicRow,
)
from groupsdk.history.groups.walk import walk
from groupsdk.history.kernel.columns import LAST_MS


ROWS: Final = 5_000
"""How many rows of one kind make a record batch."""

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_STRINGS: Final = pa.list_(pa.string())
ASSIGNED: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
)

_MEMBER: Final = [
    ("member_id", pa.string()),
    ("instance_id", pa.string()),
    ("client_id", pa.string()),
    ("client_host", pa.string()),
    ("session_timeout_ms", pa.int32()),
    ("rebalance_timeout_ms", pa.int32()),
    ("topics", _STRINGS),
    ("assigned", ASSIGNED),
    ("rack_id", pa.string()),
    ("assignor_offered", pa.string()),
]
_SOURCE: Final = [("src_partition", pa.int32()), ("src_offset", pa.int64())]

GENERATION: Final = pa.struct(
    [
        ("group_id", pa.string()),
        ("protocol", pa.string()),
        ("protocol_type", pa.string()),
        ("incarnation", pa.int32()),
        ("seq", pa.int64()),
        ("generation", pa.int32()),
        ("ts", _TIMESTAMP),
        ("state_ts", _TIMESTAMP),
        ("assignor", pa.string()),
        ("leader", pa.string()),
        ("n_members", pa.int32()),
        ("n_partitions", pa.int32()),
        ("joined", pa.int32()),
        ("gone", pa.int32()),
        ("changed", pa.int32()),
        ("causes", _STRINGS),
        ("is_first", pa.bool_()),
        ("missing_before", pa.int32()),
        ("coordinator_changed", pa.bool_()),
        ("balance_stddev", pa.float64()),
        ("is_empty", pa.bool_()),
        ("converged_ts", _TIMESTAMP),
        *_SOURCE,
        ("leader_epoch", pa.int32()),
    ]
)
ASSIGNMENT: Final = pa.struct(
    [
        ("group_id", pa.string()),
        ("protocol", pa.string()),
        ("seq", pa.int64()),
        ("generation", pa.int32()),
        ("ts", _TIMESTAMP),
        ("phase", pa.string()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        *_SOURCE,
    ]
)
MOVE: Final = pa.struct(
    [
        ("group_id", pa.string()),
        ("seq", pa.int64()),
        ("generation", pa.int32()),
        ("ts", _TIMESTAMP),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("from_member", pa.string()),
        ("to_member", pa.string()),
        ("from_client", pa.string()),
        ("to_client", pa.string()),
        ("from_seq", pa.int64()),
        *_SOURCE,
    ]
)
REPLAY: Final = pa.struct(
    [
        ("group_id", pa.string()),
        ("seq", pa.int64()),
        ("generation", pa.int32()),
        ("assignor", pa.string()),
        ("moved", pa.int32()),
        ("revoked", pa.int32()),
        ("max_load", pa.int32()),
        ("min_load", pa.int32()),
        ("stddev", pa.float64()),
        ("n_members", pa.int32()),
        ("n_partitions", pa.int32()),
        ("problem", pa.string()),
    ]
)
MEMBERSHIP: Final = pa.struct(
    [
        ("group_id", pa.string()),
        ("protocol", pa.string()),
        *_MEMBER,
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("first_generation", pa.int32()),
        ("last_generation", pa.int32()),
        ("start_ts", _TIMESTAMP),
        ("end_ts", _TIMESTAMP),
        ("end_reason", pa.string()),
        ("end_seq", pa.int64()),
        *_SOURCE,
    ]
)
DEPARTURE: Final = pa.struct(
    [
        ("group_id", pa.string()),
        ("protocol", pa.string()),
        ("seq", pa.int64()),
        ("generation", pa.int32()),
        ("ts", _TIMESTAMP),
        *_MEMBER,
        ("superseded", pa.bool_()),
        ("alive_ts", _TIMESTAMP),
        ("behind", pa.bool_()),
    ]
)
TOPIC: Final = pa.struct([("topic_id", pa.string()), ("topic", pa.string())])
REJECT: Final = pa.struct(
    [
        ("group_id", pa.string()),
        *_SOURCE,
        ("record_type", pa.int16()),
        ("reason", pa.string()),
    ]
)

KINDS: Final[dict[type[Any], tuple[str, Any]]] = {
    GenerationRow: ("generation", GENERATION),
    AssignmentRow: ("assignment", ASSIGNMENT),
    MoveRow: ("move", MOVE),
    ReplayRow: ("replay", REPLAY),
    MembershipRow: ("membership", MEMBERSHIP),
    DepartureRow: ("departure", DEPARTURE),
    TopicRow: ("topic", TOPIC),
    RejectRow: ("reject", REJECT),
}
"""The column of each kind of row, and what it holds."""

EVENTS: Final = pa.schema([("kind", pa.string()), *((name, kind) for name, kind in KINDS.values())])
"""One row of any kind: `kind` says which column is the one that is not null."""


def follow(
    batches: Iterable[Any],
    names: Mapping[str, str] | None = None,
    assignors: Sequence[AssignorLike] = (),
) -> Iterator[tuple[str, Any]]:
    """Follow the groups in record batches of the schema `kernel.rows.REST`, sorted by group and place.

    Args:
        batches: what to follow.
        names: of topics, by their ids.
        assignors: what is replayed.

    Returns:
        Record batches, each with its kind: their columns are what `KINDS` says of it.

    Raises:
        ConfigError: an assignor is not known.
    """
    yield from to_batches(derive(walk(_records(batches)), names or {}, assignors))


def as_event(kind: str, batch: Any) -> Any:
    """Lay a batch of one kind out in the schema `EVENTS`."""
    filled = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([kind] * batch.num_rows, type=pa.string()),
            *(
                filled if each == kind else pa.nulls(batch.num_rows, field)
                for each, field in KINDS.values()
            ),
        ],
        schema=EVENTS,
    )


def _records(batches: Iterable[Any]) -> Iterator[GroupRecord]:
    for batch in batches:
        times = batch.column("ts").cast(pa.int64()).to_pylist()
        names = ("group_id", "src_partition", "src_offset", "leader_epoch", "key", "value")
        columns = [batch.column(name).to_pylist() for name in names]
        for group, partition, offset, epoch, key, value, time in zip(*columns, times, strict=True):
            yield GroupRecord(
                group or "",
                partition,
                offset,
                -1 if time is None else time // 1000,
                epoch,
                key,
                value,
            )


def to_batches(rows: Iterable[Derived], size: int = ROWS) -> Iterator[tuple[str, Any]]:
    """Gather rows by their kind, and give a record batch with its kind for each `size` of them."""
    waiting: dict[type[Any], list[Any]] = {kind: [] for kind in KINDS}
    for row in rows:
        kind = waiting[type(row)]
        kind.append(row)
        if len(kind) >= size:
            yield _batch(type(row), kind)
            kind.clear()
    for each, left in waiting.items():
        if left:
            yield _batch(each, left)


def _batch(kind: type[Any], rows: list[Any]) -> tuple[str, Any]:
    name, declared = KINDS[kind]
    if kind is AssignmentRow:
        return name, _assignments(rows)
    columns = zip(*map(_LAYOUTS[kind], rows), strict=True)
    arrays = [
        partition_arrays(column) if field.type == ASSIGNED else pa.array(column, type=field.type)
        for column, field in zip(columns, declared, strict=True)
    ]
    return name, pa.RecordBatch.from_arrays(arrays, schema=pa.schema(list(declared)))


def _assignments(rows: Sequence[AssignmentRow]) -> Any:
    """Give each partition a row, without an object for it."""
    shares = [
        (place, topic, None if row.of.protocol == CLASSIC else own[0], numbers)
        for place, row in enumerate(rows)
        for (topic, numbers), own in zip(row.assigned, row.of.member.assigned, strict=True)
    ]
    counts = np.array([len(numbers) for *_, numbers in shares], dtype=np.int64)
    of_share = pa.array(np.repeat(np.arange(len(shares)), counts))
    of_row = pa.array(np.repeat(np.array([each[0] for each in shares], dtype=np.int64), counts))
    own = {
        "topic": pa.array([each[1] for each in shares], type=pa.string()).take(of_share),
        "topic_id": pa.array([each[2] for each in shares], type=pa.string()).take(of_share),
        "partition": pa.array(
            list(chain.from_iterable(numbers for *_, numbers in shares)), type=pa.int32()
        ),
    }
    common = zip(*map(_common, rows), strict=True)
    columns = [
        own[each.name] if each.name in own else pa.array(next(common), type=each.type).take(of_row)
        for each in ASSIGNMENT
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(ASSIGNMENT)))


def _common(row: AssignmentRow) -> tuple[Any, ...]:
    of = row.of
    return (
        *(of.group_id, of.protocol, of.seq, of.generation, _time(of.ts_ms), of.phase),
        *(of.member.member_id, of.member.client_id, of.partition, of.offset),
    )


def _time(milliseconds: int) -> int | None:
    return milliseconds * 1000 if 0 <= milliseconds <= LAST_MS else None


def partition_arrays(every: Sequence[Partitions]) -> Any:
    """Put partitions into an Arrow array of the type `ASSIGNED`, without an object for each list and topic."""
    stops = [0, *accumulate(map(len, every))]
    topics = [each for partitions in every for each in partitions]
    number_stops = [0, *accumulate(len(numbers) for _, numbers in topics)]
    numbers = pa.ListArray.from_arrays(
        pa.array(number_stops, type=pa.int32()),
        pa.array(list(chain.from_iterable(found for _, found in topics)), type=pa.int32()),
    )
    names = pa.array([topic for topic, _ in topics], type=pa.string())
    inner = pa.StructArray.from_arrays([names, numbers], fields=list(ASSIGNED.value_type))
    return pa.ListArray.from_arrays(pa.array(stops, type=pa.int32()), inner)


def _generation(row: GenerationRow) -> tuple[Any, ...]:
    return (
        *row[:6],
        _time(row.ts_ms),
        _time(row.state_ts_ms),
        *row[8:15],
        [str(cause) for cause in row.causes],
        *row[16:21],
        _time(row.converged_ms),
        row.partition,
        row.offset,
        row.leader_epoch,
    )


def _member_fields(row: MembershipRow | DepartureRow) -> tuple[Any, ...]:
    member = row.member
    return (
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        member.topics,
        member.assigned,
        member.rack_id,
        member.assignor_offered,
    )


def _move(row: MoveRow) -> tuple[Any, ...]:
    of = row.of
    return (
        *(of.group_id, of.seq, of.generation, _time(of.ts_ms), row.topic, row.partition),
        *(row.from_member, of.member.member_id, row.from_client, of.member.client_id),
        *(row.from_seq, of.partition, of.offset),
    )


def _membership(row: MembershipRow) -> tuple[Any, ...]:
    return (
        row.group_id,
        row.protocol,
        *_member_fields(row),
        row.first_seq,
        row.last_seq,
        row.first_generation,
        row.last_generation,
        _time(row.start_ms),
        _time(row.end_ms),
        row.end_reason,
        None if row.end_seq < 0 else row.end_seq,
        row.partition,
        row.offset,
    )


def _departure(row: DepartureRow) -> tuple[Any, ...]:
    return (
        *row[:4],
        _time(row.ts_ms),
        *_member_fields(row),
        row.superseded,
        _time(row.alive_ms),
        row.behind,
    )


_LAYOUTS: Final[dict[type[Any], Callable[[Any], tuple[Any, ...]]]] = {
    GenerationRow: _generation,
    MoveRow: _move,
    ReplayRow: tuple,
    MembershipRow: _membership,
    DepartureRow: _departure,
    TopicRow: tuple,
    RejectRow: tuple,
}
