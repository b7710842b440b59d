"""Hold the configurations of all connectors and tasks at one offset of their log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from groupsdk.connect.work import Work
from groupsdk.utf16 import utf16_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


Config = Mapping[str, str]
"""A connector's or a task's configuration."""


class TargetState(Enum):
    """What a connector is meant to be, whoever owns it."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    """Its tasks keep their owners, and do nothing."""
    STOPPED = "STOPPED"
    """It has no tasks until it is resumed."""


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """What all workers agree on when they are at the same offset (`ClusterConfigState`)."""

    offset: int = -1
    """The offset after the last record that counts; -1 before the first."""
    connectors: Mapping[str, Config] = field(default_factory=dict)
    task_configs: Mapping[ConnectorTaskId, Config] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    inconsistent: frozenset[str] = frozenset()
    """Connectors whose task configurations are not all there; they have no tasks until they are written anew."""
    epoch: int = 0
    """Counts how often the group's generations began anew: the high part of fencing tokens."""

    def task_ids(self, connector: str) -> list[ConnectorTaskId]:
        """Return a connector's tasks, by number; none where there is no such connector."""
        if connector not in self.connectors or connector in self.inconsistent:
            return []
        return [
            ConnectorTaskId(connector, number)
            for number in range(self.task_counts.get(connector, 0))
        ]

    def target_state(self, connector: str) -> TargetState:
        """Return what a connector is meant to be."""
        return self.target_states.get(connector, TargetState.STARTED)

    def work(self) -> Work:
        """Return all there is to do, sorted."""
        connectors = utf16_sorted(self.connectors)
        tasks = [task for name in connectors for task in self.task_ids(name)]
        return Work(tuple(connectors), tuple(tasks))

    def contains(self, item: str | ConnectorTaskId) -> bool:
        """Tell whether a connector or a task is configured."""
        if isinstance(item, str):
            return item in self.connectors
        within = 0 <= item.task < self.task_counts.get(item.connector, 0)
        return within and item.connector in self.connectors.keys() - self.inconsistent


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """Ask for a connector, and its tasks if wanted, to be started anew where they run (KIP-745)."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """What lies between two states of the configurations."""

    connectors_changed: frozenset[str]
    """Other configurations of connectors that were there before."""
    connectors_differ: bool
    """Whether connectors came or went."""
    tasks_changed: frozenset[ConnectorTaskId]
    """Tasks with another configuration, and tasks that are gone."""
    tasks_differ: bool
    """Whether any task came, went or changed."""
    targets_changed: frozenset[str]
    """Connectors with another target state."""

    @property
    def needs_rebalance(self) -> bool:
        """Whether the work has to be shared out anew."""
        return self.connectors_differ or self.tasks_differ

    @classmethod
    def between(cls, old: ClusterConfigState, new: ClusterConfigState) -> "ConfigChanges":
        """Compare two states."""
        both = old.connectors.keys() & new.connectors.keys()
        old_tasks, new_tasks = old.work().tasks, new.work().tasks
        changed = frozenset(
            task
            for task in old_tasks
            if not new.contains(task) or old.task_configs.get(task) != new.task_configs.get(task)
        )
        return cls(
            connectors_changed=frozenset(
                name for name in both if old.connectors[name] != new.connectors[name]
            ),
            connectors_differ=old.connectors.keys() != new.connectors.keys(),
            tasks_changed=changed,
            tasks_differ=bool(changed) or set(old_tasks) != set(new_tasks),
            targets_changed=frozenset(
                name for name in both if old.target_state(name) is not new.target_state(name)
            ),
        )
