"""Record the live files of the tables, and change them atomically: an update counts as a whole, or not at all.

Tables are directories of files, which no file system can change together. So an update writes into a directory of its own,
and then writes one file that lists the moves and deletions. From then on the update counts: the next process that opens the
ledger completes it. Before that it does not count, and its files are deleted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.tables.publishing import FOLLOWED
from groupsdk.history.tables.schemas import UNKNOWN_CLUSTER
from groupsdk.history.tables.stage_tables import RUN_TABLES


CURRENT: Final = f"{FOLLOWED}/ledger.json"
NEXT: Final = f"{FOLLOWED}/next.json"
"""The changes of an update, which counts as soon as this file exists."""
STORE: Final = f"{FOLLOWED}/kept"
"""The state kept beside the tables: the groups' records, their states, totals."""
ATTEMPT: Final = "update-"
CHECKPOINT: Final = "checkpoint-"
_FORMAT: Final = 2
_LEARNED: Final = "learnt_ms"
"""The key of `State.learned_session_timeout_ms` in files."""

CLOSED: Final = "closed"
"""Rows that later records do not change."""
OPEN: Final = "open"
"""Rows that the next update of the same bucket replaces: of current generations and open transactions."""
EMPTY: Final = "empty"
"""A file without rows, from which other tools read the columns of a table."""

OUTBOX: Final = "outbox"
"""The changes that an update makes to a table of a lakehouse, whose name is the file's kind; the next update deletes it."""

DAY: Final = "day="
"""The beginning of the name of a folder for the rows of a day."""
NO_BUCKET: Final = -1
"""The bucket of rows that are not of one group."""


@dataclass(frozen=True, slots=True, order=True)
class LiveFile:
    """A file whose rows are part of a table: its `path` is below the directory of the tables, its `size` in bytes."""

    table: str
    path: str
    kind: str = CLOSED
    bucket: int = NO_BUCKET
    size: int = 0

    @property
    def day(self) -> str:
        """The part of the path that names the day of the rows; "" if they are of many."""
        return next((part for part in self.path.split("/") if part.startswith(DAY)), "")


@dataclass(frozen=True, slots=True)
class State:
    """The state after an update.

    Attributes:
        source: the identity of the followed log.
        code: the digest of `group_state.fingerprint`.
        batch: the last batch of the stream that counts; -1 before the first.
        positions: the next offset of each partition of the log, if no stream keeps them.
        took_over: partition, leader epoch, and when that leader took over.
        learned_session_timeout_ms: None: it could not be learned.
        settled: the last offset up to which transactions are resolved, by partition.
        checkpoint: the name of the directory of the stream's checkpoint.
    """

    source: str
    code: str
    settings: str
    buckets: int
    cluster_id: str = UNKNOWN_CLUSTER
    update: int = 0
    batch: int = -1
    positions: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    took_over: Sequence[tuple[int, int, int]] = ()
    learned_session_timeout_ms: int | None = None
    settled: Mapping[str, int] = field(default_factory=dict)
    checkpoint: str = ""
    files: Sequence[LiveFile] = ()

    def of(
        self, table: str, *, kind: str | None = None, bucket: int | None = None
    ) -> list[LiveFile]:
        """Return the files of a table, or only those of a kind or bucket."""
        return [
            each
            for each in self.files
            if each.table == table
            if kind is None or each.kind == kind
            if bucket is None or each.bucket == bucket
        ]


@dataclass(slots=True)
class Change:
    """The changes of one update, collected while it runs.

    `folder` is its own directory, below that of the tables; `added` has the path of each new file in it, and the live file it becomes.
    """

    folder: str
    added: list[tuple[str, LiveFile]] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)

    def merge(self, added: Iterable[tuple[str, LiveFile]], removed: Iterable[str]) -> None:
        self.added += added
        self.removed |= set(removed)


