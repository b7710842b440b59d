"""Hold the configurations of all connectors and tasks at one offset of their log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.session_key import SessionKey
from groupsdk.connect.standby import REPLICAS_KEY, replicas_of
from groupsdk.connect.work import ONE, WEIGHT_KEY, Work, weight_of
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
    session_key: SessionKey | None = None
    """What workers sign their requests to each other with (KIP-507)."""
    fenced_tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks a connector had when the producers of its tasks were last fenced (KIP-618)."""

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

    def weights(self) -> dict[ConnectorTaskId, int]:
        """Return the weights of all tasks, in thousandths; nothing where all weigh the same."""
        found: dict[ConnectorTaskId, int] = {}
        for name, config in self.connectors.items():
            usual = _weight(config) or ONE
            for task in self.task_ids(name):
                found[task] = _weight(self.task_configs.get(task, {})) or usual
        return found if len(set(found.values())) > 1 else {}

    def replicas(self) -> dict[str, int]:
        """Return how many standbys each connector's tasks are to have; connectors without are left out."""
        found = {}
        for name, config in self.connectors.items():
            try:
                found[name] = replicas_of(config)
            except ConnectorConfigError:
                continue  # as with weights
        return {name: count for name, count in found.items() if count}

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
    """Other configurations of connectors that were there before; weights do not count."""
    connectors_differ: bool
    """Whether connectors came or went."""
    tasks_changed: frozenset[ConnectorTaskId]
    """Tasks with another configuration, and tasks that are gone; weights do not count."""
    tasks_differ: bool
    """Whether any task came, went or changed, or weighs more or less than before."""
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
            if not new.contains(task)
            or not _same_work(old.task_configs.get(task, {}), new.task_configs.get(task, {}))
        )
        return cls(
            connectors_changed=frozenset(
                name for name in both if not _same_work(old.connectors[name], new.connectors[name])
            ),
            connectors_differ=old.connectors.keys() != new.connectors.keys(),
            tasks_changed=changed,
            tasks_differ=bool(changed)
            or set(old_tasks) != set(new_tasks)
            or old.weights() != new.weights(),
            targets_changed=frozenset(
                name for name in both if old.target_state(name) is not new.target_state(name)
            ),
        )


def _weight(config: Config) -> int | None:
    try:
        return weight_of(config)
    except ConnectorConfigError:
        return None  # refused where it is written; whoever wrote it else has it counted as usual


def _same_work(old: Config, new: Config) -> bool:
    """Tell whether two configurations differ in nothing but where the work is best done."""
    return _work(old) == _work(new)


def _work(config: Config) -> Config:
    return {key: value for key, value in config.items() if key not in (WEIGHT_KEY, REPLICAS_KEY)}


def flag_of(config: Config, key: str, *, default: bool) -> bool:
    """Return whether a key is true.

    Raises:
        ConnectorConfigError: it is neither true nor false.
    """
    text = config.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConnectorConfigError(key, f"must be true or false, not {config[key]!r}")
    return text == "true"


def number_of(key: str, text: str, least: int, most: int) -> int:
    """Return a whole number.

    Raises:
        ConnectorConfigError: it is none, or out of bounds.
    """
    number: int | None
    try:
        number = int(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise ConnectorConfigError(
            key, f"must be a whole number of {least} to {most}, not {text!r}"
        )
    return number
