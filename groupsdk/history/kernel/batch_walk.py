"""Go through the batches of a segment, over damaged places as well: search behind each for the next valid batch."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from groupsdk.errors import DecodeError
from groupsdk.history.kernel.columns import as_bytes, big_endian
from groupsdk.wire.records.batch import (
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    CorruptBatchError,
    read_header,
    verify,
)


_LEAST_LENGTH: Final = HEADER_SIZE - LENGTH_END
_LEAST_RECORD: Final = 7
_COMPRESSIONS: Final = 5
_DEFINED_ATTRIBUTES: Final = 0x7F
_SEGMENT_OFFSETS: Final = 2**31  # an index has the offsets of a segment in 32 bits
_FARTHEST: Final = 2**40
_EARNED: Final = 8  # bytes of checksums that each byte of the file pays for
_ALWAYS: Final = 16 * 1024  # takes no longer than the header to check
_FIRST_BLOCK: Final = 64 * 1024
_LAST_BLOCK: Final = 1024 * 1024
_OLD_CRC: Final = slice(12, 16)


class FoundBatch(NamedTuple):
    """A batch whose length can be believed."""

    header: BatchHeader
    position: int
    """Where it starts in the buffer."""
    error: str | None = None
    """Why its records cannot be read; None if they can."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a segment without readable batches."""

    position: int
    """Where it starts in the file."""
    size: int
    """How many bytes it has."""
    reason: str
    first_offset: int
    """The least offset that may be missing."""
    lost: int = 0
    """How many offsets are missing; 0 if that is unknown."""


@dataclass(slots=True)
class _Stretch:
    """A damaged stretch whose end has not been found."""

    position: int
    fault: "_Fault"
    first_offset: int
    only_zeros: bool = True


@dataclass(frozen=True, slots=True)
class _Fault:
    """Why no batch can be read at a place."""

    text: str
    at_end: str | None = None
    """What is said in its place if nothing can be read up to the end of the file."""
    records: int = 0
    """How many records are lost in that case; 0 if that is unknown."""


