"""Decode committed offsets a column at a time: the records that make up nearly all of `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from groupsdk.errors import DecodeError
from groupsdk.history.read.batches import Records
from groupsdk.history.read.columns import Flags, Longs, as_bytes, big_endian, slices, varints
from groupsdk.wire.coordinator_records.offset_commit import (
    TOPIC_ID_TAG,
    OffsetCommitKey,
    OffsetCommitValue,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
_TOPIC_ID_BYTES: Final = 16
_MAX_STRING: Final = 32_767


@dataclass(frozen=True, slots=True, repr=False)
class Commits:
    """Committed offsets as columns, in the order of the log.

    `group_id`, `topic` and `partition` are from the key, `version` is the version of the value, `offset` the committed
    offset and `metadata` the consumer's own string. `is_tombstone` marks records that remove a committed offset: their
    `version` is -1, and every other column of the value is null.
    """

    rows: Longs
    group_id: Any
    topic: Any
    partition: Longs
    version: Longs
    is_tombstone: Flags
    offset: Longs
    leader_epoch: Longs
    """-1 if unknown."""
    metadata: Any
    commit_timestamp: Longs
    """Milliseconds since 1970; -1 in a tombstone."""
    expire_timestamp: Longs
    """Milliseconds since 1970; -1 if the broker's own retention applies."""
    topic_id: Any
    """16 bytes, or null."""
    undecodable: dict[int, str]
    """Records that are of these types and cannot be decoded, with the reason."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(slots=True)
class _Columns:
    group_start: Longs
    group_size: Longs
    topic_start: Longs
    topic_size: Longs
    partition: Longs
    version: Longs
    offset: Longs
    leader_epoch: Longs
    metadata_start: Longs
    metadata_size: Longs
    commit_timestamp: Longs
    expire_timestamp: Longs
    topic_id_start: Longs
    has_topic_id: Flags
    tombstone: Flags
    clean: Flags

    def take(self, chosen: Flags) -> "_Columns":
        return _Columns(*(getattr(self, name)[chosen] for name in self.__slots__))


def read_commits(records: Records) -> Commits:
    """Decode the records of types 0 and 1 among `records`; skip the others."""
    types = records.key_types
    mine = (types == LEGACY_OFFSET_COMMIT) | (types == OFFSET_COMMIT)
    rows = np.flatnonzero(mine & ~records.is_control)
    columns = _parse(records, rows)
    again = rows[~columns.clean]
    decoded, undecodable = _decode_again(records, again)
    if not len(again):
        try:
            return _finished(records, rows, columns, undecodable)
        except pa.ArrowInvalid:
            # a name is not UTF-8: find out which, one record at a time
            decoded, undecodable = _decode_again(records, rows)
            columns.clean[:] = False
    return _patched(records, rows, columns, decoded, undecodable)


def _parse(records: Records, rows: Longs) -> _Columns:
    data, view = records.data, as_bytes(records.data)
    start, size = records.key_starts[rows], records.key_sizes[rows]
    group_size = big_endian(data, "i2", start + 2)
    group_start = start + 4
    at = group_start + np.maximum(group_size, 0)
    topic_size = big_endian(data, "i2", at)
    topic_start = at + 2
    at = topic_start + np.maximum(topic_size, 0)
    partition = big_endian(data, "i4", at)
    clean = (group_size >= 0) & (topic_size >= 0) & (at + 4 == start + size)

    start, size = records.value_starts[rows], records.value_sizes[rows]
    stop = start + size
    tombstone = size < 0
    version = np.where(tombstone, -1, big_endian(data, "i2", start))
    legacy = big_endian(data, "i2", records.key_starts[rows]) == LEGACY_OFFSET_COMMIT
    known = (version >= 0) & (version <= np.where(legacy, 0, 4))
    offset = big_endian(data, "i8", start + 2)
    has_epoch = version >= 3
    leader_epoch = np.where(has_epoch, big_endian(data, "i4", start + 10), -1)
    at = start + 10 + np.where(has_epoch, 4, 0)
    flexible = version == 4
    if len(rows):
        compact, after, too_long = varints(view, at)
        too_long |= compact > _MAX_STRING + 1
    else:
        compact, after, too_long = at, at, np.zeros(0, dtype=np.bool_)
    metadata_size = np.where(flexible, compact - 1, big_endian(data, "i2", at))
    metadata_start = np.where(flexible, after, at + 2)
    at = metadata_start + np.maximum(metadata_size, 0)
    commit_timestamp = big_endian(data, "i8", at)
    at = at + 8
    expires = version == 1
    expire_timestamp = np.where(expires, big_endian(data, "i8", at), -1)
    at = at + np.where(expires, 8, 0)
    # behind a flexible value stands how many tagged fields there are: none, or the topic's id
    tags = view[np.minimum(at, len(view) - 1)] if len(view) else np.zeros(len(rows), dtype=np.uint8)
    has_topic_id = flexible & (at + 3 + _TOPIC_ID_BYTES == stop)
    for index, byte in enumerate(TOPIC_ID_TAG):
        found = big_endian(data, "i1", at + index)
        has_topic_id &= found == byte
    ends = np.where(flexible, np.where(has_topic_id, stop, np.where(tags == 0, at + 1, -1)), at)
    clean &= tombstone | (known & (metadata_size >= 0) & (ends == stop) & ~(flexible & too_long))
    return _Columns(
        group_start,
        group_size,
        topic_start,
        topic_size,
        partition,
        version,
        np.where(tombstone, 0, offset),
        np.where(tombstone, -1, leader_epoch),
        np.where(tombstone, start, metadata_start),
        np.where(tombstone, 0, metadata_size),
        np.where(tombstone, -1, commit_timestamp),
        np.where(tombstone, -1, expire_timestamp),
        # in ascending order also where there is none
        np.where(has_topic_id, at + 3, np.where(tombstone, start, stop)),
        has_topic_id,
        tombstone,
        clean,
    )


def _decode_again(
    records: Records, rows: Longs
) -> tuple[dict[int, tuple[OffsetCommitKey, OffsetCommitValue | None, int]], dict[int, str]]:
    """Decode one record after the other; returns those that can be decoded, and the reasons for the others."""
    decoded = {}
    undecodable = {}
    for row in rows.tolist():
        # one without a key is not of these types
        key_data, value_data = key_of(records, row) or b"", value_of(records, row)
        try:
            key: Any = read_key(key_data)
            value: Any = read_value(key, value_data)
        except DecodeError as error:
            undecodable[row] = str(error)
        else:
            version = -1 if value_data is None else int.from_bytes(value_data[:2], signed=True)
            decoded[row] = (key, value, version)
    return decoded, undecodable


def key_of(records: Records, row: int) -> bytes | None:
    return _field(records.data, int(records.key_starts[row]), int(records.key_sizes[row]))


def value_of(records: Records, row: int) -> bytes | None:
    """Return a copy of the value of record number `row`; None for a tombstone."""
    return _field(records.data, int(records.value_starts[row]), int(records.value_sizes[row]))


def _field(data: bytes, start: int, size: int) -> bytes | None:
    return None if size < 0 else data[start : start + size]


def _finished(
    records: Records, rows: Longs, columns: _Columns, undecodable: dict[int, str]
) -> Commits:
    data = records.data
    none = ~columns.has_topic_id
    return Commits(
        rows,
        slices(data, columns.group_start, columns.group_size).cast(pa.string()),
        slices(data, columns.topic_start, columns.topic_size).cast(pa.string()),
        columns.partition,
        columns.version,
        columns.tombstone,
        columns.offset,
        columns.leader_epoch,
        slices(data, columns.metadata_start, columns.metadata_size, columns.tombstone).cast(
            pa.string()
        ),
        columns.commit_timestamp,
        columns.expire_timestamp,
        slices(data, columns.topic_id_start, np.where(none, 0, _TOPIC_ID_BYTES), none)
        if not none.all()
        else pa.nulls(len(rows), pa.binary()),
        undecodable,
    )


def _patched(
    records: Records,
    rows: Longs,
    columns: _Columns,
    decoded: dict[int, tuple[OffsetCommitKey, OffsetCommitValue | None, int]],
    undecodable: dict[int, str],
) -> Commits:
    """Merge the records decoded one at a time into those decoded together."""
    try:
        fast = _finished(records, rows[columns.clean], columns.take(columns.clean), undecodable)
    except pa.ArrowInvalid:
        decoded, undecodable = _decode_again(records, rows)
        columns.clean[:] = False
        fast = _finished(records, rows[columns.clean], columns.take(columns.clean), undecodable)
    if not decoded:
        return fast
    slow = [(row, *decoded[row]) for row in sorted(decoded)]
    values = [value for _, _, value, _ in slow]
    slow_rows = np.array([row for row, *_ in slow], dtype=np.int64)
    order = np.argsort(np.concatenate([fast.rows, slow_rows]), kind="stable")

    def longs(first: Longs, name: str, missing: int) -> Longs:
        second = [missing if value is None else getattr(value, name, -1) for value in values]
        return np.concatenate([first, np.array(second, dtype=np.int64)])[order]

    def strings(first: Any, second: list[Any]) -> Any:
        return pa.concat_arrays([first, pa.array(second, type=first.type)]).take(pa.array(order))

    ids = [getattr(value, "topic_id", None) for value in values]
    version = np.concatenate([fast.version, np.array([each[3] for each in slow], dtype=np.int64)])
    return Commits(
        np.concatenate([fast.rows, slow_rows])[order],
        strings(fast.group_id, [key.group for _, key, _, _ in slow]),
        strings(fast.topic, [key.topic for _, key, _, _ in slow]),
        np.concatenate([fast.partition, np.array([each[1].partition for each in slow])])[order],
        version[order],
        version[order] < 0,
        longs(fast.offset, "offset", 0),
        longs(fast.leader_epoch, "leader_epoch", -1),
        strings(fast.metadata, [None if value is None else value.metadata for value in values]),
        longs(fast.commit_timestamp, "commit_timestamp", -1),
        longs(fast.expire_timestamp, "expire_timestamp", -1),
        strings(
            fast.topic_id, [each.bytes if each is not None and each.int else None for each in ids]
        ),
        undecodable,
    )
