"""The producer snapshots of a partition: one for each segment's start, and one at a clean shutdown."""

import logging
import re
import struct
from collections.abc import Iterable
from typing import Final

from groupsdk.broker.log.errors import storage_errors
from groupsdk.broker.log.files import Files, replace_file
from groupsdk.broker.log.producer_state import BatchMetadata, ProducerEntry, ProducerState
from groupsdk.broker.log.segment_files import file_name
from groupsdk.wire.records.batch import crc32c


logger = logging.getLogger(__name__)
SUFFIX: Final = ".snapshot"
_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_MAX_BYTES: Final = 1024 * 1024 * 1024


class Snapshots:
    """Writes, finds and removes the snapshot files in a partition's directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._newest = -1

    def offsets(self, names: Iterable[str] | None = None) -> list[int]:
        """List the offsets at which snapshots were taken, ascending; `names` spares listing the directory."""
        if names is None:
            with storage_errors("listing", self._directory):
                names = self._files.names(self._directory)
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def take(self, state: ProducerState, offset: int) -> None:
        """Write a snapshot; does nothing if there is one at this offset or a later one."""
        if offset <= self._newest:
            return
        path = self._path(offset)
        with storage_errors("writing a producer snapshot", path):
            replace_file(self._files, path, encode(state.entries.values()))
        self._newest = offset

    def load(self, state: ProducerState, offsets: list[int], highest: int) -> int | None:
        """Load the newest intact snapshot at or below an offset. Return its offset; None if there is none.

        A corrupt one is logged and removed.
        """
        for offset in (each for each in reversed(offsets) if each <= highest):
            path = self._path(offset)
            with storage_errors("reading a producer snapshot", path):
                data = self._files.read(path, 0, _MAX_BYTES)
            try:
                entries = decode(data)
            except CorruptSnapshotError as error:
                logger.warning("%s: %s: using an older snapshot, or the log", path, error)
                self.remove(offset)
                continue
            for entry in entries:
                state.load(entry)
            self._newest = offset
            return offset
        return None

    def remove(self, offset: int) -> None:
        path = self._path(offset)
        with storage_errors("removing", path):
            self._files.remove(path)
        if offset == self._newest:
            self._newest = -1

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SUFFIX)}"


_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


class CorruptSnapshotError(ValueError):
    """A snapshot is corrupt or of an unknown version; it can be rebuilt from the log."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the content of a .snapshot file (Kafka: ProducerStateManager.writeSnapshot)."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.batches[-1].offset_delta if entry.batches else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.txn_first_offset is None else entry.txn_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """Decode a .snapshot file. Each producer has at most its last batch."""
    try:
        version, checksum = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except struct.error:
        raise CorruptSnapshotError(
            f"{len(data)} bytes is too short for a producer snapshot"
        ) from None
    if version != _VERSION:
        raise CorruptSnapshotError(f"version {version} is not supported, only {_VERSION}")
    found = crc32c(data[_HEAD.size :])
    if found != checksum:
        raise CorruptSnapshotError(
            f"checksum mismatch: computed {found:#010x}, stored {checksum:#010x}"
        )
    start = _HEAD.size + _COUNT.size
    if count < 0 or len(data) - start != count * _ENTRY.size:
        raise CorruptSnapshotError(f"{len(data) - start} bytes do not hold {count} producers")
    return [_entry(*values) for values in _ENTRY.iter_unpack(data[start:])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    batch = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        txn_first_offset if txn_first_offset >= 0 else None,
        (batch,) if last_offset >= 0 else (),
    )
