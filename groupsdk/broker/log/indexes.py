"""The indexes of a segment: by offset, by time, and of aborted transactions."""

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


_OFFSET_ENTRY: Final = struct.Struct(">ii")
OFFSET_ENTRY_SIZE: Final = _OFFSET_ENTRY.size
_TIME_ENTRY: Final = struct.Struct(">qi")
_TXN_ENTRY: Final = struct.Struct(">hqqqq")
_TXN_VERSION: Final = 0


class CorruptIndexError(ValueError):
    """An index file is corrupt; it can be rebuilt from the log."""


def _entries(data: bytes, layout: struct.Struct) -> Iterator[tuple[int, ...]]:
    if len(data) % layout.size:
        raise CorruptIndexError(
            f"the size of {len(data)} bytes is not a multiple of {layout.size}, the size of an entry"
        )
    return layout.iter_unpack(data)


class OffsetIndex:
    """The positions of offsets in a segment, in memory, ascending (Kafka: OffsetIndex, the .index file).

    Sparse: one entry every index.interval.bytes. An entry takes eight bytes: the *last* offset of a batch, relative
    to the segment's base offset, and the batch's position in the .log file.
    """

    __slots__ = ("_base_offset", "_positions", "offsets")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self.offsets = array("q")
        """The last offsets of the batches with an entry, ascending; not to be changed from outside."""
        self._positions = array("i")

    def append(self, offset: int, position: int) -> None:
        """Add an entry, whose offset and position must be above the last one's."""
        self.offsets.append(offset)
        self._positions.append(position)

    def clear(self) -> None:
        """Drop all entries."""
        self.offsets = array("q")
        self._positions = array("i")

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry at or below an offset as (offset, position); (-1, 0) if there is none."""
        found = bisect_right(self.offsets, offset) - 1
        return (self.offsets[found], self._positions[found]) if found >= 0 else (-1, 0)

    def before(self, position: int) -> int:
        """Return the position of the last entry before a byte position; 0 if there is none."""
        found = bisect_left(self._positions, position) - 1
        return self._positions[found] if found >= 0 else 0

    def offset_behind(self, position: int) -> int | None:
        """Return the offset of the first entry at or after a byte position; None if there is none."""
        found = bisect_left(self._positions, position)
        return self.offsets[found] if found < len(self.offsets) else None

    def encode(self) -> bytes:
        """Return the content of the .index file."""
        base = self._base_offset
        pairs = zip(self.offsets, self._positions, strict=True)
        return b"".join(_OFFSET_ENTRY.pack(offset - base, position) for offset, position in pairs)

    @classmethod
    def decode(cls, data: bytes, base_offset: int, log_size: int) -> "OffsetIndex":
        """Decode an .index file; trailing zeros, which a killed Kafka leaves, are not entries."""
        index = cls(base_offset)
        last_offset = last_position = -1
        for number, (delta, position) in enumerate(_entries(data, _OFFSET_ENTRY)):
            if number and delta == 0 and position == 0:
                break
            if delta <= last_offset or not last_position < position < log_size:
                raise CorruptIndexError(
                    f"entry {number} (offset {base_offset + delta}, position {position}) does not follow"
                    f" ({base_offset + last_offset}, {last_position}) in a log of {log_size} bytes"
                )
            index.append(base_offset + delta, position)
            last_offset, last_position = delta, position
        return index


class TimeIndex:
    """The offset from which a segment has records as late as a timestamp (Kafka: TimeIndex, the .timeindex file).

    An entry means that no record up to its offset has a later timestamp. It takes twelve bytes: the timestamp, and
    the offset relative to the segment's base offset.
    """

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("q")

    @property
    def last(self) -> tuple[int, int]:
        """The last entry as (timestamp, offset); (-1, base offset of the segment) if there is none."""
        if not self._offsets:
            return -1, self._base_offset
        return self._timestamps[-1], self._offsets[-1]

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry, unless its timestamp is at or below the last one."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(offset)

    def clear(self) -> None:
        """Drop all entries."""
        self._timestamps = array("q")
        self._offsets = array("q")

    def lookup(self, timestamp: int) -> int:
        """Return an offset before which no record has this timestamp (in milliseconds) or a later one."""
        found = bisect_right(self._timestamps, timestamp - 1) - 1
        return self._offsets[found] if found >= 0 else self._base_offset

    def encode(self) -> bytes:
        """Return the content of the .timeindex file."""
        base = self._base_offset
        pairs = zip(self._timestamps, self._offsets, strict=True)
        return b"".join(_TIME_ENTRY.pack(timestamp, offset - base) for timestamp, offset in pairs)

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TimeIndex":
        """Decode a .timeindex file; trailing zeros, which a killed Kafka leaves, are not entries."""
        index = cls(base_offset)
        last_timestamp, last_offset = -(2**63), -1
        for number, (timestamp, delta) in enumerate(_entries(data, _TIME_ENTRY)):
            if number and delta == 0 and timestamp == 0:
                break
            if timestamp <= last_timestamp or delta < max(last_offset, 0):
                raise CorruptIndexError(
                    f"entry {number} (timestamp {timestamp}, offset {base_offset + delta}) does not follow"
                    f" ({last_timestamp}, {base_offset + last_offset})"
                )
            index.maybe_append(timestamp, base_offset + delta)
            last_timestamp, last_offset = timestamp, delta
        return index


class AbortedTxn(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the abort marker."""
    last_stable_offset: int
    """The last stable offset once the marker was written; later entries only affect offsets at or above it."""

    def encode(self) -> bytes:
        """Return the entry as stored in the file."""
        return _TXN_ENTRY.pack(_TXN_VERSION, *self)


class TxnIndex:
    """The aborted transactions of a segment, ascending by the offset of their markers (Kafka: TransactionIndex).

    A transaction is in the .txnindex file of the segment that contains its marker. An entry takes 34 bytes: version
    0, producer id, first offset, last offset (the marker's), and the last stable offset after it.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[AbortedTxn] = ()) -> None:
        self._entries = list(entries)

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry, whose marker must come after all others."""
        self._entries.append(entry)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries = []

    def collect(self, start: int, end: int, found: list[AbortedTxn]) -> bool:
        """Add the transactions that overlap offsets from `start` to before `end`; return whether the search is over."""
        for entry in self._entries:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return True
        return False

    def encode(self) -> bytes:
        """Return the content of the .txnindex file."""
        return b"".join(entry.encode() for entry in self._entries)

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TxnIndex":
        """Decode a .txnindex file."""
        entries = []
        last = base_offset - 1
        for number, (version, *values) in enumerate(_entries(data, _TXN_ENTRY)):
            entry = AbortedTxn._make(values)
            if version != _TXN_VERSION:
                raise CorruptIndexError(
                    f"entry {number} has the unsupported version {version}; only {_TXN_VERSION} is supported"
                )
            if entry.last_offset <= last or entry.first_offset > entry.last_offset:
                raise CorruptIndexError(f"entry {number}, {entry}, cannot follow the offset {last}")
            last = entry.last_offset
            entries.append(entry)
        return cls(entries)
