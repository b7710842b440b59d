"""Do what only the group's leader does: write configurations, and keep each connector's tasks as it plans them.

Connectors are asked for their tasks on a thread of its own, since `plan` may take as long as it likes; those behind it
do not wait for it.
"""

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from groupsdk.connect.config_backing_store import (
    ClusterConfigState,
    Config,
    Record,
    TargetState,
    connector_records,
    epoch_record,
    task_records,
)
from groupsdk.connect.connector_config import check_count
from groupsdk.connect.errors import (
    ConnectorConfigError,
    RecordTooLargeError,
    StoreError,
    StoreFencedError,
)
from groupsdk.connect.loggers import connector_context
from groupsdk.connect.secrets import NO_PROVIDERS, ConfigProviders, secrets_of
from groupsdk.connect.session_key import SessionKey, SessionKeySettings
from groupsdk.connect.status_backing_store import State, Status, for_log, stack_trace, status_key
from groupsdk.connect.store import ConnectStore
from groupsdk.connect.task import CLASS_KEY, Connector, Task, checked_tasks, numbered
from groupsdk.connect.work import StandbyRecord, Standbys, Work, choose_standbys


logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks that a connector planned, or why it could not."""

    name: str
    """The connector's name."""
    config: Config
    """The configuration that the tasks were planned for."""
    tasks: Sequence[Task] = ()
    """Its tasks, in the order of their numbers."""
    trace: str | None = None
    """The stack trace of its class, with secrets masked; None: it has planned."""
    secrets: Collection[str] = field(default=(), repr=False, compare=False)
    """The values to mask in errors."""


_SLOW_MS: Final = 5_000
_MOST_THREADS: Final = 16


