"""Run one task once, in a thread or as a coroutine; `ProcessRun` does it in a process."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from groupsdk.connect.config_state import Config
from groupsdk.connect.errors import TaskFencedError
from groupsdk.connect.status import stack_trace
from groupsdk.connect.stop_signal import AsyncStop, LeasedSignal, LeasedStop, always
from groupsdk.connect.task import Connector, StopSignal, Task, TaskState


Commit = Callable[[TaskState], None]
Ended = Callable[[str | None], None]
"""Told once, from whatever thread, that a run is over: with its stack trace, or None where it returned."""


@dataclass(frozen=True, slots=True)
class TaskJob:
    """What is to be run."""

    connector: type[Connector]
    name: str
    config: Config
    task: Task
    generation: int
    state: TaskState | None
    warm: Any = None
    """What this worker's standby of the task has loaded; None where there was none."""

    def begin(self, stop: Any, commit: Commit) -> Awaitable[None] | None:
        """Make the connector and run the task."""
        context = _Context(self, stop, commit)
        return self.connector(self.name, self.config).run(self.task, context)


@dataclass(frozen=True, slots=True)
class StandbyJob:
    """What is to be kept warm."""

    connector: type[Connector]
    name: str
    config: Config
    task: Task
    read: Callable[[], TaskState | None]
    keep: Callable[[Any], None]

    def begin(self, stop: Any, commit: Commit) -> Awaitable[None] | None:
        """Make the connector and have it keep the task warm."""
        context = _StandbyContext(stop, self)
        return self.connector(self.name, self.config).standby(self.task, context)


Job = TaskJob | StandbyJob


class _Context:
    """The context of a task."""

    def __init__(self, job: TaskJob, stop: Any, commit: Commit) -> None:
        self.stop: StopSignal = stop
        self._lease: LeasedSignal[Any] = stop
        self._generation = job.generation
        self.state = job.state
        self.warm = job.warm
        self._commit = commit

    @property
    def generation(self) -> int:
        """The fencing token, for as long as the worker's session lasts."""
        if not self._lease.holds():
            raise TaskFencedError("the worker's session is over: the task may be another's by now")
        return self._generation

    def commit(self, state: TaskState) -> None:
        """Keep a state."""
        self._commit(state)
        self.state = state


class _StandbyContext:
    """The context of a standby."""

    def __init__(self, stop: Any, job: StandbyJob) -> None:
        self.stop: StopSignal = stop
        self._job = job

    @property
    def state(self) -> TaskState | None:
        """What the task has committed last."""
        return self._job.read()

    def keep(self, warm: Any) -> None:
        """Keep something for the task."""
        self._job.keep(warm)


class Run(ABC):
    """One run of a task. `ended` is told when it is over, even where it does not obey."""

    @abstractmethod
    def start(self) -> None:
        """Begin."""

    @abstractmethod
    def stop(self) -> None:
        """Tell the task to end; returns at once."""

    @abstractmethod
    def wait(self, timeout_s: float) -> bool:
        """Wait until it is over; tells whether it is."""

    @abstractmethod
    def kill(self) -> bool:
        """End it by force; tells whether that can be done."""


class ThreadRun(Run):
    """Runs in a thread of this process, which nothing can end by force."""

    def __init__(
        self, job: Job, commit: Commit, ended: Ended, holds: Callable[[], bool] = always
    ) -> None:
        self._stop = LeasedStop(holds)
        self._job = job
        self._commit = commit
        self._ended = ended
        self._thread = threading.Thread(
            target=self._run, name=f"task {job.name} {job.task.id}", daemon=True
        )

    @override
    def start(self) -> None:
        self._thread.start()

    @override
    def stop(self) -> None:
        self._stop.set()

    @override
    def wait(self, timeout_s: float) -> bool:
        self._thread.join(max(0.0, timeout_s))
        return not self._thread.is_alive()

    @override
    def kill(self) -> bool:
        return False

    def _run(self) -> None:
        trace = None
        try:
            self._job.begin(self._stop, self._commit)
        except BaseException as error:  # noqa: BLE001  # reported as the task's failure
            trace = stack_trace(error)
        self._ended(trace)


class LoopThread:
    """The event loop that all coroutines of a worker share, in a thread that starts with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="coroutine tasks", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """End the loop."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(5)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


class CoroutineRun(Run):
    """Runs as a task of an event loop; is cancelled where it does not end."""

    def __init__(
        self,
        job: Job,
        commit: Commit,
        ended: Ended,
        loop: LoopThread,
        holds: Callable[[], bool] = always,
    ) -> None:
        self._job = job
        self._loop = loop.loop()
        self._stop = AsyncStop(holds)
        self._commit = commit
        self._ended = ended
        self._over = threading.Event()
        self._task: asyncio.Task[None] | None = None

    @override
    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    @override
    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    @override
    def wait(self, timeout_s: float) -> bool:
        return self._over.wait(max(0.0, timeout_s))

    @override
    def kill(self) -> bool:
        self._loop.call_soon_threadsafe(self._cancel)
        return self._over.wait(1.0)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        trace = None
        try:
            awaitable = self._job.begin(self._stop, self._commit)
            if awaitable is not None:
                await awaitable
        except BaseException as error:  # noqa: BLE001  # reported as the task's failure
            trace = stack_trace(error)
        self._over.set()
        self._ended(trace)


def fenced(state: TaskState) -> None:
    """Be the `Commit` of a task that is another's by now."""
    raise TaskFencedError("the task is no longer this worker's: its state is not kept")
