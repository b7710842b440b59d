"""Keep the next block of producer ids in an SQLite database, shared by processes if need be."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from groupsdk.broker.transactions.producer_ids import BlockStoreError


_TABLE = """
CREATE TABLE IF NOT EXISTS producer_id_blocks (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    next_start INTEGER NOT NULL CHECK (next_start >= 0)
)
"""


class SqliteBlockStore:
    """A `BlockStore` in one row of a table; a claim is one conditional update, synced to the disk.

    Several stores may be open on one file, in one process or many. For one thread each.

    Args:
        path: the database file; made where it is missing.
        busy_timeout_ms: how long a claim waits for another process's.

    Raises:
        BlockStoreError: the file is no database, or cannot be opened.
    """

    def __init__(self, path: Path, *, busy_timeout_ms: int = 5_000) -> None:
        self._path = path
        with self._failures():
            self._connection = sqlite3.connect(path, timeout=busy_timeout_ms / 1000)
        try:
            with self._failures(), self._connection:
                # A claim must outlast a power cut before its first id is handed out.
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute(_TABLE)
                self._connection.execute(
                    "INSERT OR IGNORE INTO producer_id_blocks (id, next_start) VALUES (0, 0)"
                )
        except BlockStoreError:
            self._connection.close()
            raise

    def next_start(self) -> int:
        """Return the first id of the block to claim next.

        Raises:
            BlockStoreError: it cannot be read.
        """
        with self._failures():
            row = self._connection.execute("SELECT next_start FROM producer_id_blocks").fetchone()
        if row is None or not isinstance(row[0], int):
            raise BlockStoreError(f"{self._path}: the table producer_id_blocks has lost its row")
        return row[0]

    def claim(self, start: int, following: int) -> bool:
        """Take the ids from `start` to before `following`, if no one else has.

        Raises:
            BlockStoreError: it cannot be written.
        """
        with self._failures(), self._connection:
            cursor = self._connection.execute(
                "UPDATE producer_id_blocks SET next_start = ? WHERE id = 0 AND next_start = ?",
                (following, start),
            )
            return cursor.rowcount == 1

    def close(self) -> None:
        """Close the database; harmless when it is closed."""
        self._connection.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise BlockStoreError(f"{self._path}: {error}") from error
