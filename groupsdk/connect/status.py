"""Say what a connector or task is doing, and where: what every worker can tell of every other's."""

import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Self

from groupsdk.connect.config_state import ClusterConfigState
from groupsdk.connect.work import Work
from groupsdk.limits import MAX_INT64


MAX_TRACE = 20_000
"""How much of a stack trace is kept; the end says what was raised."""


def stack_trace(error: BaseException) -> str:
    """Return the stack trace of what was raised, as much of it as is kept."""
    return "".join(traceback.format_exception(error))[-MAX_TRACE:]


def last_line(trace: str) -> str:
    """Return what a stack trace comes to: its last line, for logs."""
    return trace.strip().rsplit("\n", 1)[-1]


class State(Enum):
    """The states of connectors and tasks, in Kafka Connect's words."""

    UNASSIGNED = "UNASSIGNED"
    """Nobody has it at present."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    """Owned, and held still until it is resumed."""
    FAILED = "FAILED"
    """It raised, and is not started again by itself."""
    RESTARTING = "RESTARTING"
    """It raised, or was told to restart, and waits for that."""
    STOPPED = "STOPPED"
    """The connector has no tasks until it is resumed."""
    COMPLETED = "COMPLETED"
    """The task returned by itself: it has nothing more to do. Not a state of Kafka Connect."""


@dataclass(frozen=True, slots=True)
class Status:
    """What was last said of a connector or task."""

    state: State
    worker_id: str
    """Which worker says so: host:port, or whatever it is called."""
    generation: int
    """The fencing token under which it says so; the newer one is right."""
    trace: str | None = None
    """The stack trace, where it failed."""

    def record(self) -> dict[str, Any]:
        """Return it as the status topic keeps it."""
        fields = asdict(self) | {"state": self.state.value}
        if self.trace is None:
            del fields["trace"]
        return fields

    @classmethod
    def of(cls, value: object) -> Self | None:
        """Read it; None: it is none that is known here."""
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
        trace = value.get("trace")
        return cls(
            state,
            str(value.get("worker_id", "")),
            generation,
            None if trace is None else str(trace)[-MAX_TRACE:],
        )


def owned_before(configs: ClusterConfigState, statuses: Mapping[str, Status]) -> Work:
    """Return what is configured and was given out at some time, as anything was ever said of it."""
    work = configs.work()
    return Work(
        tuple(name for name in work.connectors if status_key(name) in statuses),
        tuple(task for task in work.tasks if status_key(*task) in statuses),
    )


def status_key(connector: str, task: int | None = None) -> str:
    """Return the key of a status record, as Kafka Connect writes it."""
    return f"status-connector-{connector}" if task is None else f"status-task-{connector}-{task}"
