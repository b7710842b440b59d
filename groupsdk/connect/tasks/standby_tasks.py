"""Run standbys of tasks that other workers run, to take them over with their data already loaded."""

import logging
import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from groupsdk.clock import Clock, Deadline
from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders
from groupsdk.connect.store.config_backing_store import ClusterConfigState, Config, TargetState
from groupsdk.connect.store.status_backing_store import for_log
from groupsdk.connect.store.store import ConnectStore
from groupsdk.connect.tasks.runs import CoroutineRun, LoopThread, Run, StandbyJob, ThreadRun, fenced
from groupsdk.connect.tasks.task import CLASS_KEY, Connector, Task, TaskState, is_async
from groupsdk.connect.tasks.tolerance import RestartPolicy, RestartTracker
from groupsdk.wire.connect_protocol import ConnectorTaskId


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Standby:
    task_id: ConnectorTaskId
    configs: tuple[Config, Config]
    """The connector's and the task's, that it began with."""
    tracker: RestartTracker
    run: Run | None = None
    warm: Any = None
    started_ms: int = 0
    restart_at_ms: int | None = None


class StandbyTasks:
    """The standbys of one worker. Call all methods from one thread; `notify` is called from any when `tick` has something to do.

    A standby gets nothing that it could act with: it has no fencing token, and cannot commit. It may take `grace_ms` to end.
    """

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        policy: RestartPolicy,
        grace_ms: int,
        clock: Clock,
        notify: Callable[[], None],
        random: Random | None = None,
        providers: ConfigProviders = NO_PROVIDERS,
    ) -> None:
        self._providers = providers
        self._store = store
        self._classes = classes
        self._policy = policy
        self._grace_ms = grace_ms
        self._clock = clock
        self._notify = notify
        self._random = random or Random()
        self._loop = LoopThread()
        self._standbys: dict[ConnectorTaskId, _Standby] = {}
        self._ended: queue.SimpleQueue[tuple[_Standby, Run, str | None]] = queue.SimpleQueue()

    def keep(self, tasks: Iterable[ConnectorTaskId], configs: ClusterConfigState) -> None:
        """Run standbys of exactly these tasks, if their connectors are started; those whose configuration has changed are restarted."""
        wanted = {
            each: _configs(each, configs)
            for each in tasks
            if configs.contains(each)
            and configs.target_state(each.connector) is TargetState.STARTED
        }
        self._end(
            [each for each in self._standbys.values() if wanted.get(each.task_id) != each.configs]
        )
        for task_id, both in wanted.items():
            if task_id not in self._standbys:
                tracker = RestartTracker(self._policy, self._random)
                self._standbys[task_id] = standby = _Standby(task_id, both, tracker)
                self._start(standby)

    def kept(self) -> list[ConnectorTaskId]:
        return list(self._standbys)

    def promote(self, tasks: Iterable[ConnectorTaskId]) -> dict[ConnectorTaskId, Any]:
        """End the standbys of tasks that this worker takes over, and return the data that each has loaded.

        A standby that did not end in time is left out, as it may still change it.
        """
        ending = [self._standbys[each] for each in tasks if each in self._standbys]
        ended = self._end(ending)
        return {each.task_id: each.warm for each in ending if each.task_id in ended}

    def tick(self) -> int | None:
        """Handle standbys that ended, and restart those that are due; return when the next one is."""
        now_ms = self._clock.now_ms()
        while not self._ended.empty():
            standby, run, trace = self._ended.get()
            if standby.run is run:
                self._run_ended(standby, trace, now_ms)
        for standby in self._standbys.values():
            if standby.restart_at_ms is not None and standby.restart_at_ms <= now_ms:
                self._start(standby)
        waiting = [each.restart_at_ms for each in self._standbys.values() if each.restart_at_ms]
        return min(waiting, default=None)

    def close(self) -> None:
        self._end(list(self._standbys.values()))
        self._loop.close()

    def _start(self, standby: _Standby) -> None:
        standby.restart_at_ms = None
        config, task_config = standby.configs
        kind = self._classes.get(config.get(CLASS_KEY, ""))
        if kind is None or kind.standby is Connector.standby:
            return  # said by whoever runs it, or refused where it was configured
        task = Task.of(task_config, standby.task_id.task)
        name = standby.task_id.connector

        def read() -> TaskState | None:
            return self._store.state((name, task.id))

        def keep(warm: Any) -> None:
            standby.warm = warm

        runs: list[Run] = []

        def ended(trace: str | None) -> None:
            self._ended.put((standby, runs[0], trace))
            self._notify()

        job = StandbyJob(
            connector=kind,
            name=name,
            config=config,
            task=task,
            read=read,
            keep=keep,
            number=standby.task_id.task,
            providers=self._providers,
        )
        run: Run
        if is_async(kind.standby):
            run = CoroutineRun(job, fenced, ended, self._loop)
        else:
            run = ThreadRun(job, fenced, ended)
        runs.append(run)
        standby.run = run
        standby.started_ms = self._clock.now_ms()
        try:
            run.start()
        except Exception as error:  # noqa: BLE001  # no more threads, for example: a task is not warm, that is all
            self._run_ended(standby, f"{type(error).__name__}: {error}", standby.started_ms)

    def _run_ended(self, standby: _Standby, trace: str | None, now_ms: int) -> None:
        standby.run = None
        if trace is None:
            return  # it has loaded what it wanted
        wait_ms = standby.tracker.failed(now_ms - standby.started_ms)
        if wait_ms is None:
            logger.error(
                "the standby of task %s failed permanently: %s", standby.task_id, for_log(trace)
            )
            return
        logger.warning("the standby of task %s failed: %s", standby.task_id, for_log(trace))
        standby.restart_at_ms = now_ms + wait_ms

    def _end(self, standbys: list[_Standby]) -> set[ConnectorTaskId]:
        """End standbys in parallel. Return those that have ended."""
        for standby in standbys:
            del self._standbys[standby.task_id]
            if standby.run is not None:
                standby.run.stop()
        deadline = Deadline(self._clock, self._grace_ms)
        ended = set()
        for standby in standbys:
            run, standby.run = standby.run, None
            if run is None or run.wait(deadline.remaining_ms(self._grace_ms) / 1000) or run.kill():
                ended.add(standby.task_id)
            else:
                logger.warning(
                    "the standby of task %s did not stop within %d ms; abandoning it",
                    standby.task_id,
                    self._grace_ms,
                )
        return ended


def _configs(task: ConnectorTaskId, configs: ClusterConfigState) -> tuple[Config, Config]:
    return configs.connectors[task.connector], configs.task_configs.get(task, {})
