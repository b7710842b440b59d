"""Decide what task states count, from the records of all that ever owned the tasks.

Each owner writes under a key of its own: the task's and its fencing token. Its first record is a fence, which says
that smaller tokens are void from there on; all records of a task stand in one partition, so all readers agree
what came before it. Compaction keeps the last record of each key: what a former owner writes too late replaces
nothing of a later one's. Once the state has been written under the new token, the old keys are deleted.
"""

import json
from typing import Any, Final

from groupsdk.connect.store import StateKey
from groupsdk.connect.task import TaskState
from groupsdk.limits import MAX_INT64


def state_key(key: StateKey, token: int) -> bytes:
    """Write the key of a record: as Connect's, a list of the connector's name and what names a part of its work."""
    connector, task_id = key
    return json.dumps([connector, {"task": task_id, "generation": token}]).encode()


def state_value(state: TaskState | None) -> bytes:
    """Write the value of a record; None: a fence, which leaves the state as it was.

    Raises:
        ValueError: JSON cannot carry it.
        TypeError: likewise.
    """
    return json.dumps(
        {"fence": True} if state is None else {"state": dict(state)}, allow_nan=False
    ).encode()


FORGET: Final = json.dumps({"state": None}).encode()
"""The value of a record after which nothing was committed."""


class StateLog:
    """The states as the records so far make them; not for several threads at a time."""

    def __init__(self) -> None:
        self.last_token = -1
        """The greatest token of any task."""
        self._states: dict[StateKey, tuple[int, TaskState | None]] = {}
        self._tokens: dict[StateKey, set[int]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take the next record of a partition; what is none of ours is passed over."""
        parsed = _key(key)
        if parsed is None:
            return
        name, token = parsed
        tokens = self._tokens.setdefault(name, set())
        if value is None:
            tokens.discard(token)
            return
        content = _json(value)
        if not isinstance(content, dict):
            return
        tokens.add(token)
        owner, known = self._states.get(name, (-1, None))
        if token < owner:
            return
        state = content.get("state", known)
        self._states[name] = token, state if isinstance(state, dict | None) else known
        self.last_token = max(self.last_token, token)

    def get(self, key: StateKey) -> tuple[int, TaskState | None]:
        """Return the token that owns a task, -1 for none, and its state, None for none."""
        return self._states.get(key, (-1, None))

    def of(self, connector: str) -> dict[str, TaskState]:
        """Return the states of a connector's tasks, by their ids."""
        return {
            task: state
            for (name, task), (_, state) in self._states.items()
            if name == connector and state is not None
        }

    def outdated(self, key: StateKey) -> list[int]:
        """Return the tokens of records that no longer count."""
        owner, _ = self.get(key)
        return sorted(token for token in self._tokens.get(key, ()) if token < owner)


def _key(data: bytes) -> tuple[StateKey, int] | None:
    content = _json(data)
    if not isinstance(content, list) or len(content) != 2:
        return None
    connector, part = content
    if not isinstance(connector, str) or not isinstance(part, dict):
        return None
    task_id, token = part.get("task"), part.get("generation")
    if not isinstance(task_id, str) or not isinstance(token, int) or isinstance(token, bool):
        return None
    if not 0 <= token <= MAX_INT64:
        return None
    return (connector, task_id), token


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
