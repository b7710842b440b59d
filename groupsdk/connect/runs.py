"""Run one task once: in a thread, in a process, or as a coroutine."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields as dataclass_fields
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from groupsdk.connect.config_state import Config
from groupsdk.connect.errors import ConnectError, TaskFencedError
from groupsdk.connect.status import stack_trace
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
        self.generation = job.generation
        self.state = job.state
        self.warm = job.warm
        self._commit = commit

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


def _always() -> bool:
    return True


EventT = TypeVar("EventT", threading.Event, asyncio.Event)


class _Lease(Generic[EventT]):
    """A stop signal that is also set once the worker may not go on.

    A process that was suspended goes on right where a task looks at its signal, before anything else of it can
    tell the task to end: so the look itself asks the clock.

    Args:
        event: what it sets, and where it is set.
        holds: tells whether tasks may go on; may be called from any thread.
    """

    def __init__(self, event: EventT, holds: Callable[[], bool]) -> None:
        self._event: EventT = event
        self._holds = holds

    def set(self) -> None:
        """Tell to end; for a coroutine, on its loop."""
        self._event.set()

    def is_set(self) -> bool:
        """Tell whether to end."""
        if not self._event.is_set() and not self._holds():
            self._event.set()
        return bool(self._event.is_set())


class LeasedStop(_Lease[threading.Event]):
    """The stop signal of a thread."""

    def __init__(self, holds: Callable[[], bool]) -> None:
        super().__init__(threading.Event(), holds)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for so many seconds, or until told to end; tells whether that was so."""
        self._event.wait(timeout)
        return self.is_set()


class ThreadRun(Run):
    """Runs in a thread of this process, which nothing can end by force."""

    def __init__(
        self, job: Job, commit: Commit, ended: Ended, holds: Callable[[], bool] = _always
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


class AsyncStop(_Lease[asyncio.Event]):
    """The stop signal of a coroutine, whose `wait` is awaited."""

    def __init__(self, holds: Callable[[], bool] = _always) -> None:
        super().__init__(asyncio.Event(), holds)

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # as threading.Event
        """Wait for so many seconds, or until told to end; tells whether that was so."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout)
        return self.is_set()


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
        holds: Callable[[], bool] = _always,
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


_DEAD: Final = "the process of the task ended with status {}"


class ProcessRun(Run):
    """Runs in a process of its own, which ends by force when it does not obey, and when this process dies."""

    def __init__(self, job: TaskJob, commit: Commit, ended: Ended) -> None:
        # not forked: this process has threads
        spawn = multiprocessing.get_context("spawn")
        self._here, there = spawn.Pipe()
        self._commit = commit
        self._ended = ended
        self._process = spawn.Process(target=_in_child, args=(*_shipped(job), there), daemon=True)
        self._there = there
        self._sending = threading.Lock()
        self._over = threading.Event()

    @override
    def start(self) -> None:
        self._process.start()
        self._there.close()
        threading.Thread(target=self._serve, name="task process", daemon=True).start()

    @override
    def stop(self) -> None:
        self._send(("stop", None))

    @override
    def wait(self, timeout_s: float) -> bool:
        return self._over.wait(max(0.0, timeout_s))

    @override
    def kill(self) -> bool:
        self._process.kill()
        return self._over.wait(5.0)

    def _send(self, message: tuple[str, object]) -> None:
        # one that has ended needs to hear nothing
        with self._sending, contextlib.suppress(OSError):
            self._here.send(message)

    def _serve(self) -> None:
        """Answer the child until it ends."""
        trace: str | None = None
        reported = False
        with contextlib.suppress(EOFError, OSError):
            while not reported:
                kind, value = self._here.recv()
                if kind == "commit":
                    self._send(("committed", self._committed(value)))
                else:
                    trace, reported = value, True
        self._process.join()
        if not reported:
            trace = _DEAD.format(self._process.exitcode)
        self._here.close()
        self._over.set()
        self._ended(trace)

    def _committed(self, state: TaskState) -> Exception | None:
        try:
            self._commit(state)
        except ConnectError as error:
            return error
        except Exception as error:  # noqa: BLE001  # raised in the child, which may not know its class
            return ConnectError(f"{type(error).__name__}: {error}")
        return None


class _ChildLink:
    """The child's end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self.stop = threading.Event()
        self._pipe = pipe
        self._sending = threading.Lock()
        self._answered = threading.Condition()
        self._answers: list[Exception | None] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, kind: str, value: object) -> None:
        with self._sending:
            self._pipe.send((kind, value))

    def commit(self, state: TaskState) -> None:
        self.send("commit", dict(state))
        with self._answered:
            self._answered.wait_for(lambda: self._answers)
            error = self._answers.pop()
        if error is not None:
            raise error

    def _listen(self) -> None:
        try:
            while True:
                kind, value = self._pipe.recv()
                if kind == "stop":
                    self.stop.set()
                else:
                    with self._answered:
                        self._answers.append(value)
                        self._answered.notify_all()
        except (EOFError, OSError):
            # the worker is gone, so the task is not ours any more: nothing may be done in its name
            os._exit(70)


def _shipped(job: TaskJob) -> tuple[Any, ...]:
    """Return a job as it can be sent to another process, where its class may have to be made anew."""
    fields = {each.name: getattr(job, each.name) for each in dataclass_fields(job)}
    del fields["connector"]
    return *job.connector.recipe(), fields


def _in_child(
    make: Callable[..., type[Connector]],
    arguments: tuple[Any, ...],
    fields: dict[str, Any],
    pipe: Connection,
) -> None:
    # the worker's first signal is for the worker, which then says what is to end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link = _ChildLink(pipe)
    trace = None
    try:
        job = TaskJob(connector=make(*arguments), **fields)
        job.begin(link.stop, link.commit)
    except BaseException as error:  # noqa: BLE001  # reported as the task's failure
        trace = stack_trace(error)
    link.send("ended", trace)
    # without waiting for threads of the user's, which have no task any more
    os._exit(0)


def fenced(state: TaskState) -> None:
    """Be the `Commit` of a task that is another's by now."""
    raise TaskFencedError("the task is no longer this worker's: its state is not kept")
