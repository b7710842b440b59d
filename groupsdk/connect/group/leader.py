"""Do what only the group's leader does: write configurations, and keep each connector's tasks as it plans them."""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from groupsdk.connect.connectors.connector_config import check_count
from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders, secrets_of
from groupsdk.connect.errors import (
    ConnectorConfigError,
    RecordTooLargeError,
    StoreError,
    StoreFencedError,
)
from groupsdk.connect.group.work import StandbyRecord, Standbys, Work, choose_standbys
from groupsdk.connect.loggers import connector_context
from groupsdk.connect.rest.session_key import SessionKey, SessionKeySettings
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    Config,
    Record,
    TargetState,
    connector_records,
    epoch_record,
    task_records,
)
from groupsdk.connect.store.status_backing_store import (
    State,
    Status,
    for_log,
    stack_trace,
    status_key,
)
from groupsdk.connect.store.store import ConnectStore
from groupsdk.connect.tasks.task import CLASS_KEY, Connector, Task, checked_tasks, numbered


logger = logging.getLogger(__name__)

_EPOCH_BITS: Final = 32
_RETRY_MS: Final = 10_000
_SLOW_MS: Final = 5_000
_MOST_THREADS: Final = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks that a connector planned, or why it could not."""

    name: str
    config: Config
    tasks: Sequence[Task] = ()
    trace: str | None = None
    """The stack trace of its class, with secrets masked; None: it has planned."""
    secrets: Collection[str] = field(default=(), repr=False, compare=False)
    """The values to mask in errors."""


class Planner:
    """Plans the tasks of connectors on daemon threads: `plan` is the user's, and may never return.

    `notify` is called, on such a thread, when `take` has a result.
    """

    def __init__(
        self,
        classes: Mapping[str, type[Connector]],
        notify: Callable[[], None],
        providers: ConfigProviders = NO_PROVIDERS,
    ) -> None:
        self._providers = providers
        self._classes = classes
        self._notify = notify
        self._lock = threading.Lock()
        self._waiting: dict[str, Config] = {}
        self._planning: set[str] = set()
        self._answers: queue.SimpleQueue[Plan] = queue.SimpleQueue()
        self._threads = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        with self._lock:
            return self._threads > 0

    def ask(self, name: str, config: Config) -> None:
        """Queue a connector to have its tasks planned, in place of one of its name that is still queued. Thread-safe."""
        with self._lock:
            if self._closed:
                return
            self._waiting[name] = config
            # whoever plans it now plans it again
            if name not in self._planning and self._threads < _MOST_THREADS:
                self._threads += 1
                threading.Thread(target=self._work, name="groupsdk-planner", daemon=True).start()

    def take(self) -> list[Plan]:
        answers = []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return answers

    def close(self) -> None:
        """Drop what is queued, and accept no more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _work(self) -> None:
        while (asked := self._next()) is not None:
            name, config = asked
            slow = threading.Timer(_SLOW_MS / 1000, _warn, (name,))
            slow.daemon = True
            slow.start()
            plan = self._answer(name, config)
            slow.cancel()
            with self._lock:
                self._planning.discard(name)
            self._answers.put(plan)
            self._notify()

    def _next(self) -> tuple[str, Config] | None:
        """Return the next connector to plan; None: the thread ends."""
        with self._lock:
            # the same connector is never planned twice at a time
            name = next((each for each in self._waiting if each not in self._planning), None)
            if name is None:
                self._threads -= 1
                return None
            self._planning.add(name)
            return name, self._waiting.pop(name)

    def _answer(self, name: str, config: Config) -> Plan:
        kind = self._classes.get(config.get(CLASS_KEY, ""))
        if kind is None:
            wrong = ConnectorConfigError(
                CLASS_KEY, f"this worker does not have the class {config.get(CLASS_KEY)!r}"
            )
            return Plan(name, config, trace=stack_trace(wrong))
        secrets: set[str] = set()
        try:
            with connector_context(name):
                secrets |= secrets_of(config, kind.secrets)
                resolved = self._providers.resolve(config)
                secrets |= resolved.secrets(kind.secrets)
                tasks = checked_tasks(kind(name, resolved.config).plan())
            if resolved.variables:
                # what is resolved is never kept: whoever runs a task resolves its payload again
                tasks = tuple(replace(t, payload=resolved.unresolved(t.payload)) for t in tasks)
        except BaseException as error:  # noqa: BLE001  # the user's, told by the worker
            # `sys.exit()` in a plan as well: it would end the thread that plans for all connectors
            # here, as its text and its secrets may be slow to get
            return Plan(name, config, trace=stack_trace(error, secrets))
        try:
            excess = check_count(name, config, len(tasks))
        except ConnectorConfigError as wrong:
            return Plan(name, config, trace=stack_trace(wrong, secrets))
        if excess is not None:
            logger.warning(excess)
        return Plan(name, config, tasks, secrets=secrets)


