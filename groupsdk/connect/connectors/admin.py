"""Manage the connectors of running workers, for the REST API and for programs."""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from groupsdk.clock import Clock
from groupsdk.connect.connectors.connector_config import check_config
from groupsdk.connect.connectors.secrets import MASK, ConfigProviders, unmasked
from groupsdk.connect.connectors.validation import ValidationThreads, then
from groupsdk.connect.errors import (
    ConnectorConfigError,
    ConnectorExistsError,
    NotLeaderError,
    RebalancingError,
    UnknownConnectorError,
)
from groupsdk.connect.group.coordinator import WorkerMembership
from groupsdk.connect.group.leader import Leader
from groupsdk.connect.loggers import Loggers, level_name
from groupsdk.connect.rest.session_key import SessionKeySettings
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    ClusterRequest,
    Config,
    LoggerLevel,
    RestartRequest,
    TargetState,
    connector_records,
    fencing_record,
    logger_record,
    restart_record,
    target_state_record,
    task_records,
)
from groupsdk.connect.store.status_backing_store import Status, TopicTracking, status_key
from groupsdk.connect.store.store import ConnectStore
from groupsdk.connect.tasks.supervisor import Supervisor
from groupsdk.connect.tasks.task import CLASS_KEY, Connector, TaskState
from groupsdk.wire.connect_protocol import ConnectorTaskId


logger = logging.getLogger(__name__)

T = TypeVar("T")
_STATES_MS: Final = 15_000
_CATCH_UP_MS: Final = 3_000


HOLD_MS: Final = 45_000
"""How long a request for the leader waits while nobody leads; less than HTTP clients and forwarding workers wait."""


class WorkerRequests:
    """The queue of requests to one worker, run by its thread between two steps.

    `put`, `post` and `empty` may be used from any thread, the rest on the worker's.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], int | None]] = queue.SimpleQueue()
        self._held: list[tuple[Callable[[], None], int]] = []
        self._closed = False
        self._closing = threading.RLock()

    def put(self, act: Callable[[], T], *, of_leader: bool = False) -> "Future[T]":
        """Run a function between two steps of the worker. Return a future of its result.

        A future that is cancelled before its turn has come is left out. With `of_leader` it waits until the group's leader is known, as
        in Kafka Connect: for up to 45 seconds while the group rebalances.
        """
        future: Future[T] = Future()

        def run() -> None:
            # a future that its caller has given up takes no result: it would raise, and end the worker
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = act()
            except Exception as error:  # noqa: BLE001  # the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        self._queue.put((run, self._clock.now_ms() + HOLD_MS if of_leader else None))
        self._wake()
        if self._closed:
            self._run_the_rest()
        return future

    def post(self, act: Callable[[], None]) -> None:
        """Run a function between two steps of the worker, without waiting for it. Thread-safe."""
        self._queue.put((act, None))
        self._wake()

    @property
    def empty(self) -> bool:
        return self._queue.empty()

    @property
    def pending(self) -> bool:
        """Whether there are requests to run, or to hold back any longer."""
        return bool(self._held) or not self._queue.empty()

    @property
    def due_ms(self) -> int | None:
        """When the first request waiting for a leader times out."""
        return min((until_ms for _, until_ms in self._held), default=None)

    def run(self, *, holds_back: bool) -> None:
        """Run all queued requests; with `holds_back` those for the leader wait, since there soon may be one."""
        now_ms = self._clock.now_ms()
        held, self._held = self._held, []
        for act, until_ms in held:
            self._run_or_hold(act, until_ms, holds_back, now_ms)
        while True:
            try:
                act, waits_until_ms = self._queue.get_nowait()
            except queue.Empty:
                return
            self._run_or_hold(act, waits_until_ms, holds_back, now_ms)

    def close(self) -> None:
        """Run the waiting requests without a leader; run later requests on the caller's thread."""
        # in this order: whoever asks from here on looks, and runs by itself what came too late
        self._closed = True
        self._run_the_rest()

    def _run_the_rest(self) -> None:
        with self._closing:
            self.run(holds_back=False)

    def _run_or_hold(
        self, act: Callable[[], None], until_ms: int | None, holds_back: bool, now_ms: int
    ) -> None:
        if holds_back and until_ms is not None and now_ms < until_ms:
            self._held.append((act, until_ms))
        else:
            act()


