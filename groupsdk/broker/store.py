"""Store the metadata of a cluster as facts: in an SQLite file, or in memory."""

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError


if TYPE_CHECKING:
    import sqlite3


logger = logging.getLogger(__name__)

FILE_NAME: Final = "catalogue.sqlite"
_FORMAT: Final = 1
_OWNER_ONLY: Final = 0o600


class StoreError(GroupSdkError):
    """The file of a store cannot be read or written, or has an unknown format."""

    error_code: ClassVar[ErrorCode] = ErrorCode.KAFKA_STORAGE_ERROR
    """The code sent to clients."""


Change = tuple[str, str, Any]
"""(kind, key, value); a value of None removes the fact."""


class Store(Protocol):
    """A store of facts by kind and key; values are JSON-serializable and not None.

    Each call raises StoreError if the store fails, and has changed nothing then.
    """

    def facts(self, only: str | None = None) -> Iterator[tuple[str, str, Any]]:
        """Yield the facts of one kind, or all, as (kind, key, value)."""

    def write(self, changes: Iterable[Change]) -> None:
        """Apply changes atomically; they are durable on return."""

    def replace(self, kind: str, key: str, old: Any, new: Any) -> bool:
        """Change one fact if its value is still `old`, atomically; None: it does not exist. Return whether it was."""

    def close(self) -> None:
        """Close the store; it cannot be used afterwards."""


class MemoryStore:
    """A store in memory, which outlives a broker that uses it."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], Any] = {}

    def facts(self, only: str | None = None) -> Iterator[tuple[str, str, Any]]:
        for (kind, key), value in list(self._facts.items()):
            if only is None or kind == only:
                yield kind, key, value

    def write(self, changes: Iterable[Change]) -> None:
        for kind, key, value in changes:
            if value is None:
                self._facts.pop((kind, key), None)
            else:
                self._facts[kind, key] = value

    def replace(self, kind: str, key: str, old: Any, new: Any) -> bool:
        if self._facts.get((kind, key)) != old:
            return False
        self.write([(kind, key, new)])
        return True

    def close(self) -> None:
        """Do nothing: the next broker may use the store."""


class SqliteStore:
    """A store in one SQLite file, synced with every change; only its owner can read it."""

    def __init__(self, path: Path) -> None:
        import sqlite3  # takes 9 ms, and a broker in memory does not need it

        self._path = path
        self._failure = sqlite3.Error
        try:
            _keep_to_its_owner(path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from error
        try:
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            with ExitStack() as unless_ready:
                unless_ready.callback(self._base.close)
                self._base.execute("PRAGMA synchronous = FULL")
                self._prepare(self._base)
                unless_ready.pop_all()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _prepare(self, base: "sqlite3.Connection") -> None:
        found = base.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, _FORMAT):
            raise StoreError(
                f"{self._path} has format {found}, but this version of groupsdk supports {_FORMAT}: use the version that wrote it"
            )
        if found == 0:
            base.executescript(
                "BEGIN; CREATE TABLE IF NOT EXISTS fact ("
                "kind TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, key)"
                f") WITHOUT ROWID; PRAGMA user_version = {_FORMAT}; COMMIT;"
            )

    def facts(self, only: str | None = None) -> Iterator[tuple[str, str, Any]]:
        import json

        wanted = "SELECT kind, key, value FROM fact WHERE ?1 IS NULL OR kind = ?1"
        try:
            for kind, key, text in self._base.execute(wanted, (only,)):
                yield kind, key, json.loads(text)
        except (self._failure, ValueError) as error:
            raise self._explained(error) from error

    def write(self, changes: Iterable[Change]) -> None:
        with self._transaction():
            for kind, key, value in changes:
                self._put(kind, key, value)

    def replace(self, kind: str, key: str, old: Any, new: Any) -> bool:
        import json

        with self._transaction():
            row = self._base.execute(
                "SELECT value FROM fact WHERE kind = ? AND key = ?", (kind, key)
            ).fetchone()
            held: bool = (None if row is None else json.loads(row[0])) == old
            if held:
                self._put(kind, key, new)
        return held

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._base.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
        except self._failure as error:
            raise self._unwritten(error) from error

    def _roll_back(self) -> None:
        # SQLite has done so itself where the disk is full or fails
        if self._base.in_transaction:
            self._base.execute("ROLLBACK")

    def _put(self, kind: str, key: str, value: Any) -> None:
        import json

        if value is None:
            self._base.execute("DELETE FROM fact WHERE kind = ? AND key = ?", (kind, key))
        else:
            text = json.dumps(value, separators=(",", ":"))
            self._base.execute("INSERT OR REPLACE INTO fact VALUES (?, ?, ?)", (kind, key, text))

    def close(self) -> None:
        self._base.close()

    def _unwritten(self, error: Exception) -> StoreError:
        found = self._explained(error)
        logger.error("%s; nothing was changed", found)
        return found

    def _explained(self, error: Exception) -> StoreError:
        return StoreError(f"the catalogue {self._path}: {error}")


def _keep_to_its_owner(path: Path) -> None:
    """Create the file if missing, readable by its owner only: it holds users' credentials.

    The journals of SQLite get the same permissions.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
    try:
        found = os.fstat(descriptor)
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            os.fchmod(descriptor, _OWNER_ONLY)
    finally:
        os.close(descriptor)
