"""Find the offset from which a segment has records as late as a timestamp (Kafka: TimeIndex, the .timeindex file).

An entry means that no record up to its offset has a later timestamp. It takes twelve bytes: the timestamp, and
the offset relative to the segment's base offset.
"""

import struct
from array import array
from bisect import bisect_right
from typing import Final

from groupsdk.broker.log.offset_index import CorruptIndexError


ENTRY_SIZE: Final = 12
_ENTRY: Final = struct.Struct(">qi")


class TimeIndex:
    """The time index entries of one segment in memory, ascending in timestamp and offset."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("q")

    def __len__(self) -> int:
        return len(self._offsets)

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

    def truncate(self, offset: int) -> None:
        """Drop the entries at or above an offset."""
        while self._offsets and self._offsets[-1] >= offset:
            self._offsets.pop()
            self._timestamps.pop()

    def lookup(self, timestamp: int) -> int:
        """Return an offset before which no record has this timestamp (in milliseconds) or a later one.

        Returns the segment's base offset if no entry is earlier.
        """
        found = bisect_right(self._timestamps, timestamp - 1) - 1
        return self._offsets[found] if found >= 0 else self._base_offset

    def encode(self) -> bytes:
        """Return the content of the .timeindex file."""
        base = self._base_offset
        pairs = zip(self._timestamps, self._offsets, strict=True)
        return b"".join(_ENTRY.pack(timestamp, offset - base) for timestamp, offset in pairs)

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TimeIndex":
        """Decode a .timeindex file; trailing zeros, which a killed Kafka leaves, are not entries."""
        index = cls(base_offset)
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(
                f"the size of {len(data)} bytes is not a multiple of {ENTRY_SIZE}, the size of an entry"
            )
        last_timestamp, last_offset = -(2**63), -1
        for number, (timestamp, delta) in enumerate(_ENTRY.iter_unpack(data)):
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
