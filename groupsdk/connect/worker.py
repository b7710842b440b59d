"""Run one worker: carry out the decisions of herder and coordinator, on one thread."""

import logging
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from groupsdk.clock import SystemClock, WallClock
from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.connectors.admin import ConnectorAdmin, WorkerRequests
from groupsdk.connect.errors import ConnectError
from groupsdk.connect.group.coordinator import MembershipView, OpenGroup
from groupsdk.connect.group.herder import Herder, HerderState, ReadConfigs, Reconcile, Rejoin
from groupsdk.connect.group.leader import Leader, fencing_token
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState, Config, RestartRequest
from groupsdk.connect.store.store import ConnectStore
from groupsdk.connect.tasks.supervisor import Supervisor
from groupsdk.connect.tasks.task import Connector
from groupsdk.connect.worker_metrics import REBALANCE, Metric
from groupsdk.errors import GroupSdkError
from groupsdk.wire.connect_protocol import ConnectAssignment, ConnectorTaskId


logger = logging.getLogger(__name__)

_LONG_S: Final = 5.0
_GUARD_S: Final = 0.1
_AWAY_S: Final = 0.2
_STUCK_MS: Final = 300_000
"""More than the longest step takes: ending tasks, and waiting for Kafka a few times."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a worker (KIP-1017).

    Attributes:
        status: "starting", "healthy" or "unhealthy".
        message: why, for people.
    """

    status: Literal["starting", "healthy", "unhealthy"]
    message: str


