"""Go through the batches of a segment, over damaged places as well: search behind each for the next valid batch."""

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from groupsdk.errors import DecodeError
from groupsdk.wire.records.batch import (
    COMPRESSION_MASK,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    CorruptBatchError,
    read_header,
    verify,
)


CHUNK_BYTES: Final = 4 * 1024 * 1024
"""How much of a file is read at once: a quarter of a megabyte takes twice the time, and more is no faster."""
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""A longer batch counts as a corrupt length: brokers reject batches far below it."""

_LEAST_LENGTH: Final = HEADER_SIZE - LENGTH_END
_LEAST_RECORD: Final = 7
_SEGMENT_OFFSETS: Final = 2**31  # an index has the offsets of a segment in 32 bits
_FARTHEST: Final = 2**40
_EARNED: Final = 8  # bytes of checksums that each byte of the file pays for
_ALWAYS: Final = 16 * 1024  # takes no longer than the header to check
_FIRST_BLOCK: Final = 64 * 1024
_LAST_BLOCK: Final = 1024 * 1024
_OLD_CRC: Final = slice(12, 16)
_START: Final = struct.Struct(">qi")
_COUNTS: Final = struct.Struct(">2xi30xi")
_COUNTS_POSITION: Final = 21
_POSSIBLE: Final = re.compile(
    rb"\x02.{4}"  # message format, checksum
    rb"\x00[\x00-\x04\x08-\x0c\x10-\x14\x18-\x1c\x20-\x24\x28-\x2c\x30-\x34\x38-\x3c"
    rb"\x40-\x44\x48-\x4c\x50-\x54\x58-\x5c\x60-\x64\x68-\x6c\x70-\x74\x78-\x7c]"  # one of five compressions
    rb"[\x00-\x7f].{11}"  # last offset delta, base timestamp
    rb"(?:[\x00-\x7f].{7}|\xff{8}){2}"  # latest timestamp, producer id
    rb"(?:[\x00-\x7f].|\xff{2})(?:[\x00-\x7f].{3}|\xff{4})"  # producer epoch, base sequence
    rb"[\x00-\x7f]",  # records count
    re.DOTALL,
)
"""The header of a batch from its message format on, where no field has a value that none can have."""


class ReadsBytes(Protocol):
    """Anything that bytes can be read from, such as an open file."""

    def read(self, size: int, /) -> bytes:
        """Read up to `size` bytes; none at the end."""
        ...


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

    def __init__(self, first_offset: int = 0, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
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

    def pieces(
        self, file: ReadsBytes, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[tuple[bytes, int, Iterator[FoundBatch]]]:
        """Read a segment file from its start to its end, piece by piece.

        Never fails on the content of the file. Takes time in proportion to its size, whatever it holds, and memory for
        some pieces or for the longest batch; a damaged length may pass for one.

        Yields:
            The bytes of the piece, where they start in the file, and the batches in them, all of which have to be taken
            before the next piece. Then `take_unread` says what could not be read.

        Raises:
            OSError: the file cannot be read.
        """
        # a header at least, which has the length of the batch
        chunk_bytes = max(chunk_bytes, HEADER_SIZE)
        buffer, start, at_end = b"", 0, False
        while not at_end:
            # half as much again of what is kept: copying takes time in proportion to the file
            wanted = max(chunk_bytes, self.wanted, len(buffer) * 3 // 2)
            buffer, at_end = _fill(file, buffer, wanted)
            yield buffer, start, self.batches(buffer, start, at_end=at_end)
            buffer = buffer[self.at :]
            start += self.at

    def batches(self, buffer: bytes, start: int, *, at_end: bool) -> Iterator[FoundBatch]:
        """Go through the next piece of the file.

        Args:
            buffer: the piece, which begins where `at` was in the one before.
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

    def _candidates(self, buffer: bytes, begin: int, end: int) -> Iterator[int]:
        """Go through the places where the header of a batch may start, whose fields are all possible."""
        magic = begin + MAGIC_POSITION
        while (match := _POSSIBLE.search(buffer, magic, end + HEADER_SIZE - 1)) is not None:
            magic = match.start() + 1
            place = match.start() - MAGIC_POSITION
            if place >= end:
                return
            base_offset, length = _START.unpack_from(buffer, place)
            delta, count = _COUNTS.unpack_from(buffer, place + _COUNTS_POSITION)
            if (
                self._certain <= base_offset <= self._certain + _SEGMENT_OFFSETS
                and _LEAST_LENGTH <= length <= self._max_batch_bytes - LENGTH_END
                and count <= delta + 1
                and (
                    buffer[place + _COUNTS_POSITION + 1] & COMPRESSION_MASK
                    or count * _LEAST_RECORD <= length - _LEAST_LENGTH
                )
            ):
                yield place

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


def _fill(file: ReadsBytes, buffer: bytes, wanted: int) -> tuple[bytes, bool]:
    """Read until the buffer has as many bytes as wanted; returns it, and whether the file has ended."""
    pieces, size = [buffer], len(buffer)
    while size < wanted:
        piece = file.read(wanted - size)
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), False
