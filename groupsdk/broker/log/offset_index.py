"""Look up the position of an offset in a segment (Kafka: OffsetIndex, the .index file).

Sparse: one entry every index.interval.bytes. An entry takes eight bytes: the *last* offset of a batch, relative
to the segment's base offset, and the batch's position in the .log file.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final


ENTRY_SIZE: Final = 8
_ENTRY: Final = struct.Struct(">ii")


class CorruptIndexError(ValueError):
    """An index file is corrupt; it can be rebuilt from the log."""


class OffsetIndex:
    """The index entries of one segment in memory, ascending in offset and position."""

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

    def truncate(self, offset: int) -> None:
        """Drop the entries at or above an offset."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:]
        del self._positions[keep:]

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
        return b"".join(_ENTRY.pack(offset - base, position) for offset, position in pairs)

    @classmethod
    def decode(cls, data: bytes, base_offset: int, log_size: int) -> "OffsetIndex":
        """Decode an .index file; trailing zeros, which a killed Kafka leaves, are not entries.

        Raises:
            CorruptIndexError: the entries do not ascend, or point past the end of the log.
        """
        index = cls(base_offset)
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(
                f"the size of {len(data)} bytes is not a multiple of {ENTRY_SIZE}, the size of an entry"
            )
        last_offset = last_position = -1
        for number, (delta, position) in enumerate(_ENTRY.iter_unpack(data)):
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