class ConnectWorker:
    """One worker. Public methods may be called from any thread.

    Args:
        open_group: makes the membership.
        store: keeps what outlives the worker.
        classes: connectors' classes, by the names that configurations use.
        permanent: connectors that are there always, with their configurations; the leader writes them.
        config: the worker's settings.
    """

    def __init__(
        self,
        open_group: OpenGroup,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        permanent: Mapping[str, Config],
        config: ConnectConfig,
    ) -> None:
        self.worker_id = config.worker_id or f"{socket.gethostname()}:{os.getpid()}"
        self.error: BaseException | None = None
        """Why the worker ended by itself."""
        self._clock = SystemClock()
        self._sync_timeout_ms = config.worker_sync_timeout_ms
        self._herder = Herder()
        self._store = store
        self.requests = WorkerRequests(self._clock, self._wake)
        """What other threads have this worker run between two of its steps."""
        self._group = open_group(self, store.configs)
        self._supervisor = Supervisor(
            store=store,
            classes=classes,
            worker_id=self.worker_id,
            policy=config.restart,
            grace_ms=config.task_shutdown_graceful_timeout_ms,
            clock=self._clock,
            notify=self._wake,
            holds=self._may_go_on,
            lease=self._lease,
            lapsed=self._halt,
            tracks_topics=config.topic_tracking_enable,
            providers=config.providers,
        )
        self._leader = Leader(
            store=store,
            classes=classes,
            permanent=permanent,
            worker_id=self.worker_id,
            plan_interval_ms=config.plan_interval_ms,
            wake=self._wake,
            providers=config.providers,
        )
        self.admin = ConnectorAdmin(
            store=store,
            classes=classes,
            supervisor=self._supervisor,
            leader=self._leader,
            group=self._group,
            requests=self.requests,
            token_after=self.token_after,
            session_keys=config.session_keys,
            topic_tracking=config.topic_tracking,
            providers=config.providers,
        )
        """Changes connectors, and shows what becomes of them."""
        self._date = WallClock(self._clock)
        self._configs = ClusterConfigState()
        self._stepped_ms = self._clock.now_ms()
        self._halted = False
        self._away = False
        self._ready = False
        self._warmed: tuple[object, ...] | None = None
        self._stopping = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupsdk-worker", daemon=True)
        store.on_change = self._wake
        store.on_request = self.admin.requested

    def start(self) -> None:
        """Start the worker. Return when the stored data has been read.

        Raises:
            StoreError: it could not be read.
        """
        self._store.start()
        self._configs = self._store.configs()
        self._thread.start()
        threading.Thread(target=self._guard, name="groupsdk-worker-guard", daemon=True).start()

    def stop(self, timeout: float = 30.0) -> bool:
        """Revoke all work, leave the group and end the worker. May be repeated.

        Args:
            timeout: the longest wait, in seconds; after it the worker continues to shut down.

        Returns:
            Whether the worker has ended.
        """
        self._stopping.set()
        self._wake()
        if self._thread.ident is None:
            self._store.close()
            return True
        return self._stopped.wait(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended. Return whether it has.

        Args:
            timeout: the longest wait, in seconds; None: no limit.
        """
        return self._stopped.wait(timeout)

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads the group."""
        return self._group.view().is_leader

    @property
    def leader_url(self) -> str | None:
        """The leader's URL; None while it is unknown, "" if the leader serves no HTTP."""
        return self._group.view().leader_url

    def health(self) -> Health:
        """Return whether this worker is ready: a member of its group and in contact with it."""
        if self._stopped.is_set():
            why = "" if self.error is None else f": {type(self.error).__name__}: {self.error}"
            return Health("unhealthy", f"the worker has stopped{why}")
        if self._away:
            return Health(
                "unhealthy", "the worker has left the group because it cannot read configurations"
            )
        if not self._ready:
            return Health("starting", "the worker has not joined the group yet")
        if (trouble := self._group.out_of_touch()) is not None:
            return Health("unhealthy", f"the worker has lost contact with its group: {trouble}")
        return Health("healthy", "the worker is an active member of the group")

    def liveness(self) -> Health:
        """Return whether this worker runs, with or without Kafka."""
        if self._stopped.is_set():
            return Health("unhealthy", "the worker has stopped")
        held_ms = self._clock.now_ms() - self._stepped_ms
        if held_ms > _STUCK_MS:
            return Health("unhealthy", f"the worker's thread has been blocked for {held_ms} ms")
        return Health("healthy", "the worker is running")

    def metrics(self) -> list[Metric]:
        """Return the metrics of this worker, under Kafka Connect's names (KIP-475).

        Rebalances are left out where there is no group.
        """
        metrics = self._supervisor.metrics()
        for name, value in self._group.rebalance_metrics().items():
            metrics.append(Metric(REBALANCE, name, value))
        return metrics

    @property
    def owned(self) -> Work:
        """The work that this worker runs."""
        return self._supervisor.owned()

    @property
    def kept_warm(self) -> list[ConnectorTaskId]:
        """The tasks of which this worker is a standby."""
        return self._supervisor.kept_warm()

    @property
    def member_id(self) -> str:
        """This worker's member id, as in `ConnectorAdmin.standbys`; "" while it has none."""
        stable = self._group.view().generation
        return "" if stable is None else stable.member_id

    @property
    def state(self) -> HerderState:
        """The state of this worker between two rebalances."""
        return self._herder.state

    def reconfigure(self) -> None:
        """Have the leader plan the tasks of all connectors again."""

        def again() -> None:
            if self._group.view().is_leader:
                self._leader.plan(self._configs.connectors)
            else:
                self._group.request_rejoin("connectors are to be asked for their tasks")

        self.requests.post(again)

    def token_after(self, name: str) -> int | None:
        """Return the fencing token of a generation in which a connector's tasks have no owner; None while there is none."""
        stable = self._group.view().generation
        if stable is None or not self._herder.settled:
            return None
        assignments = (self._group.assignments or {"": self.owned}).values()
        if any(task.connector == name for work in assignments for task in work.tasks):
            return None
        return fencing_token(self._configs, stable.generation_id)

    # Called by the coordinator, on the worker's thread.

    def on_assigned(self, assignment: ConnectAssignment, generation: int) -> None:
        """Handle an assignment (`RebalanceListener`). Called on the worker's thread only."""
        self._herder.assigned(assignment, generation, self._clock.now_ms())

    def on_revoked(self, work: Work) -> None:
        """Stop work, and return when it has stopped (`RebalanceListener`). Called on the worker's thread only."""
        self._herder.revoked(work)
        self._supervisor.stop(work)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    if not self._stays_away():
                        self._group.poll(self._tick())
                except ConnectError as error:
                    self._trouble(error)
                except GroupSdkError as error:
                    if not error.retriable:
                        raise
                    self._trouble(error)
        except BaseException as error:  # kept for whoever waits
            logger.exception("worker %s: stopping after an unexpected error", self.worker_id)
            self.error = error
        finally:
            self._end()

    def _stays_away(self) -> bool:
        """Stay out of the group while reading configurations failed, as they may be outdated.

        As Kafka Connect's workers leave after `worker.sync.timeout.ms`; those that can read take the work over.
        """
        failing_ms = self._store.failing_ms()
        if failing_ms <= (0 if self._away else self._sync_timeout_ms):
            self._away = False
            return False
        if not self._away:
            logger.error(
                "worker %s: leaving the group: configurations could not be read for %d ms",
                self.worker_id,
                failing_ms,
            )
            self._group.leave_group("reading configurations failed")
            self._herder.lost()
            self._away = True
        self._stepped_ms = self._clock.now_ms()
        # out of the group nobody leads, and there is nothing to wait for
        self.requests.run(holds_back=False)
        self._stopping.wait(_AWAY_S)
        return True

    def _trouble(self, error: Exception) -> None:
        logger.warning("worker %s: %s: %s", self.worker_id, type(error).__name__, error)
        self._stopping.wait(0.5)

    def _end(self) -> None:
        steps = (self._group.close, self._supervisor.close, self._leader.close, self._store.close)
        for step in steps:
            try:
                step()
            except Exception:
                logger.exception("worker %s: failed to shut down cleanly", self.worker_id)
        self._stopped.set()
        self.requests.close()

    def _tick(self) -> float:
        """Run what is due. Return the seconds until the next step."""
        if self._halted:
            self._group.revoke_everything("work was halted because the session was about to expire")
            self._group.request_rejoin("work was halted")
            self._halted = False
        self._apply_configs(self._store.configs())
        if self.requests.pending:
            self.requests.run(holds_back=self._group.view().leader_url is None)
            self._apply_configs(self._store.configs())
        self._stepped_ms = now_ms = self._clock.now_ms()
        while (step := self._herder.step(self._configs, now_ms)) is not None:
            match step:
                case ReadConfigs():
                    self._read_configs()
                case Rejoin(reason):
                    self._group.request_rejoin(reason)
                    break
                case Reconcile(work, generation):
                    self._reconcile(work, generation)
            now_ms = self._clock.now_ms()
        # asked after these steps, which may take long
        view = self._group.view()
        self._lead(view, now_ms)
        self._keep_warm(view)
        due_ms = self._supervisor.tick(self._configs)
        times = due_ms, self._herder.rejoin_at_ms, self._leader.plan_at_ms, self.requests.due_ms
        later = [each for each in times if each]
        if not self.requests.empty:
            return 0.0
        return max(0.0, min([_LONG_S, *((each - now_ms) / 1000 for each in later)]))

    def _apply_configs(self, new: ClusterConfigState) -> None:
        old = self._configs
        if new.offset == old.offset:
            return
        self._configs = new
        reaction = self._herder.configs_changed(old, new)
        if reaction.stop_tasks:
            self._supervisor.stop(Work((), tuple(reaction.stop_tasks)), unassigned=False)
        for name in reaction.restart_connectors:
            self._supervisor.restart(RestartRequest(name, include_tasks=True), new)
        if reaction.retarget:
            self._supervisor.retarget(reaction.retarget, new)

    def _read_configs(self) -> None:
        try:
            self._store.read_configs(self._sync_timeout_ms)
        except ConnectError as error:
            logger.warning("worker %s: %s", self.worker_id, error)
            self._herder.configs_read(False)
        else:
            self._herder.configs_read(True)
        # not `_apply_configs`, which would ask for another rebalance: the assignment counts on these
        old, self._configs = self._configs, self._store.configs()
        changed = Work((), tuple(self._herder.changed_tasks(old, self._configs)))
        if changed:
            self._supervisor.stop(changed, unassigned=False)

    def _reconcile(self, work: Work, generation: int) -> None:
        token = fencing_token(self._configs, generation)
        if self._store.last_token() > token:
            view = self._group.view()
            stable = view.generation
            if view.is_leader and stable is not None and stable.generation_id == generation:
                # Kafka has forgotten the group meanwhile, and counts from the beginning
                self._leader.begin_epoch()
                return
        self._supervisor.reconcile(work, self._configs, token)
        self._ready = True
        # a worker that does not lead drops this in `_lead`
        self._leader.plan_at_ms = self._clock.now_ms()

    def _lead(self, view: MembershipView, now_ms: int) -> None:
        if not view.is_leader:
            self._leader.follow()
        elif self._herder.settled:
            generation = -1 if view.generation is None else view.generation.generation_id
            if self.admin.signs_requests:
                self._leader.rotate_key(self.admin.session_keys, self._date.now_ms())
            configs = self._leader.lead(generation, now_ms, self._group.assignments)
            self._apply_configs(configs)

    def _keep_warm(self, view: MembershipView) -> None:
        """Run the standbys chosen by the leader; during a rebalance, those chosen before it."""
        stable = view.generation
        if not self._herder.settled or stable is None:
            return
        record = self._store.standbys()
        seen = record, stable.member_id, self._configs.offset, self._herder.work
        if seen == self._warmed:
            return
        self._warmed = seen
        mine = [task for task, ids in record.standbys.items() if stable.member_id in ids]
        self._supervisor.keep_warm(mine, self._configs)

    def _guard(self) -> None:
        """Halt all work when the session is nearly over, even while the worker's thread is held up."""
        while not self._stopped.wait(_GUARD_S):
            if self._halted:
                continue
            if self._supervisor.owned().tasks and not self._group.holds_for(self._margin_ms):
                self._halt()
            else:
                self._supervisor.renew_lease()

    def _lease(self) -> tuple[int, int]:
        """Return until when task processes may continue, and by when they must have ended."""
        until_ms = self._group.held_until_ms()
        return (0, 0) if until_ms is None else (until_ms - self._margin_ms, until_ms)

    @property
    def _margin_ms(self) -> int:
        return self._group.margin_ms // 2

    def _may_go_on(self) -> bool:
        """Return whether tasks may continue, called from their threads; halts all of them if not."""
        if self._halted:
            return False
        if not self._group.holds_for(0):
            self._halt()
            return False
        return True

    def _halt(self) -> None:
        logger.warning("worker %s: halting its tasks: its session expired", self.worker_id)
        # In this order: the worker's thread sees the flag and joins again, and may have started the tasks that it is
        # given then before a thread that was held up here goes on. Nobody would start those again.
        self._supervisor.halt()
        self._halted = True
        self._wake()

    def _wake(self) -> None:
        self._group.wakeup()
