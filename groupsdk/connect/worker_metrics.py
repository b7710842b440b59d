"""The metrics of a worker, under Kafka Connect's names (KIP-196, KIP-475)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, Literal

from groupsdk.connect.store.status_backing_store import State
from groupsdk.connect.tasks.tolerance import ErrorCounts
from groupsdk.wire.connect_protocol import ConnectorTaskId


WORKER: Final = "connect-worker-metrics"
REBALANCE: Final = "connect-worker-rebalance-metrics"
CONNECTOR: Final = "connector-metrics"
TASK: Final = "connector-task-metrics"
TASK_ERRORS: Final = "task-error-metrics"
_COUNTED: Final = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")
"""The states whose tasks KIP-475 counts."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, as shown by JMX for a Java worker."""

    group: str
    """The group of metrics, such as "connect-worker-metrics"."""
    name: str
    value: float | str
    tags: Mapping[str, str] = field(default_factory=dict)
    """The connector and the task that it describes; empty for the whole worker."""


@dataclass(slots=True)
class Startups:
    attempts: int = 0
    failures: int = 0

    def metrics(self, kind: Literal["connector", "task"]) -> list[Metric]:
        """Return the metrics under Connect's names; percentages cover the time since the worker started."""
        succeeded = self.attempts - self.failures
        share = 1 / self.attempts if self.attempts else 0.0
        values = {
            "attempts-total": self.attempts,
            "success-total": succeeded,
            "success-percentage": succeeded * share,
            "failure-total": self.failures,
            "failure-percentage": self.failures * share,
        }
        return [Metric(WORKER, f"{kind}-startup-{name}", value) for name, value in values.items()]


@dataclass(slots=True)
class CommitTimes:
    """The durations of a task's commits, and the number of failures."""

    attempts: int = 0
    """Commits, failed ones included."""
    failures: int = 0
    total_ms: int = 0
    longest_ms: int = 0

    def count(self, took_ms: int, *, failed: bool) -> None:
        self.attempts += 1
        self.failures += failed
        self.total_ms += took_ms
        self.longest_ms = max(self.longest_ms, took_ms)

    def values(self) -> dict[str, float]:
        """Return the metrics under Connect's names."""
        count = max(1, self.attempts)
        return {
            "offset-commit-max-time-ms": self.longest_ms,
            "offset-commit-avg-time-ms": self.total_ms / count,
            "offset-commit-failure-percentage": self.failures / count,
            "offset-commit-success-percentage": (self.attempts - self.failures) / count,
        }


@dataclass(frozen=True, slots=True)
class ConnectorView:
    """A connector that a worker owns, or has tasks of."""

    name: str
    state: State | None
    """Its state; None if this worker only has tasks of it."""
    class_name: str
    kind: str
    """"source", "sink" or "unknown"."""
    version: str


@dataclass(frozen=True, slots=True)
class TaskView:
    task_id: ConnectorTaskId
    state: State
    commits: CommitTimes
    errors: ErrorCounts


def work_metrics(connectors: Iterable[ConnectorView], tasks: Sequence[TaskView]) -> list[Metric]:
    metrics = []
    shown = list(connectors)
    owned = sum(each.state is not None for each in shown)
    metrics += [Metric(WORKER, "connector-count", owned), Metric(WORKER, "task-count", len(tasks))]
    for connector in shown:
        metrics += _connector_metrics(
            connector, [t for t in tasks if t.task_id.connector == connector.name]
        )
    for task in tasks:
        metrics += _task_metrics(task)
    return metrics


def _connector_metrics(connector: ConnectorView, tasks: Sequence[TaskView]) -> list[Metric]:
    tags = {"connector": connector.name}
    states = [each.state.value.lower() for each in tasks]
    metrics = [Metric(WORKER, "connector-total-task-count", len(tasks), tags)]
    metrics += [
        Metric(WORKER, f"connector-{state}-task-count", states.count(state), tags)
        for state in _COUNTED
    ]
    if connector.state is not None:
        about = {
            "status": connector.state.value.lower(),
            "connector-type": connector.kind,
            "connector-class": connector.class_name,
            "connector-version": connector.version,
        }
        metrics += [Metric(CONNECTOR, name, value, tags) for name, value in about.items()]
    return metrics


def _task_metrics(task: TaskView) -> list[Metric]:
    tags = {"connector": task.task_id.connector, "task": str(task.task_id.task)}
    metrics = [Metric(TASK, "status", task.state.value.lower(), tags)]
    metrics += [Metric(TASK, name, value, tags) for name, value in task.commits.values().items()]
    for name, value in asdict(task.errors).items():
        shown = name.replace("_", "-")
        metrics.append(Metric(TASK_ERRORS, shown, value, tags))
    return metrics
