"""Hold the configurations of all connectors and tasks, and read and write their records (`KafkaConfigBackingStore`).

Keys are text, values JSON. Task configurations count only when the commit record after them names their number,
and all of them are there: so a set of tasks changes at once or not at all.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.group.work import ONE, REPLICAS_KEY, WEIGHT_KEY, Work, replicas_of, weight_of
from groupsdk.connect.rest.session_key import SESSION_KEY, SessionKey
from groupsdk.limits import MAX_INT32
from groupsdk.utf16 import utf16_sorted
from groupsdk.wire.connect_protocol import ConnectorTaskId


Config = Mapping[str, str]


class TargetState(Enum):
    """The state that a connector should have, whichever worker owns it."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    """Its tasks keep their owners, and do nothing."""
    STOPPED = "STOPPED"
    """It has no tasks until it is resumed."""


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """The configurations up to an offset, on which all workers agree (`ClusterConfigState`)."""

    offset: int = -1
    """The offset after the last record that counts; -1 before the first."""
    connectors: Mapping[str, Config] = field(default_factory=dict)
    task_configs: Mapping[ConnectorTaskId, Config] = field(default_factory=dict)
    """The configuration of each task in the last complete set of its connector."""
    task_counts: Mapping[str, int] = field(default_factory=dict)
    """The number of tasks of each connector, as its last commit record says."""
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    """The target states that were set, by connector; a connector that is not listed is STARTED."""
    inconsistent: frozenset[str] = frozenset()
    """Connectors whose task configurations are not all there; they have no tasks until a complete set is written."""
    epoch: int = 0
    """How often the group's generations restarted: the high part of fencing tokens."""
    session_key: SessionKey | None = None
    """The key with which workers sign their requests to each other (KIP-507)."""
    fenced_tasks: Mapping[str, int] = field(default_factory=dict)
    """How many tasks a connector had when the producers of its tasks were last fenced (KIP-618)."""

    def task_ids(self, connector: str) -> list[ConnectorTaskId]:
        """Return a connector's tasks, by number; none for an unknown or inconsistent connector."""
        if connector not in self.connectors or connector in self.inconsistent:
            return []
        return [
            ConnectorTaskId(connector, number)
            for number in range(self.task_counts.get(connector, 0))
        ]

    def target_state(self, connector: str) -> TargetState:
        return self.target_states.get(connector, TargetState.STARTED)

    def tasks(self) -> set[ConnectorTaskId]:
        return {task for name in self.connectors for task in self.task_ids(name)}

    def work(self) -> Work:
        """Return all connectors and tasks, sorted."""
        connectors = utf16_sorted(self.connectors)
        tasks = [task for name in connectors for task in self.task_ids(name)]
        return Work(tuple(connectors), tuple(tasks))

    def weights(self) -> dict[ConnectorTaskId, int]:
        """Return the weights of all tasks, in thousandths; empty if all weigh the same."""
        weights: dict[ConnectorTaskId, int] = {}
        for name, config in self.connectors.items():
            usual = (_weight(config) if WEIGHT_KEY in config else None) or ONE
            for task in self.task_ids(name):
                own = self.task_configs.get(task, {})
                weights[task] = (_weight(own) if WEIGHT_KEY in own else None) or usual
        return weights if len(set(weights.values())) > 1 else {}

    def replicas(self) -> dict[str, int]:
        """Return the number of standbys for each connector's tasks; connectors without standbys are left out."""
        replicas = {}
        for name, config in self.connectors.items():
            if REPLICAS_KEY not in config:
                continue
            try:
                replicas[name] = replicas_of(config)
            except ConnectorConfigError:
                continue  # as with weights
        return {name: count for name, count in replicas.items() if count}

    def contains(self, item: str | ConnectorTaskId) -> bool:
        """Return whether a connector or a task is configured; tasks of inconsistent connectors are not."""
        if isinstance(item, str):
            return item in self.connectors
        within = 0 <= item.task < self.task_counts.get(item.connector, 0)
        return within and item.connector in self.connectors.keys() - self.inconsistent


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request to restart a connector, and optionally its tasks, on the workers that run them (KIP-745)."""

    connector: str
    """The connector's name."""
    include_tasks: bool = False
    """Whether its tasks are restarted as well."""
    only_failed: bool = False
    """Whether only those that have failed are restarted."""


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A request to all workers of a group to set a logger's level (KIP-976)."""

    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class ConfigChanges:
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
        """Whether the work has to be reassigned."""
        return self.connectors_differ or self.tasks_differ

    @classmethod
    def between(cls, old: ClusterConfigState, new: ClusterConfigState) -> "ConfigChanges":
        both = old.connectors.keys() & new.connectors.keys()
        old_tasks, new_tasks = old.tasks(), new.tasks()
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
            tasks_differ=bool(changed) or old_tasks != new_tasks or old.weights() != new.weights(),
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
    """Return whether two configurations differ only in where the work is best done."""
    return _work(old) == _work(new)


