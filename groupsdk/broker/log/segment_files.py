"""The files of one segment, by their names (Kafka: LogFileUtils)."""

import contextlib
from typing import Final

from groupsdk.broker.log.errors import storage_error, storage_errors
from groupsdk.broker.log.files import Files, replace_file
from groupsdk.wire.records.batch import Buffer


LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_MAX_INDEX_BYTES: Final = 256 * 1024 * 1024


def file_name(offset: int, suffix: str) -> str:
    """Return Kafka's name of a segment or snapshot file: the offset in 20 digits and a suffix such as ".log"."""
    return f"{offset:020d}{suffix}"


class SegmentFiles:
    """Write, truncate, rename and remove the files of one segment.

    All calls raise StorageError if the disk fails or is full. The `kind` of a file is one of the suffixes above.
    """

    def __init__(self, files: Files, directory: str, base_offset: int, suffix: str = "") -> None:
        self.files = files
        self._stem = f"{directory}/{file_name(base_offset, '')}"
        self._suffix = suffix
        self.log = self.path(LOG_SUFFIX)
        """The path of the file with the batches."""
        self._torn = False

    def path(self, kind: str) -> str:
        return f"{self._stem}{kind}{self._suffix}"

    def append(self, data: Buffer, position: int) -> None:
        """Write batches at the end of the .log file; if that fails, truncate it to where it ended."""
        try:
            if self._torn:
                self.files.truncate(self.log, position)
                self._torn = False
            self.files.write(self.log, position, data)
        except OSError as error:
            self.take_back(position)
            raise storage_error(f"appending {len(data)} bytes", self.log, error) from error

    def take_back(self, position: int) -> None:
        """Truncate the .log file to `position` bytes, now or, if that fails, before the next append. Never raises."""
        self._torn = True
        with contextlib.suppress(OSError):
            if self.files.exists(self.log):
                self.files.truncate(self.log, position)
            self._torn = False

    def size(self) -> int:
        """Return the size of the .log file in bytes; 0 if it does not exist."""
        with storage_errors("opening", self.log):
            return self.files.size(self.log) if self.files.exists(self.log) else 0

    def cut(self, position: int) -> int:
        """Truncate the .log file to `position` bytes. Return how many bytes were removed."""
        behind = self.size() - position
        with storage_errors(f"cutting at byte {position}", self.log):
            if behind > 0:
                self.files.truncate(self.log, position)
        return max(behind, 0)

    def sync(self) -> None:
        """Sync the .log file to the disk."""
        with storage_errors("syncing", self.log):
            self.files.sync(self.log)

    def read_index(self, kind: str) -> bytes | None:
        """Read an index file of this kind; None if it does not exist."""
        path = self.path(kind)
        with storage_errors("reading an index", path):
            if not self.files.exists(path):
                return None
            return self.files.read(path, 0, _MAX_INDEX_BYTES)

    def write_index(self, kind: str, data: bytes, *, durable: bool) -> None:
        """Replace an index file atomically; an empty transaction index is removed instead."""
        path = self.path(kind)
        with storage_errors("writing an index", path):
            if kind == TXN_INDEX_SUFFIX and not data:
                # few segments have aborted transactions; Kafka, too, creates the file with the first one
                self.files.remove(path)
            else:
                replace_file(self.files, path, data, sync=durable)

    def rename(self, suffix: str) -> None:
        """Change the further suffix of all files; the .log file comes last, as its name decides after a crash."""
        with storage_errors(f"renaming to {suffix!r}", self.log):
            for kind in (*INDEX_SUFFIXES, LOG_SUFFIX):
                source = self.path(kind)
                if self.files.exists(source):
                    self.files.rename(source, f"{self._stem}{kind}{suffix}")
        self._suffix = suffix
        self.log = self.path(LOG_SUFFIX)

    def remove(self) -> None:
        """Remove all files; the .log file first, as the others are useless without it."""
        with storage_errors("removing", self.log):
            for kind in (LOG_SUFFIX, *INDEX_SUFFIXES):
                self.files.remove(self.path(kind))
