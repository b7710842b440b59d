"""Connect's connectors and tasks on the live page: owners, warm standbys and moves.

A group's protocol says which member has which task. The state of a task is in the records of the group's status
topic, which the page reads if it is called GROUP-connect-status, the default of groupsdk's workers.
"""

import json
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupsdk.admin.cluster import EARLIEST, LATEST, ClusterClient
from groupsdk.admin.coordinator_log import next_offset
from groupsdk.admin.descriptions import GroupDescription
from groupsdk.assignment import TopicPartition
from groupsdk.verdict.log_reader import records_from
from groupsdk.wire.connect_protocol import ConnectorTaskId


CONNECTOR_PREFIX: Final = "status-connector-"
TASK_PREFIX: Final = "status-task-"
STANDBYS_KEY: Final = "groupsdk-standbys"
_NOBODY: Final = "UNASSIGNED"
_MAX_BYTES: Final = 1_000_000
_MAX_FETCHES: Final = 20
"""The maximum number of fetches per partition and poll; later polls read the rest of a long topic."""
_KEPT: Final = 200
_SHOWN_TRACE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTask:
    """A snapshot of a connector or task."""

    group_id: str
    connector: str
    task: int | None = None
    """The task number; None for the connector itself."""
    state: str
    """Kafka Connect's state, such as RUNNING; "ASSIGNED" if only its worker is known."""
    worker: str
    """The current or last worker; "" for none."""
    owner: str = ""
    """The member id of that worker, which identifies it across name changes; "" if only its name is known."""
    standbys: tuple[str, ...] = ()
    """The workers that keep it warm, best first."""
    trace: str | None = None

    @property
    def name(self) -> str:
        return self.connector if self.task is None else f"{self.connector}-{self.task}"

    def json(self, restarts: int) -> dict[str, Any]:
        return {
            "group_id": self.group_id,
            "name": self.name,
            "is_task": self.task is not None,
            "state": self.state,
            "worker": self.worker,
            "standbys": list(self.standbys),
            "restarts": restarts,
            "trace": last_line(self.trace),
        }


def last_line(trace: str | None) -> str:
    """Return the last line of a stack trace, which names the exception, truncated; "" for None."""
    return "" if trace is None else trace.strip().rsplit("\n", 1)[-1][:_SHOWN_TRACE]


@dataclass(slots=True)
class _Seen:
    shown: ShownTask
    owner: str
    """The last worker that had it, as `ShownTask.owner`, and its name."""
    worker: str
    idle_since_ms: int | None


class TaskHistory:
    """Tracks connectors and tasks from poll to poll: moves and their durations, restarts and failures."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int | None], _Seen] = {}
        self._restarts: Counter[tuple[str, str, int | None]] = Counter()
        self._events: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._groups: set[str] = set()

    @property
    def events(self) -> Sequence[dict[str, Any]]:
        """The last changes, the oldest first, in the form of the page's events."""
        return tuple(self._events)

    def restarts(self, task: ShownTask) -> int:
        """Return how many times a task was seen to restart after a failure."""
        return self._restarts[task.group_id, task.connector, task.task]

    def observe(self, now_ms: int, group_id: str, tasks: Iterable[ShownTask]) -> None:
        """Compare the connectors and tasks of a group with the previous poll."""
        is_first = group_id not in self._groups
        self._groups.add(group_id)
        there = set()
        for task in tasks:
            key = group_id, task.connector, task.task
            there.add(key)
            before = self._seen.get(key)
            if before is None:
                self._seen[key] = self._new(now_ms, task)
                if not is_first:
                    self._say(now_ms, group_id, f"{task.name} is new")
            elif before.shown != task:
                self._changed(now_ms, before, task)
        for key in [each for each in self._seen if each[0] == group_id and each not in there]:
            self._say(now_ms, group_id, f"{self._seen.pop(key).shown.name} is gone")
            self._restarts.pop(key, None)

    @staticmethod
    def _new(now_ms: int, task: ShownTask) -> _Seen:
        if task.state == _NOBODY:
            return _Seen(task, "", "", now_ms)
        return _Seen(task, task.owner, task.worker, None)

    def _changed(self, now_ms: int, seen: _Seen, task: ShownTask) -> None:
        before, seen.shown = seen.shown, task
        if task.state == _NOBODY:
            if seen.idle_since_ms is None:
                seen.idle_since_ms = now_ms
                self._say(now_ms, task.group_id, f"{task.name} is given up by {task.worker}")
            return
        after = ""
        if seen.idle_since_ms is not None:
            after = f" after {(now_ms - seen.idle_since_ms) / 1_000:.1f} s"
            seen.idle_since_ms = None
        if task.owner and task.owner != seen.owner:
            way = f"moved from {seen.worker} to" if seen.owner else "started on"
            if seen.owner or after:
                self._say(now_ms, task.group_id, f"{task.name} {way} {task.worker}{after}")
            seen.owner, seen.worker = task.owner, task.worker
        elif after:
            self._say(now_ms, task.group_id, f"{task.name} is back on {task.worker}{after}")
        if task.state != before.state and before.state != _NOBODY:
            self._state_changed(now_ms, before, task)

    def _state_changed(self, now_ms: int, before: ShownTask, task: ShownTask) -> None:
        why = last_line(task.trace)
        match task.state:
            case "FAILED":
                text = f"{task.name} failed" + (f": {why}" if why else "")
            case "RESTARTING":
                text = f"{task.name} raised and starts again" + (f": {why}" if why else "")
            case state:
                text = f"{task.name} is {state.lower()}, was {before.state.lower()}"
        if task.state == "RUNNING" and before.state in ("FAILED", "RESTARTING"):
            self._restarts[task.group_id, task.connector, task.task] += 1
        self._say(now_ms, task.group_id, text)

    def _say(self, now_ms: int, group_id: str, text: str) -> None:
        self._events.append({"group_id": group_id, "at_ms": now_ms, "text": text, "phases": []})


