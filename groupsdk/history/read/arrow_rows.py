"""Convert records to rows of the tables, as Arrow record batches."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.timeline.modern_protocols import topic_id_text
from groupsdk.history.read.batches import Records
from groupsdk.history.read.columns import Longs, big_endian, days, slices, timestamps
from groupsdk.history.read.commits import Commits
from groupsdk.history.tables.schemas import TABLES
from groupsdk.wire.records.batch import CONTROL, TRANSACTIONAL


RAW: Final = TABLES["raw_records"].arrow_schema
"""Any record, undecoded."""
_COMMITS: Final = TABLES["offset_commits"].arrow_schema


@dataclass(frozen=True, slots=True)
class Reject:
    """A part of a log that could not be read, from `offset` on (None if unknown), and why."""

    offset: int | None
    place: str
    """The file and the position in it."""
    reason: str
    lost: int
    """How many records were lost; 0 if unknown."""


def from_arrow(batch: Any) -> Records:
    """Convert an Arrow record batch of the schema `RAW`."""
    keys, values = batch.column("key"), batch.column("value")
    key_data, key_starts, key_sizes = _strings(keys)
    value_data, value_starts, value_sizes = _strings(values)
    count = batch.num_rows
    flags = np.where(_longs(batch, "control", 0) != 0, CONTROL, 0) | np.where(
        _longs(batch, "transactional", 0) != 0, TRANSACTIONAL, 0
    )
    times = batch.column("ts").cast(pa.int64())
    milliseconds = np.floor_divide(_filled(times, -1000), 1000)
    return Records(
        key_data + value_data,
        _longs(batch, "src_offset", -1),
        milliseconds,
        key_starts,
        key_sizes,
        value_starts + len(key_data),
        value_sizes,
        _longs(batch, "leader_epoch", -1),
        _longs(batch, "producer_id", -1),
        _longs(batch, "producer_epoch", -1),
        flags.astype(np.int64) if count else np.zeros(0, dtype=np.int64),
    )


def _strings(array: Any) -> tuple[bytes, Longs, Longs]:
    array = array.cast(pa.binary())
    borders = np.frombuffer(array.buffers()[1], dtype=np.int32)
    longs: Longs = borders[array.offset : array.offset + len(array) + 1].astype(np.int64)
    sizes: Longs = np.diff(longs)
    if array.null_count:
        sizes = np.where(array.is_null().to_numpy(zero_copy_only=False), -1, sizes)
    data = array.buffers()[2]
    first, last = int(longs[0]), int(longs[-1])
    text: bytes = data.slice(first, last - first).to_pybytes() if data else b""
    return text, longs[:-1] - first, sizes


def _longs(batch: Any, name: str, missing: int) -> Longs:
    return _filled(batch.column(name).cast(pa.int64()), missing)


def _filled(array: Any, missing: int) -> Longs:
    if array.null_count:
        array = array.fill_null(missing)
    found: Longs = array.to_numpy(zero_copy_only=False)
    return found


def group_ids(records: Records, rows: Longs) -> Any:
    """Return the group ids in the keys of `rows`, which is their first field; null if undecodable."""
    starts, sizes = records.key_starts[rows], records.key_sizes[rows]
    lengths = big_endian(records.data, "i2", starts + 2)
    wrong = (lengths < 0) | (lengths + 4 > sizes) | records.is_control[rows]
    found = slices(records.data, starts + np.where(wrong, 0, 4), np.where(wrong, 0, lengths), wrong)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [_text(each) for each in found.to_pylist()]
        return pa.array(texts, type=pa.string())


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def raw_rows(records: Records, partition: int) -> Any:
    """Convert the records of a partition to an Arrow record batch of the schema `RAW`."""
    data, keys, values = records.data, records.key_sizes, records.value_sizes
    columns = [
        pa.array(np.full(len(keys), partition, dtype=np.int32)),
        pa.array(records.offsets),
        timestamps(records.timestamps),
        pa.array(records.leader_epochs.astype(np.int32)),
        pa.array(records.producer_ids),
        pa.array(records.producer_epochs.astype(np.int16)),
        pa.array(records.is_transactional),
        pa.array(records.is_control),
        slices(data, records.key_starts, np.maximum(keys, 0), keys < 0),
        slices(data, records.value_starts, np.maximum(values, 0), values < 0),
        days(records.timestamps),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RAW)


def commit_rows(records: Records, commits: Commits, partition: int, states: Any) -> Any:
    """Convert the committed offsets in records of a partition to rows of the table `offset_commits`; `states` has their states."""
    rows, gone = commits.rows, commits.is_tombstone

    def number(values: Longs, kind: str, missing: Any) -> Any:
        return pa.array(values.astype(kind), mask=missing)

    columns = [
        commits.group_id,
        commits.topic,
        number(commits.partition, "i4", None),
        number(commits.offset, "i8", gone),
        number(commits.leader_epoch, "i4", commits.leader_epoch < 0),
        commits.metadata,
        timestamps(commits.commit_timestamp),
        timestamps(commits.expire_timestamp),
        _id_texts(commits.topic_id),
        states,
        number(commits.version, "i2", gone),
        timestamps(records.timestamps[rows]),
        number(records.leader_epochs[rows], "i4", None),
        number(np.full(len(rows), partition), "i4", None),
        number(records.offsets[rows], "i8", None),
        days(records.timestamps[rows]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_COMMITS)


def _id_texts(ids: Any) -> Any:
    """Format topic ids as Kafka's tools do, each distinct id once."""
    if ids.null_count == len(ids):
        return pa.nulls(len(ids), pa.string())
    found = pc.dictionary_encode(ids)
    texts = [topic_id_text(UUID(bytes=each)) for each in found.dictionary.to_pylist()]
    return pa.array(texts, type=pa.string()).take(found.indices)
