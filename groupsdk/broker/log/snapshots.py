"""Keep the producer snapshots of a partition: one for each segment's start, and one at a clean end."""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Final

from groupsdk.broker.log.errors import storage_error
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.producer_snapshot import CorruptSnapshotError, decode, encode
from groupsdk.broker.log.producer_state import ProducerState
from groupsdk.broker.log.segment_files import file_name


_LOG = logging.getLogger(__name__)
SUFFIX: Final = ".snapshot"
_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_MAX_BYTES: Final = 1024 * 1024 * 1024


class Snapshots:
    """Write, find and remove the snapshot files in a partition's directory.

    Args:
        files: where they are.
        directory: the partition's.
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._newest = -1

    def offsets(self, names: Iterable[str] | None = None) -> list[int]:
        """List the offsets at which snapshots were taken, ascending.

        Raises:
            StorageError: the disk failed.
        """
        if names is None:
            try:
                names = self._files.names(self._directory)
            except OSError as error:
                raise storage_error("listing", self._directory, error) from error
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def take(self, state: ProducerState, offset: int) -> None:
        """Write a snapshot of how things are at an offset, unless there is one.

        Raises:
            StorageError: the disk failed or is full.
        """
        if offset <= self._newest:
            return
        path = self._path(offset)
        beside = f"{path}.tmp"
        try:
            self._files.remove(beside)
            self._files.write(beside, 0, encode(state.entries.values()))
            self._files.sync(beside)
            self._files.rename(beside, path)
        except OSError as error:
            raise storage_error("writing a producer snapshot", path, error) from error
        self._newest = offset

    def load(self, state: ProducerState, offsets: list[int], highest: int) -> int | None:
        """Take up the newest whole snapshot at or below an offset; returns its offset, None without one.

        A damaged one is said in the log, and removed.

        Raises:
            StorageError: the disk failed.
        """
        for offset in self._readable(offsets, highest):
            path = self._path(offset)
            try:
                entries = decode(self._files.read(path, 0, _MAX_BYTES))
            except CorruptSnapshotError as error:
                _LOG.warning("%s: %s: an older one, or the log, has to do", path, error)
                self.remove(offset)
                continue
            except OSError as error:
                raise storage_error("reading a producer snapshot", path, error) from error
            for entry in entries:
                state.load(entry)
            self._newest = offset
            return offset
        return None

    def remove(self, offset: int) -> None:
        """Remove the snapshot at an offset, if there is one.

        Raises:
            StorageError: the disk failed.
        """
        try:
            self._files.remove(self._path(offset))
        except OSError as error:
            raise storage_error("removing", self._path(offset), error) from error
        if offset == self._newest:
            self._newest = -1

    def _readable(self, offsets: list[int], highest: int) -> Iterator[int]:
        return (offset for offset in reversed(offsets) if offset <= highest)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SUFFIX)}"