class BatchWalk:
    """The state of going through one file, in pieces.

    A batch ends where its length says only if a valid batch follows there, or the end of the file: otherwise the length may be
    damaged, and the next byte from which a whole batch with the right checksum starts is where it goes on. An attacker can
    write many headers with long lengths, each of which would have to be checked, so checksums of what turns out to be damaged
    are paid for: with some bytes at the start of the file, and with eight for each byte that was passed.

    Args:
        first_offset: no batch of the file has a lower offset.
        max_batch_bytes: a longer batch counts as a damaged length.
    """

    def __init__(self, first_offset: int, max_batch_bytes: int) -> None:
        self.at = 0
        """Where the next piece has to begin, in the last one."""
        self.wanted = 0
        """How many bytes the next piece has to have, unless the file ends."""
        self._max_batch_bytes = max_batch_bytes
        self._expected = first_offset
        self._certain = first_offset  # what no batch behind this place is below, for sure
        self._has_read = False
        self._allowance = max_batch_bytes
        self._stretch: _Stretch | None = None
        self._unread: list[Unread] = []
        self._next: tuple[int, BatchHeader | None] = (-1, None)

    @property
    def has_unread(self) -> bool:
        """Whether a stretch has ended since the last call of `take_unread`."""
        return bool(self._unread)

    def take_unread(self) -> list[Unread]:
        """Return the stretches that ended since the last call."""
        found, self._unread = self._unread, []
        return found

    def batches(self, buffer: bytes, start: int, *, at_end: bool) -> Iterator[FoundBatch]:
        """Go through the next piece of the file.

        Args:
            buffer: the piece, which begins where `at` was in the one before.
            start: where it starts in the file.
            at_end: the file ends with it; otherwise `at` and `wanted` say what the next piece has to be.
        """
        self.at = self.wanted = 0
        self._next = (-1, None)
        while self.at < len(buffer):
            if self._stretch is not None:
                if not self._find(buffer, start, at_end=at_end):
                    return
                self._next = (-1, None)
            found = self._step(buffer, self.at, at_end=at_end)
            if isinstance(found, int):
                self.wanted = found
                return
            if isinstance(found, FoundBatch):
                self.at += found.header.size_in_bytes
                yield found
                continue
            self._stretch = _Stretch(start + self.at, found, self._expected)
            # the first byte is not where a batch starts
            self._pass(buffer, self.at + 1)
        if at_end and self._stretch is not None:
            self._close(start + len(buffer), None)

    def _step(self, buffer: bytes, position: int, *, at_end: bool) -> FoundBatch | _Fault | int:
        """Read one batch; returns how many bytes are needed from `position` on if they are not there."""
        left = len(buffer) - position
        if left < HEADER_SIZE:
            if not at_end:
                return HEADER_SIZE
            return _Fault(f"{left} bytes, which are too few for a batch", _torn(left))
        header = self._next[1] if self._next[0] == position else _header(buffer, position)
        if header is None:
            return self._wrong_header(buffer, position)
        size = header.size_in_bytes
        if size > self._max_batch_bytes:
            return _Fault(
                f"a batch of {size} bytes is larger than the limit of {self._max_batch_bytes}: its length is damaged"
            )
        if size > left and at_end:
            text = (
                f"a batch of {size} bytes, where {left} are left in the file: its length is damaged"
            )
            return _Fault(text, _torn(left))
        if size > self._affordable():
            return _Fault(f"a batch of {size} bytes after much that was damaged")
        # one byte more than the header of the next batch would not change anything
        if left < size + HEADER_SIZE and not at_end:
            return size + HEADER_SIZE
        following = _header(buffer, position + size)
        self._next = (position + size, following)
        if following is not None and following.size_in_bytes > self._max_batch_bytes:
            following = None
        try:
            verify(buffer, header, position)
        except CorruptBatchError:
            return self._damaged(buffer, header, position, following)
        self._allowance += _EARNED * size
        return self._ordered(header, position, following)

    def _affordable(self) -> int:
        """Return how many bytes a batch may have whose checksum may turn out to be wrong."""
        return max(self._allowance, _ALWAYS)

    def _damaged(
        self, buffer: bytes, header: BatchHeader, position: int, following: BatchHeader | None
    ) -> FoundBatch | _Fault:
        """Tell whether only the batch's own records are damaged, or perhaps its length."""
        size = header.size_in_bytes
        self._allowance -= size
        text = f"the batch with the base offset {header.base_offset} has a wrong checksum"
        if following is None or not self._follows(header, following):
            fault = (
                f"a batch of {size} bytes with the base offset {header.base_offset} has a wrong checksum,"
                " and no batch follows it: its length may be damaged"
            )
            if position + size == len(buffer):
                return _Fault(fault, text, min(header.records_count, header.last_offset_delta + 1))
            return _Fault(fault)
        # its own counts may be what is damaged
        between = following.base_offset - header.base_offset
        header = header._replace(records_count=min(header.records_count, between))
        self._expected = max(self._expected, min(header.last_offset + 1, following.base_offset))
        return FoundBatch(header, position, text)

    def _follows(self, header: BatchHeader, following: BatchHeader) -> bool:
        least = max(self._certain, header.base_offset + 1)
        return least <= following.base_offset <= least + _SEGMENT_OFFSETS

    def _ordered(
        self, header: BatchHeader, position: int, following: BatchHeader | None
    ) -> FoundBatch:
        """Check the base offset, which the checksum does not cover, against the batches before and behind."""
        first, last = header.base_offset, header.last_offset
        after = None if following is None else following.base_offset
        if first < self._certain:
            # if the next one is low as well it was a batch before these whose offset is damaged, or the file's name
            wrong = self._has_read if after is None else after >= self._certain and after > last
        elif after is None:
            wrong = first > self._expected + _FARTHEST
        else:
            wrong = first > self._expected and self._expected <= after <= last
        if wrong or first < 0:
            text = f"the base offset {first} is damaged: {self._expected} or a little more would be in order"
            return FoundBatch(header, position, text)
        if first == self._expected or (after is not None and after > last):
            self._certain = last + 1
        self._expected = last + 1
        self._has_read = True
        return FoundBatch(header, position)

    def _wrong_header(self, buffer: bytes, position: int) -> _Fault:
        magic = buffer[position + MAGIC_POSITION]
        length = int.from_bytes(buffer[position + 8 : position + LENGTH_END], signed=True)
        if magic in (0, 1) and self._is_old_message(buffer, position, length):
            return _Fault(
                f"messages of the format {magic}, which Kafka wrote before 0.11 and is not read here"
            )
        if magic != MAGIC:
            return _Fault(f"no header of a batch: {magic} where the message format {MAGIC} is due")
        if length < _LEAST_LENGTH:
            return _Fault(
                f"a batch of the length {length}, where its header alone takes {_LEAST_LENGTH}"
            )
        return _Fault("a header that counts fewer than no records")

    def _is_old_message(self, buffer: bytes, position: int, length: int) -> bool:
        """Tell whether a whole message of the formats 0 and 1 starts there (Kafka: LegacyRecord)."""
        if not MAGIC_POSITION - LENGTH_END < length <= self._affordable():
            return False
        body = buffer[position + MAGIC_POSITION : position + LENGTH_END + length]
        self._allowance -= len(body)
        stored = buffer[position + _OLD_CRC.start : position + _OLD_CRC.stop]
        return zlib.crc32(body) == int.from_bytes(stored)

    def _find(self, buffer: bytes, start: int, *, at_end: bool) -> bool:
        """Search for the end of the stretch; returns whether it was found."""
        stop = len(buffer) - HEADER_SIZE + 1
        block = _FIRST_BLOCK
        while self.at < stop:
            until = min(self.at + block, stop)
            for candidate in self._candidates(buffer, self.at, until):
                header = read_header(buffer, candidate)
                size = header.size_in_bytes
                if size > self._affordable():
                    continue
                if candidate + size > len(buffer):
                    if at_end:
                        continue
                    self._pass(buffer, candidate)
                    self.wanted = size
                    return False
                try:
                    verify(buffer, header, candidate)
                except CorruptBatchError:
                    self._allowance -= size
                    continue
                self._pass(buffer, candidate)
                self._close(start + candidate, header.base_offset)
                return True
            self._pass(buffer, until)
            block = min(2 * block, _LAST_BLOCK)
        if at_end:
            self._pass(buffer, len(buffer))
            self._close(start + len(buffer), None)
        return False

    def _pass(self, buffer: bytes, until: int) -> None:
        """Leave bytes of the stretch behind."""
        stretch = self._stretch
        if stretch is not None and stretch.only_zeros:
            stretch.only_zeros = buffer.count(0, self.at, until) == until - self.at
        self._allowance += _EARNED * (until - self.at)
        self.at = until

    def _candidates(self, buffer: bytes, begin: int, end: int) -> list[int]:
        """Return the places where the header of a batch may start, whose fields are all possible."""
        magic = as_bytes(buffer)[begin + MAGIC_POSITION : end + MAGIC_POSITION]
        places = begin + np.flatnonzero(magic == MAGIC)
        offsets = big_endian(buffer, "i8", places)
        last = min(self._certain + _SEGMENT_OFFSETS, 2**63 - 1)
        places = places[(offsets >= self._certain) & (offsets <= last)]
        lengths = big_endian(buffer, "i4", places + 8)
        attributes = big_endian(buffer, "i2", places + 21)
        deltas = big_endian(buffer, "i4", places + 23)
        counts = big_endian(buffer, "i4", places + 57)
        codecs = attributes & 7
        possible = (lengths >= _LEAST_LENGTH) & (lengths <= self._max_batch_bytes - LENGTH_END)
        possible &= (attributes & ~_DEFINED_ATTRIBUTES == 0) & (codecs < _COMPRESSIONS)
        possible &= (counts >= 0) & (deltas >= 0) & (counts <= deltas + 1)
        possible &= (codecs != 0) | (counts * _LEAST_RECORD <= lengths - _LEAST_LENGTH)
        for kind, place in (("i8", 43), ("i2", 51), ("i4", 53)):
            possible &= big_endian(buffer, kind, places + place) >= -1
        found: list[int] = places[possible].tolist()
        return found

    def _close(self, end: int, next_offset: int | None) -> None:
        """Note the stretch, which ends at a place in the file, with a batch or with the file."""
        stretch, self._stretch = self._stretch, None
        assert stretch is not None
        size = end - stretch.position
        if next_offset is None and stretch.only_zeros:
            return  # room that was made in advance
        fault = f"{size} zero bytes" if stretch.only_zeros else stretch.fault.text
        text = f"bytes {stretch.position} to {end - 1} hold no batch that can be read: {fault}"
        lost = 0
        if next_offset is None:
            text = stretch.fault.at_end or text
            lost = stretch.fault.records
        elif next_offset > stretch.first_offset:
            lost = next_offset - stretch.first_offset
            text += f"; the offsets {stretch.first_offset} to {next_offset - 1} are missing"
        self._unread.append(Unread(stretch.position, size, text, stretch.first_offset, lost))


def _torn(left: int) -> str:
    return f"the file ends within a batch, of which {left} bytes are there"


def _header(buffer: bytes, position: int) -> BatchHeader | None:
    try:
        return read_header(buffer, position)
    except DecodeError:
        return None
