"""Start, stop and restart this worker's connectors and tasks, and report their statuses."""

import logging
import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from groupsdk.clock import Clock, Deadline, WallClock
from groupsdk.connect.connectors.connector_config import ErrorPolicy
from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders
from groupsdk.connect.errors import ConnectError, TaskFencedError
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    Config,
    RestartRequest,
    TargetState,
)
from groupsdk.connect.store.status_backing_store import (
    MAX_TRACE,
    TASK_TRANSITIONS,
    UNDEFINED,
    State,
    Status,
    TaskTrigger,
    TopicUse,
    for_log,
    status_key,
)
from groupsdk.connect.store.store import ConnectStore, StateKey
from groupsdk.connect.tasks.process_run import ProcessRun, SharedLease
from groupsdk.connect.tasks.runs import (
    BeginCommit,
    Commit,
    CoroutineRun,
    LoopThread,
    Run,
    TaskJob,
    TaskLinks,
    ThreadRun,
    fenced,
)
from groupsdk.connect.tasks.standby_tasks import StandbyTasks
from groupsdk.connect.tasks.task import CLASS_KEY, Connector, Task, TaskState, is_async
from groupsdk.connect.tasks.tolerance import (
    ErrorCounts,
    RecordFailure,
    RestartPolicy,
    RestartTracker,
)
from groupsdk.connect.worker_metrics import (
    CommitTimes,
    ConnectorView,
    Metric,
    Startups,
    TaskView,
    work_metrics,
)
from groupsdk.dead_letters import context_headers
from groupsdk.limits import MAX_INT64
from groupsdk.wire.connect_protocol import ConnectorTaskId


logger = logging.getLogger(__name__)

_FENCE_TIMEOUT_MS = 10_000


@dataclass(slots=True)
class _Slot:
    """One task that this worker owns."""

    task_id: ConnectorTaskId
    config: Config
    token: int
    task: Task
    state: State = State.UNASSIGNED
    run: Run | None = None
    started_ms: int = 0
    restart_at_ms: int | None = None
    tracker: RestartTracker | None = None  # before the first failure
    open: bool = False
    """Whether what the present run commits is still kept."""
    stopping: bool = False
    warm: Any = None
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    commits: CommitTimes = field(default_factory=CommitTimes)


