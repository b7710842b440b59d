"""Read the segment files of a partition piece by piece, with the reason for each part that cannot be read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from groupsdk.history.kernel.batch_walk import BatchWalk, Unread
from groupsdk.history.kernel.batches import Records, read_batches
from groupsdk.wire.records.batch import HEADER_SIZE


CHUNK_BYTES: Final = 4 * 1024 * 1024
"""How much of a file is read at once: a quarter of a megabyte takes twice the time, and more is no faster."""
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
"""A longer batch counts as a corrupt length: brokers reject batches far below it."""


class ReadsBytes(Protocol):
    """Anything that bytes can be read from, such as an open file."""

    def read(self, size: int, /) -> bytes:
        """Read up to `size` bytes; none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of a segment."""

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

    Never fails on the content of the file: what cannot be read comes out as `Unread`, and the reading goes on with
    the next valid batch (see `BatchWalk`). A file that ends within a batch is the common case of it: that of a log
    whose broker still writes, or was killed. Takes time in proportion to the size of the file, whatever it holds,
    and memory for some chunks or for the longest batch; a damaged length may pass for one.

    Args:
        file: opened for reading bytes.
        first_offset: the least offset of the file, as its name says.
        chunk_bytes: how much to read at once.
        max_batch_bytes: how long a batch may be; what says to be longer is not read.

    Raises:
        OSError: the file cannot be read.
    """
    walk = BatchWalk(first_offset, max_batch_bytes)
    # a header at least, which has the length of the batch
    chunk_bytes = max(chunk_bytes, HEADER_SIZE)
    buffer, start, at_end = b"", 0, False
    while not at_end:
        # half as much again of what is kept: copying takes time in proportion to the file
        wanted = max(chunk_bytes, walk.wanted, len(buffer) * 3 // 2)
        buffer, at_end = _fill(file, buffer, wanted)
        for records in read_batches(buffer, walk.batches(buffer, start, at_end=at_end)):
            yield Chunk(records, start, walk.has_unread or bool(records.bad))
        yield from walk.take_unread()
        buffer = buffer[walk.at :]
        start += walk.at


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
