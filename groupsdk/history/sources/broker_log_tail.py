"""Read brokers' logs while they are written, without Spark."""

import gzip
import os
from pathlib import Path
from typing import Final

from groupsdk.history.explain.explaining import BrokerLogEntries
from groupsdk.history.sources.broker_log_lines import (
    LineParser,
    log_files,
    no_files,
    time_zone,
    warn_unrecognised,
)


_HEAD: Final = 256
"""How many bytes at its beginning distinguish a file from a later one with the same inode number."""


class BrokerLogTail:
    """Reads the lines that brokers add to their log files (a file, a directory or a pattern); for one thread.

    Files may be rotated: one that is renamed is not read again, and one that is begun again is read from its
    beginning. Compressed files are read if they were there at the first call: those that come later are copies.
    """

    def __init__(self, path: str, *, zone: str = "UTC") -> None:
        self._path = path
        self._parser = LineParser(time_zone(zone))
        self._read: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._is_first = True
        if not log_files(path):
            raise no_files(path)

    def read(self) -> list[BrokerLogEntries]:
        """Return the reasons and departures in the lines written since the last call."""
        for file in log_files(self._path):
            try:
                self._read_file(file)
            except FileNotFoundError:
                # renamed since it was listed: the next call finds it
                continue
        found = self._parser.entries()
        if self._is_first and not found:
            warn_unrecognised(self._path, self._parser.lines, self._parser.dated)
        self._is_first = False
        return found

    def _read_file(self, file: Path) -> None:
        if file.suffix == ".gz":
            if self._is_first:
                with gzip.open(file, "rb") as packed:
                    for line in packed:
                        self._take(line)
            return
        with file.open("rb") as opened:
            stat = os.fstat(opened.fileno())
            number = stat.st_dev, stat.st_ino
            head, position = self._read.get(number, (b"", 0))
            begin = opened.read(_HEAD)
            if not begin.startswith(head) or stat.st_size < position:
                position = 0
            opened.seek(position)
            for line in opened:
                if not line.endswith(b"\n"):
                    # the broker has not written all of it
                    break
                self._take(line)
                position += len(line)
            self._read[number] = begin[:position], position

    def _take(self, line: bytes) -> None:
        self._parser.take(line.decode(errors="replace").rstrip("\r\n"))