class Planner:
    """Plans the tasks of one connector after the other, on a thread of its own.

    Where a plan takes long, another thread plans the connectors behind it: see `relieve`.

    Args:
        classes: connectors' classes by the names that configurations use.
        notify: called, on that thread, when `take` has a result.
        providers: where the variables of configurations come from.
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
        self._answers: queue.SimpleQueue[Plan] = queue.SimpleQueue()
        self._planning: set[str] = set()
        self._since_ms: dict[str, int] = {}
        self._slow: set[str] = set()
        self._threads = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a connector is being planned, or is queued."""
        with self._lock:
            return self._threads > 0

    def ask(self, name: str, config: Config) -> None:
        """Queue a connector to have its tasks planned. Thread-safe.

        Args:
            name: the connector's name.
            config: its configuration; it replaces the one with which it is still queued.
        """
        with self._lock:
            if self._closed:
                return
            self._waiting[name] = config
            self._start()

    def take(self) -> list[Plan]:
        """Return the plans since the last call."""
        answers = []
        while not self._answers.empty():
            answers.append(self._answers.get())
        return answers

    def relieve(self, now_ms: int) -> int | None:
        """Have another thread plan the connectors that wait behind one whose plan takes long.

        Args:
            now_ms: the time.

        Returns:
            When to call again; None: no connector is being planned that was not found slow before.
        """
        found = []
        with self._lock:
            since = {name: self._since_ms.get(name, now_ms) for name in self._planning}
            self._since_ms = since
            for name, began_ms in since.items():
                if name not in self._slow and now_ms >= began_ms + _SLOW_MS:
                    self._slow.add(name)
                    found.append(name)
            self._start()
            later = [began_ms for name, began_ms in since.items() if name not in self._slow]
        for name in found:
            logger.warning(
                "connector %s has been planning its tasks for %d ms and goes on", name, _SLOW_MS
            )
        return min(later) + _SLOW_MS if later else None

    def close(self) -> None:
        """Ask no more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()

    def _start(self) -> None:
        """Start a thread where connectors wait for none but slow ones; the caller has the lock."""
        ready = any(name not in self._planning for name in self._waiting)
        if ready and self._threads <= len(self._slow) < _MOST_THREADS:
            self._threads += 1
            threading.Thread(target=self._work, name="groupsdk-planner", daemon=True).start()

    def _work(self) -> None:
        while (asked := self._next()) is not None:
            name, config = asked
            plan = self._answer(name, config)
            with self._lock:
                self._planning.discard(name)
                self._since_ms.pop(name, None)
                self._slow.discard(name)
            self._answers.put(plan)
            self._notify()

    def _next(self) -> tuple[str, Config] | None:
        """Return what this thread is to plan; None: it ends."""
        with self._lock:
            # the same connector is never planned twice at a time
            ready = next((name for name in self._waiting if name not in self._planning), None)
            # one that was slow may find another at work in its place
            if ready is None or self._threads > len(self._slow) + 1:
                self._threads -= 1
                return None
            self._planning.add(ready)
            return ready, self._waiting.pop(ready)

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
                secrets |= {*resolved.variables, *secrets_of(resolved.config, kind.secrets)}
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


_EPOCH_BITS: Final = 32
_RETRY_MS: Final = 10_000


def fencing_token(configs: ClusterConfigState, generation: int) -> int:
    """Return the token of a generation: greater than all earlier ones, even if Kafka restarts its generations.

    Args:
        configs: the configurations, with the epoch that counts the restarts of generations.
        generation: the generation of the group; -1 counts as 0.
    """
    return configs.epoch << _EPOCH_BITS | max(0, generation)


class Leader:
    """The leader's part of a worker; belongs to the worker's thread.

    Args:
        store: where configurations are written.
        classes: connectors' classes, by the names that configurations use.
        permanent: connectors that are there always.
        worker_id: what this worker is called in statuses.
        plan_interval_ms: how often to plan the tasks of all connectors, in milliseconds; 0: only at rebalances.
        wake: called from any thread when `lead` has something to do.
        providers: where the variables of configurations come from.
    """

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
        self.relieve_at_ms: int | None = None
        """When to look whether a connector's plan takes too long for the others; None: none is planned."""
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
        self.plan_at_ms = self.relieve_at_ms = None
        self._plans.clear()
        self._standbys_of = None

    def lead(
        self, generation: int, now_ms: int, assignments: Mapping[str, Work] | None = None
    ) -> ClusterConfigState:
        """Do what is due as the leader: become the writer of configurations, plan, and assign standbys.

        Args:
            generation: the generation of the group that this worker leads.
            now_ms: the time.
            assignments: the work of each member, by member id; None if there are no other workers.

        Returns:
            The configurations after it.

        Raises:
            StoreError: configurations cannot be written.
            StoreFencedError: another worker has become the leader meanwhile.
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
        self.relieve_at_ms = self._planner.relieve(now_ms)
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
        """Say who keeps what warm, where that has changed."""
        seen = generation, assignments, configs.offset
        # while the group rebalances there is no token to say it under
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
        """Queue connectors to have their tasks planned; unknown, paused and stopped ones are left out.

        Args:
            names: the connectors' names.
        """
        self._ask(names, self._store.configs())

    def _ask(self, names: Iterable[str], configs: ClusterConfigState) -> None:
        for name in names:
            config = configs.connectors.get(name)
            if config is not None and configs.target_state(name) is TargetState.STARTED:
                self._planner.ask(name, config)

    def write(self, records: Sequence[Record]) -> ClusterConfigState:
        """Write configurations, after claiming them if this worker has not. Only the leader may do this.

        Args:
            records: keys and values of the config topic, in order.

        Returns:
            The configurations with these records.

        Raises:
            StoreFencedError: another worker has become the leader meanwhile.
            StoreError: they were not stored in time.
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
        """Hand out the group's first or next session key, when that is due (KIP-507).

        Args:
            settings: how keys are made, and how long they last.
            now_ms: the time in milliseconds since 1970.
        """
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
        """Ask no more."""
        self._planner.close()

    def _claim(self) -> None:
        self._store.claim()
        self._claimed = True

    def _planned(
        self, plan: Plan, generation: int, configs: ClusterConfigState
    ) -> ClusterConfigState:
        """Take up a plan. Return the configurations after it."""
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
