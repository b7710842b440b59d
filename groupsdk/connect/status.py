"""Say what a connector or task is doing, and where: what every worker can tell of every other's."""

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final, Self

from groupsdk.connect.config_state import ClusterConfigState
from groupsdk.connect.secrets import conceal
from groupsdk.connect.work import Work
from groupsdk.limits import MAX_INT64


UNDEFINED: Final = "undefined"
"""The version of what has none, in Kafka Connect's word."""
MAX_TRACE = 20_000
"""How much of a stack trace is kept; the end says what was raised."""


def stack_trace(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """Return the stack trace of what was raised, as much of it as is kept, without these secrets."""
    # before it is cut, which may cut through one
    return conceal("".join(traceback.format_exception(error)), secrets)[-MAX_TRACE:]


def for_log(trace: str) -> str:
    """Return a stack trace as a log shows it: what was raised first, then the whole."""
    lines = trace.strip()
    last = lines.rsplit("\n", 1)[-1]
    return last if last == lines else f"{last}\n{lines}"


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
    version: str | None = None
    """The version of the class that runs (KIP-891); None where it has none."""

    def record(self) -> dict[str, Any]:
        """Return it as the status topic keeps it."""
        fields = asdict(self) | {"state": self.state.value}
        return {key: value for key, value in fields.items() if value is not None}

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
        trace, version = value.get("trace"), value.get("version")
        return cls(
            state,
            str(value.get("worker_id", "")),
            generation,
            None if trace is None else str(trace)[-MAX_TRACE:],
            version if isinstance(version, str) and version != UNDEFINED else None,
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