def _work(config: Config) -> Config:
    return {key: value for key, value in config.items() if key not in (WEIGHT_KEY, REPLICAS_KEY)}


logger = logging.getLogger(__name__)

Record = tuple[str, object | None]
"""A key, and a value that JSON can carry; None deletes."""

EPOCH_KEY: Final = "groupsdk-epoch"
"""Our own key, ignored by Kafka Connect: how often the group's generations restarted."""
ClusterRequest = RestartRequest | LoggerLevel
_LOGGER: Final = "logger-cluster-"
MAX_TASKS: Final = 1_000_000
_TASK_KEY: Final = re.compile(r"task-(.+)-(\d{1,7})", re.DOTALL)


def connector_records(name: str, config: Config | None) -> list[Record]:
    """Return the records that set a connector's configuration, or with None delete it and its target state."""
    if config is None:
        return [(f"connector-{name}", None), (f"target-state-{name}", None)]
    return [(f"connector-{name}", {"properties": dict(config)})]


def task_records(name: str, configs: Sequence[Config]) -> list[Record]:
    """Return the records that set all of a connector's tasks at once: one each, and last the commit record that counts them."""
    records: list[Record] = [
        (f"task-{name}-{number}", {"properties": dict(config)})
        for number, config in enumerate(configs)
    ]
    return [*records, (f"commit-{name}", {"tasks": len(configs)})]


def target_state_record(name: str, target: TargetState) -> Record:
    """Return the record that sets a target state; workers older than KIP-875 read STOPPED as PAUSED."""
    old = TargetState.PAUSED if target is TargetState.STOPPED else target
    return f"target-state-{name}", {"state": old.value, "state.v2": target.value}


def restart_record(request: RestartRequest) -> Record:
    flags = {"include-tasks": request.include_tasks, "only-failed": request.only_failed}
    return f"restart-connector-{request.connector}", flags


def fencing_record(name: str, count: int) -> Record:
    """Return the record that the producers of a number of tasks of a connector were fenced (KIP-618)."""
    return f"tasks-fencing-{name}", {"task-count": count}


def logger_record(request: LoggerLevel) -> Record:
    return f"{_LOGGER}{request.logger}", {"level": request.level}


def epoch_record(epoch: int) -> Record:
    """Return the record saying how often the group's generations have restarted: the high part of fencing tokens."""
    return EPOCH_KEY, {"epoch": epoch}


def decode_value(key: str, data: bytes | None) -> object | None:
    """Decode a value: None for a tombstone, and an empty tuple for one that is not JSON, which is skipped like an unknown record.

    Kafka's converter wraps values in `{"schema": ..., "payload": ...}` where schemas are enabled.
    """
    if not data:
        return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        logger.warning("the value of config record %r is not JSON: %s", key, error)
        return ()
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        return value["payload"]  # type: ignore[no-any-return]  # JSON, checked where it is used
    return value  # type: ignore[no-any-return]  # likewise