def _warn(name: str) -> None:
    logger.warning("connector %s: planning its tasks has taken %d ms so far", name, _SLOW_MS)


def fencing_token(configs: ClusterConfigState, generation: int) -> int:
    """Return the token of a generation: greater than all earlier ones, even if Kafka restarts its generations."""
    return configs.epoch << _EPOCH_BITS | max(0, generation)


class Leader:
    """The leader's part of a worker; belongs to the worker's thread. `wake` is called from any thread when `lead` has something to do."""

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        permanent: Mapping[str, Config],
        worker_id: str,
        plan_interval_ms: int,
        wake: Callable[[], None],
        providers: ConfigProviders = NO_PROVIDERS,
    ) -> None:
        self.plan_at_ms: int | None = None
        """When all connectors are planned next; None: not before something changes."""
        self._plans: deque[Plan] = deque()
        self._store = store
        self._permanent = dict(permanent)
        self._worker_id = worker_id
        self._plan_interval_ms = plan_interval_ms
        self._classes = classes
        self._standbys_of: tuple[int, Mapping[str, Work], int] | None = None
        self._standbys_at_ms = 0
        self._planner = Planner(classes, wake, providers)
        self._key: SessionKey | None = None  # the last one that was found good, and for how long
        self._key_until_ms = 0
        self._claimed = False

    def follow(self) -> None:
        """Stop leading: another worker leads."""
        self._claimed = False
        self.plan_at_ms = None
        self._plans.clear()
        self._standbys_of = None

    def lead(
        self, generation: int, now_ms: int, assignments: Mapping[str, Work] | None = None
    ) -> ClusterConfigState:
        """Do what is due as the leader: become the writer of configurations, plan, and assign standbys. Return the configurations.

        `assignments` is the work of each member, by member id; None if there are no other workers.
        Raises StoreFencedError if another worker has become the leader meanwhile. Raises StoreError if configurations cannot be written.
        """
        if not self._claimed:
            self._claim()
        configs = self._store.configs()
        for name, config in self._permanent.items():
            if configs.connectors.get(name) != config:
                configs = self.write(connector_records(name, config))
        if self.plan_at_ms is not None and now_ms >= self.plan_at_ms:
            interval_ms = self._plan_interval_ms
            self.plan_at_ms = now_ms + interval_ms if interval_ms else None
            self._ask(configs.connectors, configs)
        self._plans.extend(self._planner.take())
        while self._plans:
            # one that cannot be written for now stays, and so do those behind it
            configs = self._planned(self._plans[0], generation, configs)
            self._plans.popleft()
        if assignments is not None:
            self._keep_standbys(generation, now_ms, assignments, configs)
        return configs

    def _keep_standbys(
        self,
        generation: int,
        now_ms: int,
        assignments: Mapping[str, Work],
        configs: ClusterConfigState,
    ) -> None:
        """Write the standby assignment if it has changed."""
        seen = generation, assignments, configs.offset
        # while the group rebalances there is no token to write it under
        if generation < 0 or seen == self._standbys_of or now_ms < self._standbys_at_ms:
            return
        before, replicas = self._store.standbys().standbys, configs.replicas()
        after: Standbys = {}
        if before or replicas:
            there = {task: ids for task, ids in before.items() if configs.contains(task)}
            after = choose_standbys(assignments, replicas, there)
        if after != before:
            record = StandbyRecord(fencing_token(configs, generation), after)
            try:
                self._store.put_standbys(record)
            except StoreError as error:
                # without it tasks start cold: no reason to hold the rest of the group's work up
                logger.warning("cannot write the standby assignment: %s", error)
                self._standbys_at_ms = now_ms + _RETRY_MS
                return
        self._standbys_of = seen

    def plan(self, names: Iterable[str]) -> None:
        """Queue connectors to have their tasks planned; unknown, paused and stopped ones are left out."""
        self._ask(names, self._store.configs())

    def _ask(self, names: Iterable[str], configs: ClusterConfigState) -> None:
        for name in names:
            config = configs.connectors.get(name)
            if config is not None and configs.target_state(name) is TargetState.STARTED:
                self._planner.ask(name, config)

    def write(self, records: Sequence[Record]) -> ClusterConfigState:
        """Write records of the config topic, after claiming it if this worker has not. Only the leader may do this.

        Raises StoreFencedError if another worker has become the leader meanwhile. Raises StoreError if they were not stored in time.
        """
        if not self._claimed:
            self._claim()
        try:
            self._store.write_configs(records)
        except StoreFencedError:
            self._claimed = False
            raise
        return self._store.configs()

    def rotate_key(self, settings: SessionKeySettings, now_ms: int) -> None:
        """Hand out the group's first or next session key, when that is due (KIP-507)."""
        current = self._store.configs().session_key
        if current is not None and current is self._key and now_ms < self._key_until_ms:
            return
        key = settings.next_key(current, now_ms)
        if key is not None:
            self.write([key.record()])
        elif current is not None:
            self._key, self._key_until_ms = current, settings.expires_ms(current)

    def begin_epoch(self) -> None:
        """Record that the group's generations restarted, so that fencing tokens keep growing."""
        self.write([epoch_record(self._store.configs().epoch + 1)])

    def close(self) -> None:
        self._planner.close()

    def _claim(self) -> None:
        self._store.claim()
        self._claimed = True

    def _planned(
        self, plan: Plan, generation: int, configs: ClusterConfigState
    ) -> ClusterConfigState:
        if configs.connectors.get(plan.name) != plan.config:
            return configs  # changed meanwhile, and asked again
        if configs.target_state(plan.name) is TargetState.STOPPED:
            return configs
        before = [configs.task_configs.get(each, {}) for each in configs.task_ids(plan.name)]
        trace = plan.trace
        if trace is None:
            try:
                after = numbered(before, plan.tasks)
            except ConnectorConfigError as wrong:
                trace = stack_trace(wrong, plan.secrets)
            else:
                if before == after and plan.name not in configs.inconsistent:
                    return configs
                try:
                    return self.write(task_records(plan.name, after))
                except RecordTooLargeError as too_large:
                    trace = stack_trace(too_large)
        kind = plan.config.get(CLASS_KEY, "")
        if kind not in self._classes:
            # a worker in Java may know it: who owns it runs it and sends its tasks, or says that it cannot
            logger.info("connector %s is of a class unknown to this leader: %r", plan.name, kind)
            return configs
        logger.warning("connector %s failed to plan its tasks: %s", plan.name, for_log(trace))
        token = fencing_token(configs, generation)
        status = Status(State.FAILED, self._worker_id, token, trace)
        self._store.put_status(status_key(plan.name), status)
        return configs