class ConnectorAdmin:
    """Creates, changes and inspects connectors. All methods may be called from any thread.

    A worker holds one: `ConnectWorker.admin`. What changes configurations happens on the leader; on any other worker
    its future raises `NotLeaderError`, which says where the leader is, and `RebalancingError` while that is not known.
    """

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        supervisor: Supervisor,
        leader: Leader,
        group: WorkerMembership,
        requests: WorkerRequests,
        token_after: Callable[[str], int | None],
        session_keys: SessionKeySettings,
        topic_tracking: TopicTracking,
        providers: ConfigProviders,
    ) -> None:
        self.providers = providers
        self.topic_tracking = topic_tracking
        self.session_keys = session_keys
        self.loggers = Loggers()
        self.validations = ValidationThreads()
        """Runs whatever calls a class's `validate`, which may hang."""
        self._store = store
        self._classes = dict(classes)
        self._supervisor = supervisor
        self._leader = leader
        self._group = group
        self._requests = requests
        self._token_after = token_after

    @property
    def protocol(self) -> str:
        """The rebalance protocol of the group; "" for a standalone worker."""
        return self._group.protocol

    @property
    def signs_requests(self) -> bool:
        """Whether workers sign their internal requests: with the protocol `sessioned` (KIP-507)."""
        return self._group.protocol == "sessioned"

    def cluster_id(self) -> str:
        """Return the id of the Kafka cluster; "" without Kafka."""
        return self._store.cluster_id()

    def connectors(self) -> list[str]:
        return sorted(self._store.configs().connectors)

    def connector_classes(self) -> dict[str, type[Connector]]:
        return dict(self._classes)

    def configs(self) -> ClusterConfigState:
        """Return all configurations, as far as this worker has read them."""
        return self._store.configs()

    def catch_up(self) -> bool:
        """Read the configurations to their end. Return whether there was anything new. Raises StoreError if that takes too long."""
        before = self._store.configs().offset
        self._store.read_configs(_CATCH_UP_MS)
        return self._store.configs().offset != before

    def statuses(self) -> Mapping[str, Status]:
        """Return the last status of each connector and task, written by its owner.

        Keys are those of `status_key`; `worker_id` is the owner.
        """
        return self._store.statuses()

    def standbys(self) -> Mapping[ConnectorTaskId, Sequence[str]]:
        """Return the ids of the members with standbys of each task, the preferred one first, as the leader decided."""
        return self._store.standbys().standbys

    def validate(self, config: Config) -> None:
        """Check a connector's configuration: its class, that its values are strings, and what the class requires.

        Variables in it are resolved for the check (KIP-297), and not returned.

        Raises:
            ConnectorConfigError: a value is missing or invalid; `field` names its key.
            ConnectError: the class's own `validate` raised something else, whose message held a secret.
        """
        name = config.get(CLASS_KEY)
        if not name:
            raise ConnectorConfigError(CLASS_KEY, "is missing")
        kind = self._classes.get(name)
        if kind is None:
            known = ", ".join(sorted(self._classes)) or "none"
            raise ConnectorConfigError(
                CLASS_KEY, f"unknown class {name!r}; the known ones: {known}"
            )
        for key, value in config.items():
            if not isinstance(value, str):
                raise ConnectorConfigError(key, f"must be a string, not {value!r}")
        check_config(kind, config, self.providers)

    def _validated(self, config: Config) -> "Future[None]":
        class_name = config.get(CLASS_KEY)
        if class_name not in self._classes:
            self.validate(config)  # which says so
        return self.validations.start(class_name or "", lambda: self.validate(config))

    def put_connector(
        self,
        name: str,
        config: Config,
        *,
        create_only: bool = False,
        target: TargetState | None = None,
    ) -> "Future[bool]":
        """Create a connector or change its configuration. The future returns whether it is new.

        Its class validates the configuration on a thread of its own; while it does, nothing is written. A future that is
        cancelled before then writes nothing. It raises ConnectorConfigError if the class refuses the configuration.

        Args:
            config: its whole configuration. Masks in it stand for the secrets that are stored.
            target: the state to reach from the start on; None: STARTED, or unchanged if it exists.

        Raises:
            ConnectorConfigError: the name or the class is invalid.
        """
        check_name(name)
        if config.get("name", name) != name:
            raise ConnectorConfigError(
                "name", f"{config['name']!r} differs from the name of the connector, {name!r}"
            )

        def put(whole: Config) -> bool:
            self._check_leads()
            created = name not in self._store.configs().connectors
            if create_only and not created:
                raise ConnectorExistsError(f"connector {name!r} exists already")
            if has_masks and unmasking() != whole:
                raise RebalancingError(f"connector {name!r} changed while it was validated")
            records = [] if target is None else [target_state_record(name, target)]
            self._leader.write([*records, *connector_records(name, whole)])
            self._leader.plan([name])
            return created

        def unmasking() -> Config:
            # masks that come back stand for what only the stored configuration has
            self._check_leads()
            before = self._store.configs().connectors.get(name, {})
            kind = self._classes.get(config.get(CLASS_KEY, ""), Connector)
            return unmasked(config, before, kind.secrets)

        def validate_and_put(whole: Config) -> "Future[bool]":
            validated = self._validated(whole)
            return then(validated, lambda _: self._requests.put(lambda: put(whole), of_leader=True))

        has_masks = any(MASK in str(each) for each in config.values())
        if not has_masks:
            return validate_and_put(config)
        return then(self._requests.put(unmasking, of_leader=True), validate_and_put)

    def delete_connector(self, name: str) -> "Future[None]":
        """Delete a connector; its tasks end, their states are kept. The future raises UnknownConnectorError without such a connector."""

        def delete() -> None:
            tasks = self._store.configs().task_ids(name)
            self._leader.write(connector_records(name, None))
            for key in (status_key(name), *(status_key(name, each.task) for each in tasks)):
                self._store.put_status(key, None)
            self._store.forget_topics(name)

        return self._of_leader(name, delete)

    def set_target_state(self, name: str, target: TargetState) -> "Future[None]":
        """Pause, stop (KIP-875) or resume a connector. The future raises UnknownConnectorError without such a connector."""

        def put() -> None:
            records = [target_state_record(name, target)]
            if target is TargetState.STOPPED:
                records += task_records(name, [])
            self._leader.write(records)
            if target is TargetState.STARTED:
                self._leader.plan([name])

        return self._of_leader(name, put)

    def restart(self, request: RestartRequest) -> "Future[None]":
        """Restart a connector, and its tasks if requested (KIP-745), on the workers that run them.

        The future is done once the request is written, which is before the workers have followed it. It raises UnknownConnectorError
        without such a connector.
        """

        def put() -> None:
            self._leader.write([restart_record(request)])

        return self._of_leader(request.connector, put)

    def set_logger_level(self, name: str, level: str) -> "Future[None]":
        """Set the level of a logger on all workers that run at present (KIP-976).

        "root" is the root logger; levels have Java's or Python's names. Raises UnknownConnectorError if there is no such level.
        """
        request = LoggerLevel(name, level_name(level))

        def put() -> None:
            self._check_leads()
            self._leader.write([logger_record(request)])

        return self._requests.put(put, of_leader=True)

    def restart_task(self, task: ConnectorTaskId) -> "Future[bool]":
        """Restart one task if this worker runs it, which the future returns, and reset its failure count.

        It raises UnknownConnectorError if the task is not configured. No leader is needed.
        """

        def restart() -> bool:
            if not self._store.configs().contains(task):
                raise UnknownConnectorError(f"there is no task {task}")
            owned = task in self._supervisor.owned().tasks
            self._supervisor.restart_tasks([task], self._store.configs())
            return owned

        return self._requests.put(restart)

    def task_states(self, name: str) -> Mapping[str, TaskState]:
        """Return the committed states of a connector's tasks by id, including tasks that are no longer planned."""
        self._check_known(name)
        return self._store.states(name)

    def topics(self, name: str) -> Sequence[str]:
        """Return the topics that a connector's tasks have reported to use, sorted (KIP-558)."""
        self._check_known(name)
        return self._store.topics(name)

    def forget_topics(self, name: str) -> None:
        """Reset the topics that a connector has used; topics still in use reappear."""
        self._check_known(name)
        self._store.forget_topics(name)

    def set_task_states(
        self, name: str, states: Mapping[str, TaskState | None] | None
    ) -> "Future[int]":
        """Set the committed states of a stopped connector's tasks by id (KIP-875). The future returns their number.

        A state of None, and None for all, is forgotten.
        """

        def put() -> int:
            configs = self._store.configs()
            if configs.target_state(name) is not TargetState.STOPPED or configs.task_ids(name):
                raise ConnectorConfigError("offsets", f"connector {name!r} must be stopped first")
            token = self._token_after(name)
            if token is None:
                raise RebalancingError(f"the tasks of {name!r} have not stopped yet")
            wanted = dict.fromkeys(self._store.states(name)) if states is None else states
            kept = {(name, task): state for task, state in wanted.items()}
            if kept:
                self._store.put_states(kept, token, _STATES_MS)
            return len(kept)

        return self._of_leader(name, put)

    def put_task_configs(self, name: str, tasks: Sequence[Config]) -> "Future[None]":
        """Set the task configurations of a connector planned by another worker, as Kafka Connect's workers do."""

        def put() -> None:
            if tasks and self._store.configs().target_state(name) is TargetState.STOPPED:
                raise ConnectorConfigError("tasks", f"connector {name!r} is stopped and has none")
            self._leader.write(task_records(name, tasks))

        return self._of_leader(name, put)

    def fence_tasks(self, name: str) -> "Future[None]":
        """Fence the producers of a connector's former tasks before new ones start (KIP-618)."""

        def fence() -> None:
            configs = self._store.configs()
            self._store.fence_producers(name, configs.fenced_tasks.get(name, 0))
            self._leader.write([fencing_record(name, configs.task_counts.get(name, 0))])

        return self._of_leader(name, fence)

    def requested(self, request: ClusterRequest) -> None:
        """Carry out a request addressed to all workers, as read from the config topic; a level of an unknown name is ignored."""
        if isinstance(request, RestartRequest):
            self._requests.put(lambda: self._supervisor.restart(request, self._store.configs()))
            return
        try:
            self.loggers.set(request.logger, request.level)
        except UnknownConnectorError as error:
            logger.info("a request of the group's is passed over: %s", error)

    def _of_leader(self, name: str, act: Callable[[], T]) -> "Future[T]":
        """Do something about a connector, which has to exist, as the leader."""

        def checked() -> T:
            self._check_leads()
            self._check_known(name)
            return act()

        return self._requests.put(checked, of_leader=True)

    def _check_leads(self) -> None:
        view = self._group.view()
        if view.leader_url is None:
            raise RebalancingError("the group is rebalancing: its leader is unknown")
        if not view.is_leader:
            raise NotLeaderError(view.leader_url)

    def _check_known(self, name: str) -> None:
        if name not in self._store.configs().connectors:
            raise UnknownConnectorError(f"there is no connector {name!r}")


def check_name(name: str) -> None:
    """Raise ConnectorConfigError unless a connector's name has 1 to 200 characters that a URL and a log can carry."""
    if not name or len(name) > 200 or not name.isprintable() or "/" in name or name != name.strip():
        raise ConnectorConfigError(
            "name", f"must be 1 to 200 printable characters without '/', not {name[:60]!r}"
        )
