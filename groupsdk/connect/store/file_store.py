"""Store everything in one file, or in memory: for standalone workers and for tests."""

import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from groupsdk.connect.errors import StoreError
from groupsdk.connect.group.work import StandbyRecord
from groupsdk.connect.store.config_backing_store import ClusterRequest, Record
from groupsdk.connect.store.status_backing_store import Status, TopicUse, topic_key
from groupsdk.connect.store.store import BaseStore, StateKey, StoreContent
from groupsdk.connect.tasks.task import TaskState
from groupsdk.dead_letters import ErrantRecord


logger = logging.getLogger(__name__)

_FORMAT: Final = "groupsdk-connect-1"
_MAX_BYTES: Final = 256 * 1024 * 1024
_JOURNAL_LIMIT: Final = 1_000


class FileStore(BaseStore):
    """A store of one process (`ConnectStore`, which documents its methods), in a file or (None) in memory.

    The file begins with a snapshot, as one line of JSON, followed by a line for each change. From time to time it is
    rewritten, and replaced atomically. Each change is on the disk when the call returns. A last
    line that a crash cut off is dropped.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        super().__init__(StoreContent())
        self._path = None if path is None else Path(path)
        self._lock = self._content.lock
        self._values: dict[str, object] = {}
        self._offset = 0
        self._journal: Any = None
        self._committer: ThreadPoolExecutor | None = None
        self._lines = 0

    def start(self) -> None:
        with self._lock:
            if self._path is not None and self._journal is None:
                self._read(self._path)
                self._rewrite(self._path)

    def close(self) -> None:
        with self._lock:
            committer, self._committer = self._committer, None
        if committer is not None:
            committer.shutdown()
        with self._lock:
            journal, self._journal = self._journal, None
            if journal is not None:
                journal.close()

    def read_configs(self, timeout_ms: int) -> None: ...

    def cluster_id(self) -> str:
        return ""

    def failing_ms(self) -> int:
        return 0

    def claim(self) -> None: ...

    def write_configs(self, records: Sequence[Record]) -> None:
        with self._lock:
            self._append({"configs": [list(each) for each in records]})
            requests = [self._take_config(key, value) for key, value in records]
        self.on_change()
        for request in requests:
            if request is not None:
                self.on_request(request)

    def fence_producers(self, connector: str, count: int) -> None:
        """Do nothing: without Kafka there are no producers."""

    def put_status(self, key: str, status: Status | None) -> None:
        """Keep a status, in memory only: a standalone worker writes all of them again when it starts."""
        with self._lock:
            if status is None:
                self._content.statuses.pop(key, None)
            else:
                self._content.statuses[key] = status

    def put_topic(self, use: TopicUse) -> None:
        with self._lock:
            self._content.topics.apply(use.key, use.record())

    def forget_topics(self, connector: str) -> None:
        with self._lock:
            for topic in self.topics(connector):
                self._content.topics.apply(topic_key(topic, connector), None)

    def put_dead_letter(self, topic: str, copies: int, record: ErrantRecord) -> None:
        """Raise StoreError, as there is no topic for dead letters."""
        raise StoreError(f"a worker without Kafka has no topic {topic} to write dead letters to")

    def put_standbys(self, record: StandbyRecord) -> None: ...

    def put_states(
        self, states: Mapping[StateKey, TaskState | None], token: int, timeout_ms: int
    ) -> None:
        with self._lock:
            self.fence(states, token, timeout_ms)
            for key, state in states.items():
                self._keep(key, token, state)

    def fence(
        self, keys: Iterable[StateKey], token: int, timeout_ms: int
    ) -> Mapping[StateKey, TaskState]:
        wanted = list(keys)
        with self._lock:
            self._check_owned(wanted, token)
            self._append({"fence": [token, [list(key) for key in wanted]]})
            states = {key: self.state(key) for key in wanted}
            for key, state in states.items():
                self._content.states.put(key, token, state)
        return {key: state for key, state in states.items() if state is not None}

    def commit(self, key: StateKey, token: int, state: TaskState) -> None:
        with self._lock:
            self._check_owned([key], token)
            self._keep(key, token, dict(state))

    def begin_commit(self, key: StateKey, token: int, state: TaskState) -> "Future[None]":
        """Start storing a task's state, on a thread that may block on the disk."""
        with self._lock:
            if self._committer is None:
                self._committer = ThreadPoolExecutor(1, "groupsdk-store")
            # as it is now, whatever its owner makes of it meanwhile
            return self._committer.submit(self.commit, key, token, dict(state))

    def _keep(self, key: StateKey, token: int, state: TaskState | None) -> None:
        self._append({"state": [token, list(key), state]})
        self._content.states.put(key, token, state)

    def _take_config(self, key: str, value: object | None) -> ClusterRequest | None:
        request = self._content.configs.apply(key, value, self._offset)
        self._offset += 1
        if value is None:
            self._values.pop(key, None)
        else:
            # moved to the end, as in a log that is compacted
            self._values.pop(key, None)
            self._values[key] = value
        return request

    def _read(self, path: Path) -> None:
        try:
            if not path.exists():
                return
            size = path.stat().st_size
            if size > _MAX_BYTES:
                raise StoreError(f"{path} has {size} bytes, more than the limit of {_MAX_BYTES}")
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read {path}: {error}") from error
        for number, line in enumerate(lines, 1):
            try:
                self._take_line(json.loads(line), first=number == 1)
            except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
                if number == len(lines) > 1:
                    logger.warning("%s: dropping the last line, which a crash cut off", path)
                    return
                raise StoreError(
                    f"{path}: line {number} was not written by this worker or is corrupt: {error}"
                ) from error

    def _take_line(self, line: Any, *, first: bool) -> None:
        if first:
            if line["format"] != _FORMAT:
                raise ValueError(f"the format is {line['format']!r}, not {_FORMAT!r}")
            self._offset = int(line["offset"]) - len(line["configs"])
            for connector, task_id, token, state in line["states"]:
                self._content.states.put((str(connector), str(task_id)), int(token), state)
        if "configs" in line:
            for key, value in line["configs"]:
                self._take_config(str(key), value)
        elif "fence" in line:
            token, keys = line["fence"]
            for connector, task_id in keys:
                key = connector, task_id
                self._content.states.put(key, int(token), self.state(key))
        elif "state" in line:
            token, (connector, task_id), state = line["state"]
            kept = None if state is None else dict(state)
            self._content.states.put((connector, task_id), int(token), kept)

    def _append(self, line: Mapping[str, object]) -> None:
        if self._path is None:
            return
        if self._journal is None:
            raise StoreError(f"{self._path} is not open: start the store first")
        try:
            text = json.dumps(line, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise StoreError(f"a state must be JSON-serializable: {error}") from error
        try:
            if self._lines >= _JOURNAL_LIMIT:
                self._rewrite(self._path)
            self._journal.write(text + "\n")
            self._journal.flush()
            os.fsync(self._journal.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error}") from error
        self._lines += 1

    def _rewrite(self, path: Path) -> None:
        whole = {
            "format": _FORMAT,
            "offset": self._offset,
            "configs": [list(each) for each in self._values.items()],
            "states": [[*key, *kept] for key, kept in self._content.states.owned.items()],
        }
        if self._journal is not None:
            self._journal.close()
        new = path.with_name(path.name + ".new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with new.open("w", encoding="utf-8") as file:
                file.write(json.dumps(whole) + "\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
            self._journal = path.open("a", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"cannot write {path}: {error}") from error
        self._lines = 0
