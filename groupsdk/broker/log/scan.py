"""Go through the batches of a segment file, each checked."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from groupsdk.broker.log.errors import CorruptLogError, storage_error
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.errors import DecodeError
from groupsdk.wire.records.batch import HEADER_SIZE, BatchHeader, read_header, verify


CHUNK_BYTES: Final = 256 * 1024
"""How much is read at once; a batch that is larger is read as a whole."""


class Stored(NamedTuple):
    """A batch of a segment file."""

    header: BatchHeader
    position: int
    """Where it starts in the file."""
    data: bytes
    """Bytes of the file in which the batch is."""
    at: int
    """Where it starts in `data`."""

    @property
    def batch(self) -> bytes:
        """The bytes of the batch."""
        return self.data[self.at : self.at + self.header.size_in_bytes]


def corrupt(path: str, position: int, problem: object) -> CorruptLogError:
    """Build the error for a batch of a file that is not as it was written."""
    return CorruptLogError(f"{path}: at byte {position}: {problem}")


def read_file(files: Files, path: str, position: int, size: int) -> bytes:
    """Read a part of a file.

    Raises:
        StorageError: the disk failed, or the file is gone.
    """
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
    epochs: LeaderEpochs | None = None,
) -> Iterator[Stored]:
    """Give the batches of a segment file one after the other, each with its checksum checked.

    The checksum covers neither offset nor leader epoch; so offsets have to ascend, and the epoch has to be
    the one known for the offset.

    Args:
        files: where the file is.
        path: its path.
        size: how much of it is the log's.
        start: where a batch starts.
        lowest_offset: what the first batch's offset is at least.
        epochs: the partition's leader epochs, if they are known.

    Raises:
        CorruptLogError: a batch is damaged, or the file ends within it; all before it were given.
        StorageError: the disk failed.
    """
    position, lowest, wanted = start, lowest_offset, CHUNK_BYTES
    while position < size:
        data = read_file(files, path, position, min(wanted, size - position))
        at, end = 0, len(data)
        wanted = CHUNK_BYTES
        while end - at >= HEADER_SIZE:
            header = _header(data, at, path, position + at, size)
            stop = at + header.size_in_bytes
            if stop > end:
                wanted = max(CHUNK_BYTES, header.size_in_bytes)
                break
            _check(header, data, at, path, position + at, lowest, epochs)
            yield Stored(header, position + at, data, at)
            lowest = header.last_offset + 1
            at = stop
        if at == 0 and (end < HEADER_SIZE or wanted <= end):
            raise corrupt(path, position, f"the file ends {end} bytes into a batch")
        position += at


def _header(data: bytes, at: int, path: str, position: int, size: int) -> BatchHeader:
    try:
        header = read_header(data, at)
    except DecodeError as error:
        raise corrupt(path, position, error) from error
    if position + header.size_in_bytes > size:
        raise corrupt(
            path,
            position,
            f"a batch of {header.size_in_bytes} bytes, of which {size - position} are there",
        )
    return header


def _check(
    header: BatchHeader,
    data: bytes,
    at: int,
    path: str,
    position: int,
    lowest: int,
    epochs: LeaderEpochs | None,
) -> None:
    if header.base_offset < lowest:
        raise corrupt(path, position, f"the offset {header.base_offset} comes after {lowest - 1}")
    try:
        verify(data, header, at)
    except DecodeError as error:
        raise corrupt(path, position, error) from error
    if epochs is None or header.partition_leader_epoch < 0:
        return
    known = epochs.epoch_at(header.base_offset)
    if known not in (-1, header.partition_leader_epoch):
        raise corrupt(
            path,
            position,
            f"the batch at offset {header.base_offset} has the leader epoch"
            f" {header.partition_leader_epoch}, where {known} is known",
        )
