"""Read the segment files of a partition piece by piece, with the reason for each part that cannot be read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from groupsdk.errors import DecodeError
from groupsdk.history.kernel.batches import Records, read_batches
from groupsdk.wire.records.batch import HEADER_SIZE, LENGTH_END


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


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a segment without readable batches."""

    position: int
    """Where it starts in the file."""
    size: int
    """How many bytes of it were examined; the file may have more."""
    reason: str


def read_segment(
    file: ReadsBytes, *, chunk_bytes: int = CHUNK_BYTES, max_batch_bytes: int = MAX_BATCH_BYTES
) -> Iterator[Chunk | Unread]:
    """Read a segment file from its start to its end.

    Never fails on what stands in the file: what cannot be read comes out as `Unread`, and ends the reading,
    as nothing says where the next batch would start. A file that ends within a batch is the common case of
    it: that of a log whose broker still writes, or was killed.

    Args:
        file: opened for reading bytes.
        chunk_bytes: how much to read at once.
        max_batch_bytes: how long a batch may be; what says to be longer is not read.

    Raises:
        OSError: the file cannot be read.
    """
    buffer = b""
    start = 0
    # a header at least, which has the length of the batch
    chunk_bytes = max(chunk_bytes, HEADER_SIZE)
    wanted = chunk_bytes
    while True:
        piece = file.read(wanted - len(buffer))
        buffer += piece
        if not piece:
            if buffer:
                yield from _tail(buffer, start)
            return
        if len(buffer) < LENGTH_END:
            continue
        end = 0
        try:
            for records in read_batches(buffer):
                end = records.end
                yield Chunk(records, start)
        except DecodeError as error:
            yield from _broken(buffer[end:], start + end, error)
            return
        start += end
        buffer = buffer[end:]
        wanted = _wanted(buffer, chunk_bytes)
        if wanted > max_batch_bytes:
            yield Unread(
                start,
                len(buffer),
                f"a batch of {wanted} bytes, where {max_batch_bytes} are the limit:"
                " its length is damaged, or this is no segment",
            )
            return


def _wanted(buffer: bytes, chunk_bytes: int) -> int:
    """Return how many bytes the next step needs in the buffer: a chunk, or a longer batch."""
    if len(buffer) < LENGTH_END:
        return chunk_bytes
    return max(chunk_bytes, LENGTH_END + int.from_bytes(buffer[8:LENGTH_END], signed=True))


def _tail(buffer: bytes, start: int) -> Iterator[Unread]:
    # a preallocated file ends in zeros
    if buffer.strip(b"\0"):
        yield Unread(
            start,
            len(buffer),
            f"the file ends within a batch, of which {len(buffer)} bytes are there",
        )


def _broken(buffer: bytes, start: int, error: DecodeError) -> Iterator[Unread]:
    if buffer.strip(b"\0"):
        yield Unread(start, len(buffer), f"no batch starts at byte {start}: {error}")