class Ledger:
    """The files of one directory of tables. Only the driver uses it, one instance at a time."""

    def __init__(self, system: Any, root: str) -> None:
        self.system = system
        self.root = root

    def open(self) -> State | None:
        """Complete a committed update, delete the files of an uncommitted one, and return the state; None where there is none.

        Raises ConfigError if the ledger is of another format.
        """
        pending = self._read(NEXT)
        if pending is not None:
            self._carry_out(pending)
        state = self._state()
        for each in self._list(FOLLOWED):
            name = each.base_name
            stale = name.startswith(CHECKPOINT) and (state is None or name != state.checkpoint)
            if name.startswith(ATTEMPT) or stale:
                self.system.delete_dir(each.path)
        return state

    def create(self, state: State) -> State:
        """Start from an empty state: when the first update is committed, it replaces the existing state and all tables.

        The checkpoint of the stream has a name of its own, so that one of a former ledger is never taken for it.
        """
        # first what names the other files
        self._delete_file(CURRENT)
        self._delete_dir(FOLLOWED)
        created = replace(state, update=0, batch=-1, checkpoint=f"{CHECKPOINT}{uuid4().hex[:12]}")
        self._write(CURRENT, state_to_json(created).encode())
        return created

    def begin(self) -> Change:
        """Create a directory for an update, with a unique name: a task that outlives its driver cannot harm another update."""
        folder = f"{FOLLOWED}/{ATTEMPT}{uuid4().hex[:12]}"
        self.system.create_dir(f"{self.root}/{folder}", recursive=True)
        return Change(folder)

    def abandon(self, change: Change) -> None:
        self._delete_dir(change.folder)

    def commit(self, state: State, change: Change) -> State:
        """Commit an update; `state` is the new one with the files of the previous update. Return it with the files that count now."""
        removed = set(change.removed)
        if state.update <= 1:
            # of earlier runs, which no ledger has
            removed |= self._strangers(state)
        files = [each for each in state.files if each.path not in removed]
        files += [file for _, file in change.added]
        after = replace(state, files=tuple(sorted(files)))
        todo = {
            "state": _plain(after),
            "folder": change.folder,
            "moves": [[source, file.path] for source, file in change.added],
            "removed": sorted(removed - {each.path for each in files}),
        }
        self._write(NEXT, json.dumps(todo).encode())
        self._carry_out(todo)
        return after

    def _strangers(self, state: State) -> set[str]:
        known = {each.path for each in state.files}
        found = set()
        for name in RUN_TABLES:
            for each in self._list(name, recursive=True):
                path = each.path.removeprefix(f"{self.root}/")
                if each.type == fs.FileType.File and path not in known:
                    found.add(path)
        return found

    def _carry_out(self, todo: Mapping[str, Any]) -> None:
        """Complete an update, skipping the steps that were done before."""
        for path in todo["removed"]:
            self._delete_file(path)
        folders = {path.rpartition("/")[0] for _, path in todo["moves"]}
        for each in sorted(folders):
            self.system.create_dir(f"{self.root}/{each}", recursive=True)
        for source, path in todo["moves"]:
            place = f"{self.root}/{todo['folder']}/{source}"
            if self._exists(place):
                self.system.move(place, f"{self.root}/{path}")
        self._write(CURRENT, json.dumps(todo["state"]).encode())
        self.system.delete_file(f"{self.root}/{NEXT}")
        self._delete_dir(todo["folder"])

    def _state(self) -> State | None:
        found = self._read(CURRENT)
        return None if found is None else _from_plain(found, f"{self.root}/{CURRENT}")

    def _exists(self, path: str) -> bool:
        return bool(self.system.get_file_info(path).type != fs.FileType.NotFound)

    def _list(self, folder: str, *, recursive: bool = False) -> list[Any]:
        chosen = fs.FileSelector(f"{self.root}/{folder}", recursive=recursive, allow_not_found=True)
        return list(self.system.get_file_info(chosen))

    def _read(self, name: str) -> dict[str, Any] | None:
        path = f"{self.root}/{name}"
        if not self._exists(path):
            return None
        with self.system.open_input_stream(path) as file:
            found: dict[str, Any] = json.loads(file.read())
        return found

    def _write(self, name: str, data: bytes) -> None:
        """Write a file atomically."""
        path = f"{self.root}/{name}"
        self.system.create_dir(path.rpartition("/")[0], recursive=True)
        hidden = f"{path}.{uuid4().hex[:12]}"
        with self.system.open_output_stream(hidden) as file:
            file.write(data)
        self.system.move(hidden, path)

    def _delete_file(self, name: str) -> None:
        path = f"{self.root}/{name}"
        if self._exists(path):
            self.system.delete_file(path)

    def _delete_dir(self, name: str) -> None:
        path = f"{self.root}/{name}"
        if self._exists(path):
            self.system.delete_dir(path)


def _plain(state: State) -> dict[str, Any]:
    found = {"format": _FORMAT, **asdict(state)}
    found[_LEARNED] = found.pop("learned_session_timeout_ms")
    return found


def _from_plain(found: dict[str, Any], place: str) -> State:
    if found.pop("format", None) != _FORMAT:
        raise ConfigError(
            f"{place} is of another version of groupsdk: delete {place} to begin again"
        )
    found["learned_session_timeout_ms"] = found.pop(_LEARNED, None)
    found["files"] = tuple(LiveFile(**each) for each in found["files"])
    found["took_over"] = tuple(tuple(each) for each in found["took_over"])
    return State(**found)


def state_to_json(state: State) -> str:
    return json.dumps(_plain(state))


def state_of_json(text: str, place: str) -> State:
    """Return the state that was written to `place`; ConfigError if it is of another version."""
    return _from_plain(json.loads(text), place)