class ConfigLog:
    """The configurations resulting from the records so far. Not thread-safe."""

    def __init__(self) -> None:
        self._offset = -1
        self._connectors: dict[str, Config] = {}
        self._tasks: dict[ConnectorTaskId, Config] = {}
        self._counts: dict[str, int] = {}
        self._targets: dict[str, TargetState] = {}
        self._pending: dict[str, dict[int, Config]] = {}
        self._inconsistent: set[str] = set()
        self._epoch = 0
        self._session_key: SessionKey | None = None
        self._fenced: dict[str, int] = {}
        self.latest: ClusterConfigState | None = None
        """The last `snapshot`, as long as no record has come since."""

    def apply(self, key: str, value: object | None, offset: int) -> ClusterRequest | None:
        """Apply the next record of the config topic, as `decode_value` returns it; one of an unknown kind is logged and skipped.

        Returns a request to all workers, which only running workers follow; None for any other record.
        """
        self._offset = max(self._offset, offset + 1)
        self.latest = None
        for prefix, take in (
            ("connector-", self._connector),
            ("commit-", self._commit),
            ("target-state-", self._target_state),
            ("tasks-fencing-", self._fencing),
        ):
            if key.startswith(prefix):
                take(key.removeprefix(prefix), value)
                return None
        if key.startswith("restart-connector-"):
            return _restart(key.removeprefix("restart-connector-"), value)
        if key.startswith(_LOGGER):
            return _logger_level(key.removeprefix(_LOGGER), value)
        if key == EPOCH_KEY:
            # as the high part of a token, which has 64 bits
            self._epoch = max(self._epoch, _number(value, "epoch", MAX_INT32) or 0)
        elif key == SESSION_KEY:
            self._take_session_key(value, offset)
        elif (match := _TASK_KEY.fullmatch(key)) is not None:
            self._task(match[1], int(match[2]), value)
        else:
            logger.info("config record %r at offset %d has an unknown kind", key, offset)
        return None

    def snapshot(self) -> ClusterConfigState:
        if self.latest is None:
            self.latest = ClusterConfigState(
                offset=self._offset,
                connectors=dict(self._connectors),
                task_configs=dict(self._tasks),
                task_counts=dict(self._counts),
                target_states=dict(self._targets),
                inconsistent=frozenset(self._inconsistent),
                epoch=self._epoch,
                session_key=self._session_key,
                fenced_tasks=dict(self._fenced),
            )
        return self.latest

    def _connector(self, name: str, value: object | None) -> None:
        config = _properties(value)
        if config is not None:
            self._connectors[name] = config
        elif value is None:
            # target states have records of their own
            self._connectors.pop(name, None)
            self._counts.pop(name, None)
            self._pending.pop(name, None)
            self._inconsistent.discard(name)
            for task in [each for each in self._tasks if each.connector == name]:
                del self._tasks[task]

    def _task(self, name: str, number: int, value: object | None) -> None:
        config = _properties(value)
        if config is not None:
            self._pending.setdefault(name, {})[number] = config

    def _commit(self, name: str, value: object | None) -> None:
        count = _number(value, "tasks", MAX_TASKS)
        if count is None:
            return
        # after compaction some tasks may already have been rewritten for a commit that is still to come
        pending = self._pending.get(name, {})
        if any(number not in pending for number in range(count)):
            logger.warning(
                "connector %s: the configurations of its %d tasks are incomplete", name, count
            )
            self._inconsistent.add(name)
        else:
            self._inconsistent.discard(name)
            self._pending.pop(name, None)
            for task in [each for each in self._tasks if each.connector == name]:
                del self._tasks[task]
            for number in range(count):
                self._tasks[ConnectorTaskId(name, number)] = pending[number]
        self._counts[name] = count

    def _fencing(self, name: str, value: object | None) -> None:
        count = _number(value, "task-count", MAX_TASKS)
        if count is None:
            self._fenced.pop(name, None)
        else:
            self._fenced[name] = count

    def _take_session_key(self, value: object | None, offset: int) -> None:
        key = SessionKey.of(value)
        if key is None:
            # not what it holds: that may be a secret
            logger.warning("config record 'session-key' at offset %d is not a valid key", offset)
        else:
            self._session_key = key

    def _target_state(self, name: str, value: object | None) -> None:
        if value is None:
            self._targets.pop(name, None)
            return
        fields: Mapping[str, Any] = value if isinstance(value, dict) else {}
        try:
            self._targets[name] = TargetState(fields.get("state.v2", fields.get("state")))
        except ValueError:
            logger.warning("connector %s: no target state in %r", name, value)


def _properties(value: object | None) -> Config | None:
    properties = value.get("properties") if isinstance(value, dict) else None
    if not isinstance(properties, dict):
        return None
    return {str(key): "" if each is None else str(each) for key, each in properties.items()}


def _number(value: object | None, key: str, most: int) -> int | None:
    return natural(value.get(key) if isinstance(value, dict) else None, most)


def natural(value: object, most: int) -> int | None:
    """Return an integer of a record; None for what is none from 0 to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= most else None


def _logger_level(name: str, value: object | None) -> LoggerLevel | None:
    level = value.get("level") if isinstance(value, dict) else None
    return LoggerLevel(name, level) if isinstance(level, str) else None


def _restart(name: str, value: object | None) -> RestartRequest | None:
    if not isinstance(value, dict):
        return None
    return RestartRequest(
        name, value.get("include-tasks") is True, value.get("only-failed") is True
    )
