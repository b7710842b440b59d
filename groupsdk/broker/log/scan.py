"""Iterate over the batches of a segment file, validating each."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from groupsdk.broker.log.errors import CorruptLogError, storage_error
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.errors import DecodeError
from groupsdk.limits import MAX_INT32
from groupsdk.wire.records.batch import HEADER_SIZE, LENGTH_END, BatchHeader, read_header, verify


CHUNK_BYTES: Final = 256 * 1024
"""How many bytes are read at once; a larger batch is read as a whole."""


PEEK: Final = struct.Struct(">qi11xi")
"""Base offset, length and last offset delta of a batch: enough to find the next batch."""
_WALK_BYTES: Final = 8192


class Stored(NamedTuple):
    """A batch of a segment file."""

    header: BatchHeader
    position: int
    data: bytes
    """A chunk of the file that contains the batch."""
    at: int
    """The position of the batch in `data`."""

    @property
    def batch(self) -> bytes:
        return self.data[self.at : self.at + self.header.size_in_bytes]


def corrupt(path: str, position: int, problem: object) -> CorruptLogError:
    return CorruptLogError(f"{path}: at byte {position}: {problem}")


def read_file(files: Files, path: str, position: int, size: int) -> bytes:
    """Read up to `size` bytes of a file from a byte position; fewer at its end."""
    try:
        return files.read(path, position, size)
    except OSError as error:
        raise storage_error(f"reading at byte {position}", path, error) from error


def scan(
    files: Files,
    path: str,
    size: int,
    *,
    start: int = 0,
    lowest_offset: int = 0,
    gaps: bool = True,
    epochs: LeaderEpochs | None = None,
) -> Iterator[Stored]:
    """Iterate over the batches of a segment file, verifying the checksum of each.

    The checksum covers neither offset nor leader epoch, so offsets must ascend, and the epoch must be the one
    known for the offset. Raises CorruptLogError if a batch is corrupt, or the file ends within it; all batches
    before it were yielded.
    """
    position, lowest, wanted = start, lowest_offset, CHUNK_BYTES
    while position < size:
        data = read_file(files, path, position, min(wanted, size - position))
        at, end = 0, len(data)
        wanted = CHUNK_BYTES
        while end - at >= HEADER_SIZE:
            # runs for every batch when recovering from a crash, so it makes few calls
            try:
                header = read_header(data, at)
                stop = at + LENGTH_END + header.batch_length
                if stop > end:
                    _check_size(header, size - position - at)
                    wanted = max(CHUNK_BYTES, stop - at)
                    break
                verify(data, header, at)
            except DecodeError as error:
                raise corrupt(path, position + at, error) from error
            if header.base_offset != lowest:
                _check_offset(header, path, position + at, lowest, gaps)
            if epochs is not None:
                _check_epoch(header, path, position + at, epochs)
            yield Stored(header, position + at, data, at)
            lowest = header.base_offset + header.last_offset_delta + 1
            at = stop
        if at == 0 and (end < HEADER_SIZE or wanted <= end):
            raise corrupt(
                path, position, f"incomplete batch: the file ends after {end} of its bytes"
            )
        position += at


def walk(files: Files, path: str, size: int, position: int, offset: int) -> tuple[int, int]:
    """Return position and size of the first batch that ends at or above an offset, reading headers from `position` on.

    `size` and 0 if there is none.
    """
    while position < size:
        data = read_file(files, path, position, min(_WALK_BYTES, size - position))
        at, last = 0, len(data) - PEEK.size
        while at <= last:
            base, length, delta = PEEK.unpack_from(data, at)
            if length < HEADER_SIZE - LENGTH_END:
                raise corrupt(path, position + at, f"invalid batch length {length}")
            if base + delta >= offset:
                return position + at, LENGTH_END + length
            at += LENGTH_END + length
        if at == 0:
            raise corrupt(
                path, position, f"incomplete batch: the file ends after {len(data)} of its bytes"
            )
        position += at
    return size, 0


def _check_size(header: BatchHeader, left: int) -> None:
    if header.size_in_bytes > left:
        raise DecodeError(f"incomplete batch: {left} of {header.size_in_bytes} bytes are there")


def _check_offset(header: BatchHeader, path: str, position: int, lowest: int, gaps: bool) -> None:
    offset = header.base_offset
    if offset < lowest or (offset > lowest and not gaps) or offset - lowest > MAX_INT32:
        raise corrupt(path, position, f"offset {offset} does not follow offset {lowest - 1}")


def _check_epoch(header: BatchHeader, path: str, position: int, epochs: LeaderEpochs) -> None:
    epoch, offset = header.partition_leader_epoch, header.base_offset
    if not epochs.agree(epoch, offset):
        raise corrupt(
            path,
            position,
            f"the batch at offset {offset} has the leader epoch {epoch}, but leader-epoch-checkpoint has"
            f" {epochs.epoch_at(offset)}",
        )
