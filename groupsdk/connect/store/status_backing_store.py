"""The statuses of connectors and tasks, and the topics they use: the records of the status topic (`StatusBackingStore`).

Every worker reads them, and so can tell what any other does. The topics in use are those of KIP-558.
"""

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final, Self

from groupsdk.connect.connectors.secrets import conceal
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState, natural
from groupsdk.limits import MAX_INT32, MAX_INT64


UNDEFINED: Final = "undefined"
"""The version of what has none, in Kafka Connect's word."""
MAX_TRACE = 20_000
"""How much of a stack trace is kept; the end says what was raised."""


def stack_trace(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the stack trace of an exception with secrets masked: its last `MAX_TRACE` characters."""
    # before it is cut, which may cut through one
    return conceal("".join(traceback.format_exception(error)), secrets)[-MAX_TRACE:]


def for_log(trace: str) -> str:
    """Format a stack trace for a log: the exception first, then the whole trace."""
    lines = trace.strip()
    last = lines.rsplit("\n", 1)[-1]
    return last if last == lines else f"{last}\n{lines}"


class State(Enum):
    """The states of connectors and tasks, under Kafka Connect's names."""

    UNASSIGNED = "UNASSIGNED"
    """Nobody has it at present, or its worker has halted it.

    action: wait; the worker that it is assigned to starts it.
    """
    RUNNING = "RUNNING"
    """It runs.

    action: keep what it commits, under its fencing token.
    """
    PAUSED = "PAUSED"
    """Owned, and held still until its connector is resumed."""
    FAILED = "FAILED"
    """It raised, and is not started again by itself.

    action: wait until it is restarted by a request, or assigned again.
    """
    RESTARTING = "RESTARTING"
    """It raised.

    action: start it again when its backoff is over.
    """
    STOPPED = "STOPPED"
    """The connector has no tasks until it is resumed; a state of connectors alone."""
    COMPLETED = "COMPLETED"
    """The task returned by itself. Not a state of Kafka Connect.

    action: wait until it is restarted by a request, or assigned again.
    """


class TaskTrigger(Enum):
    STARTED = "started"
    RAISED = "raised, restarts are left"
    GIVEN_UP = "raised, no restart is left"
    RETURNED = "returned"
    PAUSED = "paused or stopped"
    RELEASED = "halted, or assigned to nobody"


_STARTABLE: Final = (
    State.UNASSIGNED,
    State.PAUSED,
    State.RESTARTING,
    State.RUNNING,
    State.FAILED,
    State.COMPLETED,
)
"""From all of them a task can be started, and fail to start: to restart one that runs is to end and to start it."""
TASK_TRANSITIONS: Final[dict[tuple[State, TaskTrigger], State]] = {
    **{(state, TaskTrigger.STARTED): State.RUNNING for state in _STARTABLE},
    **{(state, TaskTrigger.RAISED): State.RESTARTING for state in _STARTABLE},
    **{(state, TaskTrigger.GIVEN_UP): State.FAILED for state in _STARTABLE},
    (State.RUNNING, TaskTrigger.RETURNED): State.COMPLETED,
    **{(state, TaskTrigger.PAUSED): State.PAUSED for state in _STARTABLE},
    **{(state, TaskTrigger.RELEASED): State.UNASSIGNED for state in _STARTABLE},
}
"""(state, trigger) -> next state of a task."""


@dataclass(frozen=True, slots=True)
class Status:
    """The last status of a connector or task."""

    state: State
    """The state of the connector or task."""
    worker_id: str
    """The worker that wrote it: host:port, or its configured id."""
    generation: int
    """The fencing token of its writer; of two statuses the one with the greater token is right."""
    trace: str | None = None
    """The stack trace if it failed; otherwise None."""
    version: str | None = None
    """The version of the class that runs (KIP-891); None where it has none."""

    def record(self) -> dict[str, Any]:
        """Return it as the status topic keeps it."""
        fields = asdict(self) | {"state": self.state.value}
        return {key: value for key, value in fields.items() if value is not None}

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Decode the value of a status record; None if it is invalid."""
        if not isinstance(value, Mapping):
            return None
        generation = value.get("generation")
        # one that is greater than any leader's would stand for ever
        if not isinstance(generation, int) or generation > MAX_INT64:
            return None
        try:
            state = State(value.get("state"))
        except ValueError:
            return None
        trace, version = value.get("trace"), value.get("version")
        return cls(
            state,
            str(value.get("worker_id", "")),
            generation,
            None if trace is None else str(trace)[-MAX_TRACE:],
            version if isinstance(version, str) and version != UNDEFINED else None,
        )


def owned_before(configs: ClusterConfigState, statuses: Mapping[str, Status]) -> Work:
    """Return the configured work that was ever assigned, that is, has a status."""
    work = configs.work()
    return Work(
        tuple(name for name in work.connectors if status_key(name) in statuses),
        tuple(task for task in work.tasks if status_key(*task) in statuses),
    )


def status_key(connector: str, task: int | None = None) -> str:
    """Return the key of a status record, as Kafka Connect writes it; `task` is None for the connector itself."""
    return f"status-connector-{connector}" if task is None else f"status-task-{connector}-{task}"


PREFIX: Final = "status-topic-"
"""How the keys of these records begin."""
_SEPARATOR: Final = ":connector-"
_MAX_TOPIC: Final = 249


@dataclass(frozen=True, slots=True)
class TopicTracking:
    """Whether a worker tracks the topics that connectors use."""

    enable: bool = True
    """`topic.tracking.enable`."""
    allow_reset: bool = True
    """Whether they may be forgotten on request: `topic.tracking.allow.reset`."""


@dataclass(frozen=True, slots=True)
class TopicUse:
    """The first use of a topic by a connector, since it was created or its topics were last forgotten."""

    topic: str
    connector: str
    task: int
    """The number of the task that used it first."""
    discovered_ms: int
    """When, in milliseconds since 1970."""

    @property
    def key(self) -> str:
        return topic_key(self.topic, self.connector)

    def record(self) -> dict[str, Any]:
        fields = {
            "name": self.topic,
            "connector": self.connector,
            "task": self.task,
            "discoverTimestamp": self.discovered_ms,
        }
        return {"topic": fields}

    @classmethod
    def of(cls, value: object) -> Self | None:
        fields = value.get("topic") if isinstance(value, dict) else None
        if not isinstance(fields, dict):
            return None
        topic, connector = fields.get("name"), fields.get("connector")
        task, at_ms = fields.get("task"), fields.get("discoverTimestamp")
        if not isinstance(topic, str) or not isinstance(connector, str):
            return None
        number, when_ms = natural(task, MAX_INT32), natural(at_ms, MAX_INT64)
        return None if number is None or when_ms is None else cls(topic, connector, number, when_ms)


class ActiveTopics:
    """The topics of all connectors resulting from the records so far. Not thread-safe."""

    def __init__(self) -> None:
        self._uses: dict[str, dict[str, TopicUse]] = {}

    def apply(self, key: str, value: object | None) -> None:
        """Apply the next record of the status topic, decoded from JSON; records of other kinds are skipped."""
        topic, separator, connector = key.removeprefix(PREFIX).partition(_SEPARATOR)
        if not separator:
            return
        if value is None:
            self._uses.get(connector, {}).pop(topic, None)
            return
        use = TopicUse.of(value)
        if use is not None and use.key == key:
            self._uses.setdefault(connector, {})[topic] = use

    def of(self, connector: str) -> list[str]:
        return sorted(self._uses.get(connector, ()))


def topic_key(topic: str, connector: str) -> str:
    """Return the key of a topic record, as Kafka Connect writes it."""
    return f"{PREFIX}{topic}{_SEPARATOR}{connector}"


def check_topic(topic: object) -> str:
    """Return a topic's name. Raises ValueError if it is not a string of 1 to 249 allowed characters."""
    legal = isinstance(topic, str) and 0 < len(topic) <= _MAX_TOPIC
    if not legal or not all(c.isascii() and (c.isalnum() or c in "._-") for c in str(topic)):
        raise ValueError(
            f"a topic's name has 1 to {_MAX_TOPIC} of the letters a-z, A-Z, digits, '.', '_' and '-',"
            f" not {str(topic)[:60]!r}"
        )
    return str(topic)
