"""The aborted transactions of a segment (Kafka: TransactionIndex, the .txnindex file).

A transaction is in the index of the segment that contains its marker. An entry takes 34 bytes: version 0,
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
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    """The offset of its first record."""
    last_offset: int
    """The offset of the abort marker."""
    last_stable_offset: int
    """The last stable offset once the marker was written; later entries only affect offsets at or above it."""

    def encode(self) -> bytes:
        """Return the entry as stored in the file."""
        return _ENTRY.pack(_VERSION, *self)


class TxnIndex:
    """The aborted transactions of one segment in memory, ascending by the offset of their markers."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[AbortedTxn] = ()) -> None:
        self._entries = list(entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[AbortedTxn]:
        """All entries; read-only for callers."""
        return self._entries

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry, whose marker must come after all others."""
        self._entries.append(entry)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries = []

    def collect(self, start: int, end: int, found: list[AbortedTxn]) -> bool:
        """Add the transactions that overlap the offsets from `start` to before `end`.

        Return whether later segments can be skipped.
        """
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
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(
                f"the size of {len(data)} bytes is not a multiple of {ENTRY_SIZE}, the size of an entry"
            )
        entries = []
        last = base_offset - 1
        for number, (version, *values) in enumerate(_ENTRY.iter_unpack(data)):
            entry = AbortedTxn._make(values)
            if version != _VERSION:
                raise CorruptIndexError(
                    f"entry {number} has the unsupported version {version}; only {_VERSION} is supported"
                )
            if entry.last_offset <= last or entry.first_offset > entry.last_offset:
                raise CorruptIndexError(f"entry {number}, {entry}, cannot follow the offset {last}")
            last = entry.last_offset
            entries.append(entry)
        return cls(entries)
