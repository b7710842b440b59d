"""Remember the aborted transactions of a segment (Kafka: TransactionIndex, the .txnindex file).

A transaction stands in the index of the segment that has its marker. Each entry takes 34 bytes: version 0,
producer id, first offset, last offset (the marker's), and the last stable offset after it.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from groupsdk.broker.log.offset_index import CorruptIndexError


ENTRY_SIZE: Final = 34
_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTxn(NamedTuple):
    """A transaction that was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the abort marker."""
    last_stable_offset: int
    """The last stable offset once the marker was written: no entry behind concerns what is below."""

    def encode(self) -> bytes:
        """Write the entry."""
        return _ENTRY.pack(_VERSION, *self)


class TxnIndex:
    """Hold the aborted transactions of one segment in memory, ascending in their markers' offsets."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[AbortedTxn] = ()) -> None:
        self._entries = list(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[AbortedTxn]:
        """All of them."""
        return self._entries

    def append(self, entry: AbortedTxn) -> None:
        """Add one; its marker is behind those of all others."""
        self._entries.append(entry)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries = []

    def collect(self, start: int, end: int, found: list[AbortedTxn]) -> bool:
        """Add to `found` what overlaps the offsets from `start` to before `end`.

        Returns:
            Whether no later segment's index can have more.
        """
        for entry in self._entries:
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return True
        return False

    def encode(self) -> bytes:
        """Write the file."""
        return b"".join(entry.encode() for entry in self._entries)

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> "TxnIndex":
        """Read a file.

        Raises:
            CorruptIndexError: it has entries that cannot be this segment's.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(f"{len(data)} bytes is not a multiple of {ENTRY_SIZE}")
        entries = []
        last = base_offset - 1
        for number, (version, *values) in enumerate(_ENTRY.iter_unpack(data)):
            entry = AbortedTxn._make(values)
            if version != _VERSION:
                raise CorruptIndexError(f"entry {number} has the version {version}, not {_VERSION}")
            if entry.last_offset <= last or entry.first_offset > entry.last_offset:
                raise CorruptIndexError(f"entry {number}, {entry}, cannot follow the offset {last}")
            last = entry.last_offset
            entries.append(entry)
        return cls(entries)
