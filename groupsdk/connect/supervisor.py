"""Keep this worker's connectors and tasks as they are meant to be: start, stop, restart, and say so."""

import logging
import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from groupsdk.clock import Clock, Deadline
from groupsdk.connect.config_state import ClusterConfigState, Config, RestartRequest, TargetState
from groupsdk.connect.errors import ConnectError
from groupsdk.connect.lease import SharedLease
from groupsdk.connect.process_run import ProcessRun
from groupsdk.connect.restart import RestartPolicy, RestartTracker
from groupsdk.connect.runs import (
    CoroutineRun,
    LoopThread,
    Run,
    TaskJob,
    ThreadRun,
    fenced,
)
from groupsdk.connect.standby_runs import StandbyRuns
from groupsdk.connect.status import MAX_TRACE, State, Status, last_line, status_key
from groupsdk.connect.store import ConnectStore, StateKey
from groupsdk.connect.task import CLASS_KEY, Connector, Task, TaskState, is_async
from groupsdk.connect.work import Work
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
    tracker: RestartTracker
    task: Task
    state: State = State.UNASSIGNED
    run: Run | None = None
    started_ms: int = 0
    restart_at_ms: int | None = None
    open: bool = False
    """Whether what the present run commits is still kept."""
    stopping: bool = False
    warm: Any = None
    """What its standby here has loaded, for the first run."""


