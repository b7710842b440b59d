"""Find the records of many batches, and of whole segments, at once: where their keys and values start, how long they are.

Every batch that the fast pass cannot validate is read again by `groupsdk.wire.records`, which decides: a batch
read here gives the same result, only faster.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from groupsdk.errors import DecodeError
from groupsdk.history.read import columns
from groupsdk.limits import MAX_INT64
from groupsdk.wire.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatchError,
    batches,
    verify,
)
from groupsdk.wire.records.batch_walk import (
    CHUNK_BYTES,
    MAX_BATCH_BYTES,
    BatchWalk,
    ReadsBytes,
    Unread,
)
from groupsdk.wire.records.compression import decompress
from groupsdk.wire.records.record import read_records


BODY_BYTES: Final = 8 * 1024 * 1024
"""About how many decompressed bytes are read at once, unless one batch has more."""

_LEAST_RECORD: Final = 7
_FEW: Final = 24  # as many batches as one step through arrays takes the time of
_NONE: Final = np.zeros(0, dtype=np.int64)
_NOWHERE: Final = -1  # where a record ends whose length is none
_NO_LENGTH: Final = 1  # -1 in zigzag


@dataclass(frozen=True, slots=True)
class BadBatch:
    """A batch that could not be decoded; `base_offset` is the one in its header, and `reason` says why."""

    base_offset: int
    position: int
    records_count: int
    """The number of records in its header, if that is plausible."""
    reason: str


@dataclass(frozen=True, repr=False)
class Records:
    """The records of some batches as columns, in the order of the log.

    Keys and values are slices of `data`: `key_starts` and `value_starts` are positions in bytes, and a size of -1 in
    `key_sizes` or `value_sizes` means null. `offsets` are those of the log. `leader_epochs`, `producer_ids` and
    `producer_epochs` are those of each record's batch, -1 for none. `bad` has the batches that were skipped.
    """

    data: bytes
    offsets: columns.Longs
    timestamps: columns.Longs
    """Milliseconds since 1970."""
    key_starts: columns.Longs
    key_sizes: columns.Longs
    value_starts: columns.Longs
    value_sizes: columns.Longs
    leader_epochs: columns.Longs
    producer_ids: columns.Longs
    producer_epochs: columns.Longs
    attributes: columns.Longs
    bad: tuple[BadBatch, ...] = ()
    end: int = 0
    """The position in the buffer at which the last batch ends."""

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def is_control(self) -> columns.Flags:
        """Which records are control records, such as the end of a transaction, rather than application data."""
        found: columns.Flags = (self.attributes & CONTROL) != 0
        return found

    @cached_property
    def is_transactional(self) -> columns.Flags:
        """Which records are part of a transaction."""
        found: columns.Flags = (self.attributes & TRANSACTIONAL) != 0
        return found

    def take(self, chosen: columns.Flags | columns.Longs) -> "Records":
        """Return some of the records, by flags or indexes, along with all batches that could not be read."""
        return Records(
            data=self.data,
            offsets=self.offsets[chosen],
            timestamps=self.timestamps[chosen],
            key_starts=self.key_starts[chosen],
            key_sizes=self.key_sizes[chosen],
            value_starts=self.value_starts[chosen],
            value_sizes=self.value_sizes[chosen],
            leader_epochs=self.leader_epochs[chosen],
            producer_ids=self.producer_ids[chosen],
            producer_epochs=self.producer_epochs[chosen],
            attributes=self.attributes[chosen],
            bad=self.bad,
            end=self.end,
        )

    @cached_property
    def key_types(self) -> columns.Longs:
        """The record type at the start of every key; -1 if there is no key or it is too short."""
        return np.where(
            self.key_sizes >= 2, columns.big_endian(self.data, "i2", self.key_starts), -1
        )


class _Batch(NamedTuple):
    header: BatchHeader
    position: int
    body: bytes | None
    """Decompressed; None where it is not compressed."""


@dataclass(slots=True)
class _Fields:
    """The fields that the fast pass finds in every record; filled in place."""

    timestamps: columns.Longs
    offsets: columns.Longs
    key_starts: columns.Longs
    key_sizes: columns.Longs
    value_starts: columns.Longs
    value_sizes: columns.Longs

    def take(self, chosen: columns.Flags) -> "_Fields":
        return _Fields(*(getattr(self, name)[chosen] for name in self.__slots__))


@dataclass(slots=True)
class _Group:
    batches: list[_Batch] = field(default_factory=list)
    bad: list[BadBatch] = field(default_factory=list)
    size: int = 0
    end: int = 0


def read_batches(
    buffer: bytes,
    found: Iterable[tuple[BatchHeader, int, str | None]] | None = None,
    *,
    body_bytes: int = BODY_BYTES,
) -> Iterator[Records]:
    """Read the batches of a buffer, about `body_bytes` of them at a time.

    Ends before a batch that the buffer does not hold as a whole, as `groupsdk.wire.records.batch.batches`
    does. A batch with a wrong checksum, or whose records cannot be read, comes out in `Records.bad`.

    Args:
        found: the batches to read, checked: header, position, and why the batch cannot be read; None: all.

    Raises:
        DecodeError: from some byte on the buffer holds no batch; what stands before it was given.
    """
    group = _Group()
    try:
        for header, position, error in _checked(buffer) if found is None else found:
            if error is None:
                _add(group, buffer, header, position)
            else:
                group.bad.append(_bad(header, position, error))
                group.end = position + header.size_in_bytes
            if group.size >= body_bytes:
                yield _read(buffer, group)
                group = _Group()
    except DecodeError:
        if group.batches or group.bad:
            yield _read(buffer, group)
        raise
    if group.batches or group.bad:
        yield _read(buffer, group)


def _checked(buffer: bytes) -> Iterator[tuple[BatchHeader, int, str | None]]:
    for header, position in batches(buffer):
        error = None
        try:
            verify(buffer, header, position)
        except CorruptBatchError as found:
            error = str(found)
        yield header, position, error


def _add(group: _Group, buffer: bytes, header: BatchHeader, position: int) -> None:
    body = None
    group.end = position + header.size_in_bytes
    size = header.size_in_bytes - HEADER_SIZE
    try:
        if header.attributes & COMPRESSION_MASK:
            start = position + HEADER_SIZE
            body = decompress(header.compression, buffer[start : start + size])
            size = len(body)
    except DecodeError as error:
        group.bad.append(_bad(header, position, str(error)))
        return
    count = header.records_count
    if count * _LEAST_RECORD > size:
        # before room is made for them
        reason = f"{count} records where {size} bytes are left"
        group.bad.append(_bad(header, position, reason))
        return
    group.batches.append(_Batch(header, position, body))
    group.size += size


def _bad(header: BatchHeader, position: int, reason: str) -> BadBatch:
    return BadBatch(header.base_offset, position, header.records_count, reason)


def _read(buffer: bytes, group: _Group) -> Records:
    found = group.batches
    if any(batch.body is not None for batch in found):
        bodies = [_body(buffer, batch) for batch in found]
        data = b"".join(bodies)
        stops = np.cumsum([len(body) for body in bodies], dtype=np.int64)
        starts = stops - np.array([len(body) for body in bodies], dtype=np.int64)
    else:
        data = buffer
        positions = np.array([batch.position for batch in found], dtype=np.int64)
        starts = positions + HEADER_SIZE
        stops = positions + np.array([batch.header.size_in_bytes for batch in found], np.int64)
    counts = np.array([batch.header.records_count for batch in found], dtype=np.int64)
    owners = np.repeat(np.arange(len(found)), counts)
    headers = _header_columns(found)
    if len(owners):
        fields, doubtful = _look(data, starts, stops, counts, owners, headers)
        again = np.flatnonzero(doubtful)
        if len(again):
            data, owners, fields = _look_again(
                buffer, data, group, again, (starts, stops), counts, owners, fields
            )
    else:
        fields = _Fields(*(_NONE for _ in range(6)))
        for index in np.flatnonzero(starts != stops):
            _check_empty(buffer, group, found[index])
    return Records(
        data,
        fields.offsets,
        fields.timestamps,
        fields.key_starts,
        fields.key_sizes,
        fields.value_starts,
        fields.value_sizes,
        headers["leader_epoch"][owners],
        headers["producer_id"][owners],
        headers["producer_epoch"][owners],
        headers["attributes"][owners],
        tuple(sorted(group.bad, key=lambda each: each.position)),
        group.end,
    )


def _check_empty(buffer: bytes, group: _Group, batch: _Batch) -> None:
    try:
        list(read_records(buffer, batch.position))
    except CorruptBatchError as error:
        group.bad.append(_bad(batch.header, batch.position, str(error)))


def _body(buffer: bytes, batch: _Batch) -> bytes:
    if batch.body is not None:
        return batch.body
    return buffer[batch.position + HEADER_SIZE : batch.position + batch.header.size_in_bytes]


def _header_columns(found: Sequence[_Batch]) -> dict[str, columns.Longs]:
    rows = [batch.header for batch in found]
    return {
        "base_offset": np.array([row.base_offset for row in rows], dtype=np.int64),
        "leader_epoch": np.array([row.partition_leader_epoch for row in rows], dtype=np.int64),
        "attributes": np.array([row.attributes for row in rows], dtype=np.int64),
        "last_delta": np.array([row.last_offset_delta for row in rows], dtype=np.int64),
        "base_timestamp": np.array([row.base_timestamp for row in rows], dtype=np.int64),
        "max_timestamp": np.array([row.max_timestamp for row in rows], dtype=np.int64),
        "producer_id": np.array([row.producer_id for row in rows], dtype=np.int64),
        "producer_epoch": np.array([row.producer_epoch for row in rows], dtype=np.int64),
    }


def _look(
    data: bytes,
    starts: columns.Longs,
    stops: columns.Longs,
    counts: columns.Longs,
    owners: columns.Longs,
    headers: dict[str, columns.Longs],
) -> tuple[_Fields, columns.Flags]:
    """Parse all records; returns the fields, and which batches have anything unusual."""
    view = columns.as_bytes(data)
    begins, ends, last_stops = _borders(data, starts, counts)
    # attributes, of which none are defined yet, take one byte
    time, at, strange = columns.varints(view, begins + 1, columns.MAX_VARLONG)
    delta, at, too_long = columns.varints(view, at)
    strange |= too_long
    key_size, key_start, too_long = columns.varints(view, at)
    strange |= too_long
    key_size = columns.zigzag(key_size)
    value_size, value_start, too_long = columns.varints(view, key_start + np.maximum(key_size, 0))
    strange |= too_long
    value_size = columns.zigzag(value_size)
    at = value_start + np.maximum(value_size, 0)
    # Nothing here goes backwards: what ends where the record does has been read within it, and a last byte
    # of 0 says that there are no headers.
    strange |= (at != ends - 1) | (view[np.minimum(at, len(view) - 1)] != 0)
    strange |= (key_size < -1) | (value_size < -1)
    delta = columns.zigzag(delta)
    strange |= (delta < 0) | (delta > headers["last_delta"][owners])
    strange |= (ends > stops[owners]) | (ends < begins)
    base, time = headers["base_timestamp"][owners], columns.zigzag(time)
    created = base + time
    offsets = headers["base_offset"][owners] + delta
    # a sum that does not fit 64 bits has wrapped around
    strange |= ((created < base) != (time < 0)) | (offsets < headers["base_offset"][owners])
    doubtful = last_stops != stops
    doubtful[owners[strange]] = True
    timestamps = np.where(
        headers["attributes"][owners] & LOG_APPEND_TIME, headers["max_timestamp"][owners], created
    )
    return _Fields(timestamps, offsets, key_start, key_size, value_start, value_size), doubtful


def _borders(
    data: bytes, starts: columns.Longs, counts: columns.Longs
) -> tuple[columns.Longs, columns.Longs, columns.Longs]:
    """Return where each record begins and ends, and where each batch's last record ends: in all batches at once, by lengths."""
    view = columns.as_bytes(data)
    bases = np.cumsum(counts) - counts
    total = int(counts.sum())
    begins = np.empty(total, dtype=np.int64)
    ends = np.empty(total, dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    sorted_counts = counts[order]
    at = starts[order].copy()
    step = 0
    size = len(data)
    while True:
        active = int(np.searchsorted(-sorted_counts, -step, side="left"))
        if active <= _FEW:
            break
        length, after, too_long = columns.varints(view, at[:active])
        slots = bases[order[:active]] + step
        stop = after + columns.zigzag(length)
        begins[slots] = after
        ends[slots] = np.where(too_long, _NOWHERE, stop)
        # wrong values stay within the buffer, and are found when the fields are compared
        at[:active] = np.clip(stop, after, np.maximum(after, size))
        step += 1
    for index in range(active):
        at[index] = _walk(
            data,
            int(at[index]),
            slice(int(bases[order[index]]) + step, int(bases[order[index]] + sorted_counts[index])),
            begins,
            ends,
        )
    last_stops = np.empty(len(counts), dtype=np.int64)
    last_stops[order] = at
    return begins, ends, last_stops


def _walk(data: bytes, at: int, slots: slice, begins: columns.Longs, ends: columns.Longs) -> int:
    first: list[int] = []
    last: list[int] = []
    size = len(data)
    for _ in range(slots.start, slots.stop):
        number = data[at] if at < size else _NO_LENGTH
        at += 1
        if number > 127:
            byte, shift = number, 0
            number = 0
            while byte > 127 and shift < 7 * (columns.MAX_VARINT - 1):
                number |= (byte & 127) << shift
                byte = data[at] if at < size else _NO_LENGTH
                at += 1
                shift += 7
            number = _NO_LENGTH if byte > 127 else number | byte << shift
        first.append(at)
        if number & 1:
            last.append(_NOWHERE)
        else:
            at += number >> 1
            last.append(at)
    begins[slots] = first
    ends[slots] = last
    return at


def _look_again(
    buffer: bytes,
    data: bytes,
    group: _Group,
    again: columns.Longs,
    bodies: tuple[columns.Longs, columns.Longs],
    counts: columns.Longs,
    owners: columns.Longs,
    fields: _Fields,
) -> tuple[bytes, columns.Longs, _Fields]:
    """Read the doubtful batches one record at a time, and insert their records in place, or leave the batches out."""
    starts, stops = bodies
    bases = np.cumsum(counts) - counts
    keep = np.ones(len(owners), dtype=np.bool_)
    parts: list[bytes] = []
    shifts = np.zeros(len(counts), dtype=np.int64)
    size, doubtful = 0, set(again.tolist())
    for index, batch in enumerate(group.batches):
        if index not in doubtful:
            part = data[int(starts[index]) : int(stops[index])]
            shifts[index] = size - starts[index]
        else:
            slots = slice(int(bases[index]), int(bases[index] + counts[index]))
            try:
                part = _place(buffer, batch, slots, fields)
            except CorruptBatchError as error:
                group.bad.append(_bad(batch.header, batch.position, str(error)))
                keep[slots] = False
                part = b""
            shifts[index] = size
        parts.append(part)
        size += len(part)
    fields.key_starts += shifts[owners]
    fields.value_starts += shifts[owners]
    return b"".join(parts), owners[keep], fields.take(keep)


def _place(buffer: bytes, batch: _Batch, slots: slice, fields: _Fields) -> bytes:
    parts: list[bytes] = []
    at = 0
    for slot, record in enumerate(read_records(buffer, batch.position), slots.start):
        if not -MAX_INT64 - 1 <= record.timestamp <= MAX_INT64:
            raise CorruptBatchError(
                f"the record at offset {record.offset} has the timestamp {record.timestamp}, which does not fit 64 bits"
            )
        fields.timestamps[slot] = record.timestamp
        fields.offsets[slot] = record.offset
        fields.key_starts[slot] = at
        fields.key_sizes[slot] = -1 if record.key is None else len(record.key)
        at += len(record.key or b"")
        fields.value_starts[slot] = at
        fields.value_sizes[slot] = -1 if record.value is None else len(record.value)
        at += len(record.value or b"")
        parts += (record.key or b"", record.value or b"")
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Chunk:
    records: Records
    position: int
    """Where the chunk starts in the file."""
    has_holes: bool = False
    """Whether records between these were damaged."""


def read_segment(
    file: ReadsBytes,
    *,
    first_offset: int = 0,
    chunk_bytes: int = CHUNK_BYTES,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[Chunk | Unread]:
    """Read a segment file from its start to its end.

    Never fails on the content of the file: parts that cannot be read become `Unread`, and reading continues with the
    next valid batch (see `BatchWalk`). The common case is a file that ends within a batch, because its broker still
    writes or was killed. Takes time in proportion to the size of the file, and memory for some chunks or for the
    longest batch, or for a damaged length that looks like one. `first_offset` is the least offset, as the file's name says.
    """
    walk = BatchWalk(first_offset, max_batch_bytes)
    for buffer, start, found in walk.pieces(file, chunk_bytes):
        for records in read_batches(buffer, found):
            yield Chunk(records, start, walk.has_unread or bool(records.bad))
        yield from walk.take_unread()