@dataclass(slots=True)
class GroupStatuses:
    """The state read so far from a group's status topic."""

    statuses: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The record values by key."""
    standbys: dict[ConnectorTaskId, tuple[str, ...]] = field(default_factory=dict)
    """The ids of the members that keep each task warm, best first."""
    _standby_generation: int = -1

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record; unknown records are ignored, and a value of None is a tombstone."""
        name = (key or b"").decode(errors="replace")
        try:
            content = None if value is None else json.loads(value)
        except (ValueError, RecursionError):
            return
        if isinstance(content, dict) and content.keys() == {"schema", "payload"}:
            content = content["payload"]
        if name == STANDBYS_KEY:
            self._take_standbys(content)
        elif name.startswith((CONNECTOR_PREFIX, TASK_PREFIX)):
            if content is None:
                self.statuses.pop(name, None)
            elif isinstance(content, dict):
                self._take_status(name, content)

    def _take_status(self, name: str, content: dict[str, Any]) -> None:
        known = self.statuses.get(name, {}).get("generation", -1)
        generation = content.get("generation")
        if isinstance(generation, int) and generation >= known:
            self.statuses[name] = content

    def _take_standbys(self, content: Any) -> None:
        try:
            generation, members = int(content["generation"]), list(map(str, content["members"]))
            if generation < self._standby_generation:
                return
            self.standbys = {
                ConnectorTaskId(name, int(number)): tuple(members[place] for place in places)
                for name, tasks in content["tasks"].items()
                for number, places in tasks.items()
            }
            self._standby_generation = generation
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            return


class FollowedGroup:
    """Tracks one group of Connect workers and its status topic. Belongs to one event loop."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._said = GroupStatuses()
        self._workers: dict[str, str] = {}
        self._owners: dict[tuple[str, int | None], str] = {}
        self._topic = f"{group_id}-connect-status"
        self._positions: dict[TopicPartition, int] = {}

    async def read(self, client: ClusterClient) -> None:
        """Read towards the end, up to the limit of one poll; nothing if the topic does not exist."""
        if not self._positions:
            found = (await client.metadata([self._topic])).topics.get(self._topic)
            if found is None or found.error_code or not found.partitions:
                return
            partitions = [TopicPartition(self._topic, number) for number in found.partitions]
            self._positions = await client.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await client.list_offsets(dict.fromkeys(self._positions, LATEST))
        for partition, end in ends.items():
            for _ in range(_MAX_FETCHES):
                position = self._positions[partition]
                if position >= end:
                    break
                data = await client.fetch(
                    partition, position, max_bytes=_MAX_BYTES, max_wait_ms=100
                )
                records = data.records or b""
                for record, _ in records_from(records, position):
                    self._said.apply(record.key, record.value)
                self._positions[partition] = next_offset(records, position)

    def tasks(self, group: GroupDescription) -> list[ShownTask]:
        """Return the connectors and tasks, sorted.

        Brokers tell who has what only while the group is stable; in between it is as it was.
        """
        for member in group.members:
            # members may announce any string for a URL
            place = (member.subscription.url or "").rpartition("://")[2].strip("/")
            name = place or self._workers.get(member.member_id)
            self._workers[member.member_id] = name or member.client_id
        if group.state in ("Stable", "Empty"):
            self._owners = _owners(group)
            for gone in self._workers.keys() - {each.member_id for each in group.members}:
                del self._workers[gone]
        statuses = {_of_key(key): value for key, value in self._said.statuses.items()}
        names = sorted(
            {*self._owners, *statuses},
            key=lambda each: (each[0], each[1] or 0, each[1] is not None),
        )
        return [self._shown(*each, statuses.get(each, {})) for each in names]

    def _shown(self, connector: str, number: int | None, status: Mapping[str, Any]) -> ShownTask:
        owner = self._owners.get((connector, number), "")
        standbys: Sequence[str] = ()
        if number is not None:
            standbys = self._said.standbys.get(ConnectorTaskId(connector, number), ())
        trace = status.get("trace")
        return ShownTask(
            group_id=self._group_id,
            connector=connector,
            task=number,
            state=str(status.get("state", "ASSIGNED")),
            worker=self._workers.get(owner) or str(status.get("worker_id", "")),
            owner=owner,
            standbys=tuple(self._workers.get(each, each) for each in standbys),
            trace=trace if isinstance(trace, str) else None,
        )


def _owners(group: GroupDescription) -> dict[tuple[str, int | None], str]:
    found: dict[tuple[str, int | None], str] = {}
    for member in group.members:
        found |= {(name, None): member.member_id for name in member.assignment.connectors}
        found |= {_task_of(name): member.member_id for name in member.assignment.tasks}
    return found


def _task_of(name: str) -> tuple[str, int | None]:
    connector, _, number = name.rpartition("-")
    return connector, int(number)


def _of_key(key: str) -> tuple[str, int | None]:
    if key.startswith(CONNECTOR_PREFIX):
        return key.removeprefix(CONNECTOR_PREFIX), None
    connector, _, number = key.removeprefix(TASK_PREFIX).rpartition("-")
    return connector, int(number) if number.isdecimal() and len(number) < 10 else None


def tasks_json(tasks: Iterable[ShownTask], history: TaskHistory) -> list[dict[str, Any]]:
    return [each.json(history.restarts(each)) for each in tasks]