class Supervisor:
    """The tasks of one worker. All methods but `halt` belong to one thread.

    Args:
        store: where states and statuses are kept.
        classes: connectors' classes by the names that configurations use.
        worker_id: what this worker is called in statuses.
        policy: how failed tasks are restarted.
        grace_ms: how long a task may take to end: `task.shutdown.graceful.timeout.ms`.
        clock: the time.
        notify: called from any thread when `tick` has something to do.
        random: where jitter comes from.
        holds: tells, from any thread, whether tasks may go on; it calls `halt` before it says no.
        lease: returns until when processes may go on, and until when they must have ended.
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
    ) -> None:
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
        self._standbys = StandbyRuns(store, classes, policy, grace_ms, clock, notify, self._random)
        self._slots: dict[ConnectorTaskId, _Slot] = {}
        self._connectors: dict[str, State] = {}
        self._ended: queue.SimpleQueue[tuple[_Slot, Run, str | None]] = queue.SimpleQueue()
        self._token = -1

    # What is owned.

    def reconcile(self, work: Work, configs: ClusterConfigState, token: int) -> None:
        """Own exactly this work: stop what is not in it, start what does not run.

        What is not configured is not run, whoever says so.
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
            tracker = RestartTracker(self._policy, self._random)
            task = Task.of(config, task_id.task)
            slot = _Slot(task_id, config, token, tracker, task)
            self._slots[task_id] = slot
            new.append(slot)
        for task_id, warm in self._standbys.promote(slot.task_id for slot in new).items():
            self._slots[task_id].warm = warm
        self._start([slot for slot in new if self._may_run(slot, configs)], configs)

    def keep_warm(self, tasks: Iterable[ConnectorTaskId], configs: ClusterConfigState) -> None:
        """Be a standby of exactly these tasks, but of none that is owned."""
        self._standbys.keep([each for each in tasks if each not in self._slots], configs)

    def kept_warm(self) -> list[ConnectorTaskId]:
        """Return of what this worker is a standby."""
        return self._standbys.kept()

    def owned(self) -> Work:
        """Return what this worker owns, whatever state it is in."""
        return Work(tuple(self._connectors), tuple(self._slots))

    def stop(self, work: Work, *, unassigned: bool = True) -> None:
        """Own this no more, and return when its tasks have ended, or are fenced and abandoned.

        Args:
            work: what to give up.
            unassigned: whether to say that nobody has it; whoever has it next says so otherwise.
        """
        slots = [self._slots.pop(each) for each in work.tasks if each in self._slots]
        self._end_runs(slots)
        configs = self._store.configs()
        for slot in slots:
            if not configs.contains(slot.task_id):
                self._store.put_status(status_key(*slot.task_id), None)
            elif unassigned:
                self._say(slot, State.UNASSIGNED)
        for name in work.connectors:
            if self._connectors.pop(name, None) is None:
                continue
            if not configs.contains(name):
                self._store.put_status(status_key(name), None)
            elif unassigned:
                self._put(status_key(name), State.UNASSIGNED, self._token)

    def halt(self) -> None:
        """Tell all tasks to end, and keep nothing more of them; at once, from any thread."""
        for slot in list(self._slots.values()):
            slot.open = False
            run = slot.run
            if run is not None and not slot.stopping:
                slot.stopping = True
                run.stop()

    def renew_lease(self) -> None:
        """Say to processes until when they may go on; from any thread, and often."""
        if self._lease is not None:
            self._lease.renew(*self._lease_times())

    def close(self) -> None:
        """Give everything up."""
        self.stop(self.owned())
        self._standbys.close()
        self._loop.close()

    # What changes.

    def retarget(self, names: Iterable[str], configs: ClusterConfigState) -> None:
        """Pause, stop or resume connectors as the configurations say."""
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
                    self._say(slot, State.PAUSED)

    def restart(self, request: RestartRequest, configs: ClusterConfigState) -> None:
        """Restart what is owned of a connector."""
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
        """Restart tasks, with their failures forgotten; only those that are owned."""
        slots = [self._slots[each] for each in tasks if each in self._slots]
        self._end_runs(slots)
        for slot in slots:
            slot.tracker = RestartTracker(self._policy, self._random)
            slot.restart_at_ms = None
        self._start([slot for slot in slots if self._may_run(slot, configs)], configs)

    # What time brings.

    def tick(self, configs: ClusterConfigState) -> int | None:
        """Take note of runs that ended, restart what is due; returns when the next restart is due."""
        now_ms = self._clock.now_ms()
        while not self._ended.empty():
            slot, run, trace = self._ended.get()
            if slot.run is run and slot.task_id in self._slots:
                self._run_ended(slot, trace, now_ms)
        due = [
            slot
            for slot in self._slots.values()
            if slot.restart_at_ms is not None and slot.restart_at_ms <= now_ms
        ]
        self._start([slot for slot in due if self._may_run(slot, configs)], configs)
        waiting = [each.restart_at_ms for each in self._slots.values() if each.restart_at_ms]
        standby_due_ms = self._standbys.tick()
        if standby_due_ms is not None:
            waiting.append(standby_due_ms)
        return min(waiting, default=None)

    # Details.

    def _may_run(self, slot: _Slot, configs: ClusterConfigState) -> bool:
        if configs.target_state(slot.task_id.connector) is TargetState.STARTED:
            return True
        slot.restart_at_ms = None
        self._say(slot, State.PAUSED)
        return False

    def _own_connector(self, name: str, configs: ClusterConfigState) -> None:
        target = configs.target_state(name)
        state = State.RUNNING if target is TargetState.STARTED else State(target.value)
        kind = configs.connectors.get(name, {}).get(CLASS_KEY, "")
        # as in Kafka Connect it is the owner who says so: a leader needs no class
        unknown = None if kind in self._classes else self._unknown(kind)
        self._connectors[name] = state = state if unknown is None else State.FAILED
        self._put(status_key(name), state, self._token, unknown)

    def _unknown(self, kind: str) -> str:
        known = ", ".join(sorted(self._classes)) or "none"
        return f"{CLASS_KEY}: this worker knows no {kind!r}, only: {known}"

    def _start(self, slots: list[_Slot], configs: ClusterConfigState) -> None:
        """Start runs; what others committed before is read first, and what they commit later is void."""
        by_token: dict[int, list[_Slot]] = {}
        for slot in slots:
            slot.restart_at_ms = None
            by_token.setdefault(slot.token, []).append(slot)
        for token, group in by_token.items():
            keys = [_key(slot) for slot in group]
            try:
                states = self._store.fence(keys, token, _FENCE_TIMEOUT_MS)
            except ConnectError as error:
                for slot in group:
                    self._failed(slot, f"its state cannot be read: {error}", 0)
                continue
            for slot in group:
                self._start_one(slot, configs, states.get(_key(slot)))

    def _start_one(self, slot: _Slot, configs: ClusterConfigState, state: TaskState | None) -> None:
        name = slot.task_id.connector
        config = configs.connectors.get(name, {})
        name_of_class = config.get(CLASS_KEY, "")
        kind = self._classes.get(name_of_class)
        if kind is None:
            self._say(slot, State.FAILED, self._unknown(name_of_class))
            return
        slot.started_ms = self._clock.now_ms()
        warm, slot.warm = slot.warm, None
        job = TaskJob(kind, name, config, slot.task, slot.token, state, warm)
        try:
            slot.run = run = self._make_run(slot, job)
            slot.open, slot.stopping = True, False
            run.start()
        except Exception as error:  # noqa: BLE001  # reported as the task's failure
            slot.run = None
            self._failed(slot, f"it cannot be started: {type(error).__name__}: {error}", 0)
            return
        self._say(slot, State.RUNNING)

    def _make_run(self, slot: _Slot, job: TaskJob) -> Run:
        made: list[Run] = []

        def commit(state: TaskState) -> None:
            if not slot.open or slot.run is not made[0]:
                fenced(state)
            self._store.commit(_key(slot), slot.token, state)

        def lapsed() -> None:
            if slot.open and slot.run is made[0]:
                self._lapsed()

        def ended(trace: str | None) -> None:
            self._ended.put((slot, made[0], trace))
            self._notify()

        run: Run
        if is_async(job.connector.run):
            run = CoroutineRun(job, commit, ended, self._loop, self._holds)
        elif job.connector.host == "process":
            if self._lease is None:
                self._lease = SharedLease()
            self.renew_lease()
            run = ProcessRun(job, commit, ended, self._lease, lapsed)
        else:
            run = ThreadRun(job, commit, ended, self._holds)
        made.append(run)
        return run

    def _run_ended(self, slot: _Slot, trace: str | None, now_ms: int) -> None:
        slot.run = None
        slot.open = False
        if slot.stopping:
            # told to end by `halt`: the group decides what becomes of it, whatever it raised then
            self._say(slot, State.UNASSIGNED)
        elif trace is not None:
            self._failed(slot, trace, now_ms - slot.started_ms)
        else:
            self._say(slot, State.COMPLETED)

    def _failed(self, slot: _Slot, trace: str, ran_ms: int) -> None:
        wait_ms = slot.tracker.failed(ran_ms)
        last = last_line(trace)
        if wait_ms is None:
            logger.error("task %s failed for good: %s", slot.task_id, last)
            self._say(slot, State.FAILED, trace)
            return
        logger.warning("task %s failed, starts again in %d ms: %s", slot.task_id, wait_ms, last)
        slot.restart_at_ms = self._clock.now_ms() + wait_ms
        self._say(slot, State.RESTARTING, trace)

    def _end_runs(self, slots: Iterable[_Slot]) -> None:
        """End runs, all at the same time; those that do not obey are ended by force, or fenced."""
        ending = [(slot, slot.run) for slot in slots if slot.run is not None]
        for slot, run in ending:
            slot.stopping = True
            run.stop()
        deadline = Deadline(self._clock, self._grace_ms)
        for slot, run in ending:
            if not run.wait(deadline.remaining_ms(self._grace_ms) / 1000) and not run.kill():
                logger.warning(
                    "task %s does not end within %d ms: it is left to itself, and nothing is kept of it",
                    slot.task_id,
                    self._grace_ms,
                )
            slot.open = False
            slot.run = None

    def _say(self, slot: _Slot, state: State, trace: str | None = None) -> None:
        slot.state = state
        name, number = slot.task_id
        self._put(status_key(name, number), state, slot.token, trace)

    def _put(self, key: str, state: State, token: int, trace: str | None = None) -> None:
        trace = None if trace is None else trace[-MAX_TRACE:]
        self._store.put_status(key, Status(state, self._worker_id, token, trace))


def _key(slot: _Slot) -> StateKey:
    return slot.task_id.connector, slot.task.id