class Supervisor:
    """The tasks of one worker. Call all methods but `halt` from one thread.

    Args:
        grace_ms: how long a task may take to end: `task.shutdown.graceful.timeout.ms`.
        notify: called from any thread when `tick` has something to do.
        holds: returns, on any thread, whether tasks may continue; calls `halt` before it returns False.
        lease: returns until when processes may continue, and when they must have ended.
        lapsed: called from any thread when a process found that it may not; it calls `halt`.
    """

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        worker_id: str,
        policy: RestartPolicy,
        grace_ms: int,
        clock: Clock,
        notify: Callable[[], None],
        random: Random | None = None,
        holds: Callable[[], bool] = lambda: True,
        lease: Callable[[], tuple[int, int]] = lambda: (MAX_INT64, MAX_INT64),
        lapsed: Callable[[], None] = lambda: None,
        tracks_topics: bool = True,
        providers: ConfigProviders = NO_PROVIDERS,
    ) -> None:
        self._tracks_topics = tracks_topics
        self._providers = providers
        self._date = WallClock(clock)
        self._counting = threading.Lock()
        self._connector_starts, self._task_starts = Startups(), Startups()
        self._store = store
        self._classes = classes
        self._worker_id = worker_id
        self._policy = policy
        self._grace_ms = grace_ms
        self._clock = clock
        self._notify = notify
        self._holds = holds
        self._lease_times = lease
        self._lapsed = lapsed
        self._lease: SharedLease | None = None
        self._random = random or Random()
        self._loop = LoopThread()
        self._standbys = StandbyTasks(
            store=store,
            classes=classes,
            policy=policy,
            grace_ms=grace_ms,
            clock=clock,
            notify=notify,
            random=self._random,
            providers=providers,
        )
        self._keeps_warm = False
        self._slots: dict[ConnectorTaskId, _Slot] = {}
        self._connectors: dict[str, State] = {}
        self._ended: queue.SimpleQueue[tuple[_Slot, Run, str | None]] = queue.SimpleQueue()
        self._token = -1

    def reconcile(self, work: Work, configs: ClusterConfigState, token: int) -> None:
        """Own exactly this work: stop everything else, and start what is not running.

        Work missing from `configs`, the latest ones, is not run. States are committed under the fencing `token`.
        """
        self._token = token
        surplus = self.owned().minus(work)
        if surplus:
            self.stop(surplus)
        for name in work.connectors:
            if configs.contains(name):
                self._own_connector(name, configs)
        new = []
        for task_id in work.tasks:
            if task_id in self._slots or not configs.contains(task_id):
                continue
            config = configs.task_configs.get(task_id, {})
            slot = _Slot(task_id, config, token, Task.of(config, task_id.task))
            self._slots[task_id] = slot
            new.append(slot)
        if self._keeps_warm:
            for task_id, warm in self._standbys.promote(slot.task_id for slot in new).items():
                self._slots[task_id].warm = warm
        self._start([slot for slot in new if self._may_run(slot, configs)], configs)

    def keep_warm(self, tasks: Iterable[ConnectorTaskId], configs: ClusterConfigState) -> None:
        """Run standbys of exactly these tasks, except of owned ones; `configs` are the latest configurations."""
        kept = [each for each in tasks if each not in self._slots]
        if kept or self._keeps_warm:  # only a worker that has had a standby goes through them
            self._keeps_warm = True
            self._standbys.keep(kept, configs)

    def kept_warm(self) -> list[ConnectorTaskId]:
        """Return the tasks of which this worker is a standby."""
        return self._standbys.kept()

    def owned(self) -> Work:
        return Work(tuple(self._connectors), tuple(self._slots))

    def metrics(self) -> list[Metric]:
        """Return the metrics of owned work and of startups. May be called from any thread."""
        with self._counting:
            tasks = [
                TaskView(each.task_id, each.state, replace(each.commits), replace(each.errors))
                for each in list(self._slots.values())
            ]
            started = self._connector_starts.metrics("connector") + self._task_starts.metrics(
                "task"
            )
        owned = dict(self._connectors)
        names = dict.fromkeys([*owned, *(each.task_id.connector for each in tasks)])
        configs = self._store.configs().connectors
        views = [self._view(name, owned.get(name), configs.get(name, {})) for name in names]
        return started + work_metrics(views, tasks)

    def _view(self, name: str, state: State | None, config: Config) -> ConnectorView:
        class_name = config.get(CLASS_KEY, "")
        kind = self._classes.get(class_name)
        if kind is None:
            return ConnectorView(name, state, class_name, "unknown", UNDEFINED)
        return ConnectorView(name, state, class_name, kind.kind, kind.version)

    def stop(self, work: Work, *, unassigned: bool = True) -> None:
        """Give up this work, and wait until its tasks have ended, or are fenced and abandoned.

        With `unassigned` the status UNASSIGNED is written; otherwise the next owner writes its own.
        """
        slots = [self._slots.pop(each) for each in work.tasks if each in self._slots]
        self._end_runs(slots)
        configs = self._store.configs()
        for slot in slots:
            if not configs.contains(slot.task_id):
                self._store.put_status(status_key(*slot.task_id), None)
            elif unassigned:
                self._say(slot, TaskTrigger.RELEASED)
        for name in work.connectors:
            if self._connectors.pop(name, None) is None:
                continue
            if not configs.contains(name):
                self._store.put_status(status_key(name), None)
            elif unassigned:
                self._put(status_key(name), State.UNASSIGNED, self._token, name=name)

    def halt(self) -> None:
        """Tell all tasks to end, and discard their later commits. Returns immediately; thread-safe."""
        for slot in list(self._slots.values()):
            slot.open = False
            run = slot.run
            if run is not None and not slot.stopping:
                slot.stopping = True
                run.stop()

    def renew_lease(self) -> None:
        """Extend the time for which task processes may continue. Called often, from any thread."""
        if self._lease is not None:
            self._lease.renew(*self._lease_times())

    def close(self) -> None:
        self.stop(self.owned())
        self._standbys.close()
        self._loop.close()

    def retarget(self, names: Iterable[str], configs: ClusterConfigState) -> None:
        """Pause, stop or resume connectors, by name, according to the latest configurations."""
        for name in names:
            if name in self._connectors:
                self._own_connector(name, configs)
            slots = [slot for slot in self._slots.values() if slot.task_id.connector == name]
            if configs.target_state(name) is TargetState.STARTED:
                self._start([slot for slot in slots if slot.state is State.PAUSED], configs)
            else:
                self._end_runs(slots)
                for slot in slots:
                    slot.restart_at_ms = None
                    self._say(slot, TaskTrigger.PAUSED)

    def restart(self, request: RestartRequest, configs: ClusterConfigState) -> None:
        """Restart the owned part of a connector, as the request says, with the latest configurations."""
        name = request.connector
        if name in self._connectors:
            self._own_connector(name, configs)
        if request.include_tasks:
            self.restart_tasks(
                [
                    slot.task_id
                    for slot in self._slots.values()
                    if slot.task_id.connector == name
                    and (slot.state is State.FAILED or not request.only_failed)
                ],
                configs,
            )

    def restart_tasks(self, tasks: Iterable[ConnectorTaskId], configs: ClusterConfigState) -> None:
        """Restart the owned ones among some tasks with the latest configurations, and reset their failure counts."""
        slots = [self._slots[each] for each in tasks if each in self._slots]
        self._end_runs(slots)
        for slot in slots:
            slot.tracker = None
            slot.restart_at_ms = None
        self._start([slot for slot in slots if self._may_run(slot, configs)], configs)

    def tick(self, configs: ClusterConfigState) -> int | None:
        """Handle runs that ended, and restart those due, as in the latest `configs`. Return when one is due next."""
        now_ms = self._clock.now_ms()
        while not self._ended.empty():
            slot, run, trace = self._ended.get()
            if slot.run is run and slot.task_id in self._slots:
                self._run_ended(slot, trace, now_ms)
            else:
                _log_end(slot, trace)
        due = [
            slot
            for slot in self._slots.values()
            if slot.restart_at_ms is not None and slot.restart_at_ms <= now_ms
        ]
        if due:
            self._start([slot for slot in due if self._may_run(slot, configs)], configs)
        waiting = [each.restart_at_ms for each in self._slots.values() if each.restart_at_ms]
        if self._keeps_warm and (standby_due_ms := self._standbys.tick()) is not None:
            waiting.append(standby_due_ms)
        return min(waiting, default=None)

    def _may_run(self, slot: _Slot, configs: ClusterConfigState) -> bool:
        if configs.target_state(slot.task_id.connector) is TargetState.STARTED:
            return True
        slot.restart_at_ms = None
        self._say(slot, TaskTrigger.PAUSED)
        return False

    def _own_connector(self, name: str, configs: ClusterConfigState) -> None:
        target = configs.target_state(name)
        state = State.RUNNING if target is TargetState.STARTED else State(target.value)
        kind = configs.connectors.get(name, {}).get(CLASS_KEY, "")
        # as in Kafka Connect it is the owner who says so: a leader needs no class
        unknown = None if kind in self._classes else self._unknown(kind)
        if name not in self._connectors:
            with self._counting:
                self._connector_starts.attempts += 1
                self._connector_starts.failures += unknown is not None
        self._connectors[name] = state = state if unknown is None else State.FAILED
        self._put(status_key(name), state, self._token, unknown, name)

    def _unknown(self, kind: str) -> str:
        known = ", ".join(sorted(self._classes)) or "none"
        return f"{CLASS_KEY}: this worker does not have the class {kind!r}, only: {known}"

    def _start(self, slots: list[_Slot], configs: ClusterConfigState) -> None:
        """Start runs, after reading the states committed by former owners and fencing them."""
        by_token: dict[int, list[_Slot]] = {}
        for slot in slots:
            slot.restart_at_ms = None
            by_token.setdefault(slot.token, []).append(slot)
        for token, group in by_token.items():
            try:
                states = self._store.fence(map(_key, group), token, _FENCE_TIMEOUT_MS)
            except ConnectError as error:
                for slot in group:
                    self._failed(slot, f"reading its state failed: {error}", 0)
                continue
            for slot in group:
                self._start_one(slot, configs, states.get(_key(slot)))

    def _start_one(self, slot: _Slot, configs: ClusterConfigState, state: TaskState | None) -> None:
        name = slot.task_id.connector
        config = configs.connectors.get(name, {})
        kind = self._classes.get(name_of_class := config.get(CLASS_KEY, ""))
        with self._counting:
            self._task_starts.attempts += 1
            self._task_starts.failures += kind is None
        if kind is None:
            self._say(slot, TaskTrigger.GIVEN_UP, self._unknown(name_of_class))
            return
        slot.started_ms = self._clock.now_ms()
        warm, slot.warm = slot.warm, None
        job = TaskJob(
            connector=kind,
            name=name,
            config=config,
            task=slot.task,
            generation=slot.token,
            state=state,
            warm=warm,
            number=slot.task_id.task,
            providers=self._providers,
        )
        try:
            slot.run = run = self._make_run(slot, job)
            slot.open, slot.stopping = True, False
            run.start()
        except Exception as error:  # noqa: BLE001  # reported as the task's failure
            slot.run = None
            with self._counting:
                self._task_starts.failures += 1
            self._failed(slot, f"starting it failed: {type(error).__name__}: {error}", 0)
            return
        self._say(slot, TaskTrigger.STARTED)

    def _commits(self, slot: _Slot, made: list[Run]) -> tuple[Commit, BeginCommit]:
        """Return the functions with which the run in `made` commits states: waiting and not waiting."""

        def check(state: TaskState) -> None:
            if not slot.open or slot.run is not made[0]:
                fenced(state)

        def count(began_ms: int, *, failed: bool) -> None:
            with self._counting:
                slot.commits.count(self._clock.now_ms() - began_ms, failed=failed)

        def commit(state: TaskState) -> None:
            check(state)
            began_ms = self._clock.now_ms()
            try:
                self._store.commit(_key(slot), slot.token, state)
                # it may have been given up, and be another's, since
                check(state)
            except ConnectError:
                count(began_ms, failed=True)
                raise
            count(began_ms, failed=False)

        def begin_commit(state: TaskState) -> "Future[None]":
            check(state)
            began_ms = self._clock.now_ms()
            future = self._store.begin_commit(_key(slot), slot.token, state)

            def ended(each: "Future[None]") -> None:
                count(began_ms, failed=each.cancelled() or each.exception() is not None)

            future.add_done_callback(ended)
            return future

        return commit, begin_commit

    def _links(self, slot: _Slot, made: list[Run], job: TaskJob) -> TaskLinks:
        """Return the callbacks for the run in `made`, valid as long as it owns the task."""

        def uses_topic(topic: str) -> None:
            if slot.open and slot.run is made[0]:
                self._uses_topic(slot.task_id, topic)

        def report(failure: RecordFailure) -> None:
            if not slot.open or slot.run is not made[0]:
                raise TaskFencedError("the task no longer belongs to this worker")
            self._reported(slot, job, failure)

        return TaskLinks(uses_topic, report)

    def _make_run(self, slot: _Slot, job: TaskJob) -> Run:
        runs: list[Run] = []
        commit, begin_commit = self._commits(slot, runs)

        def lapsed() -> None:
            if slot.open and slot.run is runs[0]:
                self._lapsed()

        def ended(trace: str | None) -> None:
            self._ended.put((slot, runs[0], trace))
            self._notify()

        links = self._links(slot, runs, job)
        run: Run
        if is_async(job.connector.run):
            run = CoroutineRun(job, begin_commit, ended, self._loop, self._holds, links)
        elif job.connector.host == "process":
            if self._lease is None:
                self._lease = SharedLease()
            self.renew_lease()
            run = ProcessRun(job, commit, ended, self._lease, lapsed, links)
        else:
            run = ThreadRun(job, commit, ended, self._holds, links)
        runs.append(run)
        return run

    def _uses_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """Record that a task uses a topic, unless it is recorded already."""
        if self._tracks_topics and topic not in self._store.topics(task.connector):
            try:
                self._store.put_topic(TopicUse(topic, *task, self._date.now_ms()))
            except ConnectError as error:
                # no reason to end a task, which says it again
                logger.warning("recording that %s uses topic %s failed: %s", task, topic, error)

    def _reported(self, slot: _Slot, job: TaskJob, failure: RecordFailure) -> None:
        """Handle a failed record as its connector's configuration says. Called on any thread."""
        policy, counts, number = ErrorPolicy.of(job.config), slot.errors, slot.task_id.task
        with self._counting:
            counts.count(failure, self._date.now_ms())
        if failure.outcome == "recovered":
            return
        if policy.log:
            place = f" ({failure.record.place})" if policy.log_records else ""
            logger.error(
                "task %s: handling a record%s failed: %s",
                slot.task_id,
                place,
                for_log(failure.trace),
            )
            with self._counting:
                counts.total_errors_logged += 1
        if not policy.dead_letter_topic:
            return
        headers = failure.record.headers
        if policy.dead_letter_headers:
            kind = job.connector.__name__
            stage = "TASK_PUT" if job.connector.kind == "sink" else "TASK_POLL"
            headers = (
                *headers,
                *context_headers(
                    failure.record,
                    connector=job.name,
                    task=number,
                    stage=stage,
                    class_name=kind,
                    error_class=failure.error_class,
                    message=failure.message,
                    trace=failure.trace,
                ),
            )
        letter = replace(failure.record, headers=headers)
        with self._counting:
            counts.deadletterqueue_produce_requests += 1
        try:
            self._store.put_dead_letter(policy.dead_letter_topic, policy.dead_letter_copies, letter)
        except ConnectError:
            with self._counting:
                counts.deadletterqueue_produce_failures += 1
            raise

    def _run_ended(self, slot: _Slot, trace: str | None, now_ms: int) -> None:
        slot.run = None
        slot.open = False
        if slot.stopping:
            # told to end by `halt`: the group decides what becomes of it, whatever it raised then
            _log_end(slot, trace)
            self._say(slot, TaskTrigger.RELEASED)
        elif trace is not None:
            self._failed(slot, trace, now_ms - slot.started_ms)
        else:
            self._say(slot, TaskTrigger.RETURNED)

    def _failed(self, slot: _Slot, trace: str, ran_ms: int) -> None:
        slot.tracker = slot.tracker or RestartTracker(self._policy, self._random)
        wait_ms = slot.tracker.failed(ran_ms)
        if wait_ms is None:
            logger.error("task %s failed permanently: %s", slot.task_id, for_log(trace))
            self._say(slot, TaskTrigger.GIVEN_UP, trace)
            return
        logger.warning(
            "task %s failed, restarting in %d ms: %s", slot.task_id, wait_ms, for_log(trace)
        )
        slot.restart_at_ms = self._clock.now_ms() + wait_ms
        self._say(slot, TaskTrigger.RAISED, trace)

    def _end_runs(self, slots: Iterable[_Slot]) -> None:
        """End runs in parallel; those that do not respond are killed, or fenced."""
        ending = [(slot, slot.run) for slot in slots if slot.run is not None]
        for slot, run in ending:
            slot.stopping = True
            run.stop()
        deadline = Deadline(self._clock, self._grace_ms)
        for slot, run in ending:
            if not run.wait(deadline.remaining_ms(self._grace_ms) / 1000) and not run.kill():
                logger.warning(
                    "task %s did not stop within %d ms; abandoning it and discarding its state",
                    slot.task_id,
                    self._grace_ms,
                )
            slot.open = False
            slot.run = None

    def _say(self, slot: _Slot, trigger: TaskTrigger, trace: str | None = None) -> None:
        slot.state = state = TASK_TRANSITIONS[slot.state, trigger]
        name, number = slot.task_id
        self._put(status_key(name, number), state, slot.token, trace, name)

    def _put(
        self, key: str, state: State, token: int, trace: str | None = None, name: str = ""
    ) -> None:
        trace = None if trace is None else trace[-MAX_TRACE:]
        kind = self._classes.get(self._store.configs().connectors.get(name, {}).get(CLASS_KEY, ""))
        version = None if kind is None or kind.version == UNDEFINED else kind.version
        self._store.put_status(key, Status(state, self._worker_id, token, trace, version))


def _log_end(slot: _Slot, trace: str | None) -> None:
    """Log an exception that a task raised while ending; it is reported nowhere else."""
    if trace is not None:
        logger.info("task %s raised while stopping: %s", slot.task_id, for_log(trace))


def _key(slot: _Slot) -> StateKey:
    return slot.task_id.connector, slot.task.id
