"""Run one task once, in a thread or as a coroutine; `ProcessRun` does it in a process."""

import asyncio
import contextlib
import inspect
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, Generic, NoReturn, TypeVar

from groupsdk.clock import SystemClock
from groupsdk.connect.connectors.connector_config import ErrorPolicy
from groupsdk.connect.connectors.secrets import NO_PROVIDERS, ConfigProviders, secrets_of
from groupsdk.connect.errors import StoreError, TaskFencedError
from groupsdk.connect.loggers import connector_context
from groupsdk.connect.store.config_backing_store import Config
from groupsdk.connect.store.status_backing_store import check_topic, stack_trace
from groupsdk.connect.tasks.task import Connector, StopSignal, Task, TaskState
from groupsdk.connect.tasks.tolerance import Attempts, RecordFailure
from groupsdk.coordinator import refuse_unrun
from groupsdk.lazy_imports import override


logger = logging.getLogger(__name__)


def always() -> bool:
    return True


EventT = TypeVar("EventT", threading.Event, asyncio.Event)


class LeasedSignal(Generic[EventT]):
    """A stop signal that is also set once the worker's session is over.

    A process that was suspended may resume right where a task looks at its signal, before any other thread could set
    it: so looking at the signal checks the clock as well. `holds` is called from any thread.
    """

    def __init__(self, event: EventT, holds: Callable[[], bool]) -> None:
        self._event: EventT = event
        self._holds = holds
        self._lapsed = False

    def holds(self) -> bool:
        """Return whether the worker may continue. Once False, it stays False."""
        if not self._lapsed and not self._holds():
            self._lapsed = True
        return not self._lapsed

    def set(self) -> None:
        """Tell the task to end; for a coroutine, call it on its loop."""
        self._event.set()

    def is_set(self) -> bool:
        """Return whether to end."""
        if not self._event.is_set() and not self.holds():
            self._event.set()
        return bool(self._event.is_set())


class LeasedStop(LeasedSignal[threading.Event]):
    def __init__(self, holds: Callable[[], bool] = always) -> None:
        super().__init__(threading.Event(), holds)

    def wait(self, timeout: float | None = None) -> bool:
        self._event.wait(timeout)
        return self.is_set()


class AsyncStop(LeasedSignal[asyncio.Event]):
    """The stop signal of a coroutine, whose `wait` is awaited."""

    def __init__(self, holds: Callable[[], bool] = always) -> None:
        super().__init__(asyncio.Event(), holds)

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # as threading.Event
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout)
        return self.is_set()


Commit = Callable[[TaskState], None]
"""Stores a state, and returns when it is stored."""
BeginCommit = Callable[[TaskState], "Future[None]"]
"""Starts storing a state, without waiting."""
R = TypeVar("R")
_COMMIT_S: Final = 15.0
_TELL_MS: Final = 5_000
_CLOCK: Final = SystemClock()
_RANDOM: Final = Random()
Ended = Callable[[str | None], None]
"""Called once, from any thread, when a run is over: with its stack trace, or None if it returned."""


def _ignore(_: object) -> None: ...


@dataclass(frozen=True, slots=True)
class TaskLinks:
    """Callbacks of a running task to its worker, besides commits. Each may be called from any thread."""

    uses_topic: Callable[[str], None] = _ignore
    """Called with each topic that the task says it uses."""
    report: Callable[[RecordFailure], None] = _ignore
    """Called with the outcome of a record whose first attempt failed; returns when its dead letter is stored."""


NO_LINKS: Final = TaskLinks()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    connector: type[Connector]
    name: str
    config: Config
    """The connector's configuration, with its variables."""
    task: Task
    """The task, its payload with its variables."""
    number: int = 0
    """The task's number in its connector."""
    providers: ConfigProviders = NO_PROVIDERS
    secrets: set[str] = field(default_factory=set, repr=False)
    """The values to mask in errors; filled when the run begins."""

    def make_connector(self) -> Connector:
        """Make the connector of a run, with the variables of its configuration resolved."""
        self.secrets.update(secrets_of(self.config, self.connector.secrets))
        resolved = self.providers.resolve(self.config)
        if resolved.variables:
            self.secrets.update(resolved.secrets(self.connector.secrets))
        return self.connector(self.name, resolved.config)

    def resolved_task(self) -> Task:
        return replace(self.task, payload=self.providers.resolve_payload(self.task.payload))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob(_Job):
    """A task to be run."""

    generation: int
    """The fencing token under which its states are committed."""
    state: TaskState | None
    warm: Any = None
    """The data that this worker's standby of the task has loaded."""

    def logged(self) -> AbstractContextManager[None]:
        return connector_context(self.name, self.number)

    def begin(self, stop: Any, commit: Commit, links: TaskLinks) -> Awaitable[None] | None:
        """Create the connector and run the task; return its coroutine, or None once a `def` has returned."""
        return self._run(_Context(self, stop, commit, links))

    def begin_async(
        self, stop: Any, commit: BeginCommit, links: TaskLinks
    ) -> Awaitable[None] | None:
        """Create the connector and return the coroutine of the task; arguments as for `begin`, but for `commit`."""
        return self._run(_AsyncContext(self, stop, commit, links))

    def _run(self, context: Any) -> Awaitable[None] | None:
        return self.make_connector().run(self.resolved_task(), context)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyJob(_Job):
    read: Callable[[], TaskState | None]
    """Returns the state that the task's owner committed last."""
    keep: Callable[[Any], None]
    """Stores what the standby has loaded, in place of earlier data."""

    def logged(self) -> AbstractContextManager[None]:
        return connector_context(self.name, self.number, "standby")

    def begin(self, stop: Any, commit: Commit, links: TaskLinks) -> Awaitable[None] | None:
        """Create the connector and run its `standby`; return its coroutine, or None once a `def` has returned."""
        context = _StandbyContext(stop, self)
        return self.make_connector().standby(self.resolved_task(), context)

    def begin_async(
        self, stop: Any, commit: BeginCommit, links: TaskLinks
    ) -> Awaitable[None] | None:
        return self.begin(stop, fenced, links)


Job = TaskJob | StandbyJob


class _TaskContextBase:
    def __init__(self, job: TaskJob, stop: Any, links: TaskLinks) -> None:
        self.stop = stop
        self._links = links
        self._policy = ErrorPolicy.of(job.config)
        self._secrets = job.secrets
        self._told_ms: dict[str, int] = {}
        """When to say again that the task uses a topic."""
        self._lease: LeasedSignal[Any] = stop
        self._generation = job.generation
        self.state = job.state
        self.warm = job.warm

    @property
    def generation(self) -> int:
        """The fencing token, for as long as the worker's session lasts."""
        if not self._lease.holds():
            raise TaskFencedError(
                "the worker's session expired: another worker may run the task by now"
            )
        return self._generation

    def uses_topic(self, topic: str) -> None:
        """Say that the task uses a topic; cheap enough to be called for each record."""
        now_ms = _CLOCK.now_ms()
        # not each time, and again after a while, as it may have been forgotten
        if now_ms >= self._told_ms.get(topic, now_ms):
            self._links.uses_topic(check_topic(topic))
            self._told_ms[topic] = now_ms + _TELL_MS

    def _attempts(self, record: object) -> Attempts:
        return Attempts(self._policy, record, _CLOCK.now_ms(), _RANDOM, self._secrets)

    def _committed(self, state: TaskState) -> None:
        """Record a stored state, unless the task lost its lease while it was being stored."""
        if not self._lease.holds():
            raise TaskFencedError("the worker's session expired: the state cannot be stored")
        self.state = state


class _Context(_TaskContextBase):
    def __init__(self, job: TaskJob, stop: Any, commit: Commit, links: TaskLinks) -> None:
        super().__init__(job, stop, links)
        self._commit = commit

    def commit(self, state: TaskState) -> None:
        self._commit(state)
        self._committed(state)

    def attempt(self, record: R, act: Callable[[R], object]) -> bool:
        attempts = self._attempts(record)
        while True:
            try:
                refuse_unrun(act(record))
            except Exception as error:
                wait_ms = attempts.failed(error, _CLOCK.now_ms())
                if wait_ms is None:
                    failure = attempts.outcome()
                    assert failure is not None
                    self._links.report(failure)
                    if failure.outcome == "fatal":
                        raise
                    return False
                if self.stop.wait(wait_ms / 1000):
                    # whoever has the task next tries again
                    raise
            else:
                break
        if (failure := attempts.outcome(recovered=True)) is not None:
            self._links.report(failure)
        return True


class _AsyncContext(_TaskContextBase):
    def __init__(self, job: TaskJob, stop: Any, commit: BeginCommit, links: TaskLinks) -> None:
        super().__init__(job, stop, links)
        self._commit = commit
        self._keeping: set[asyncio.Task[None]] = set()

    def commit(self, state: TaskState) -> Awaitable[None]:
        """Keep a state; it is under way whether it is awaited or not."""
        keeping = asyncio.ensure_future(self._kept(state, self._commit(state)))
        # loops hold tasks by weak references
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        return keeping

    async def attempt(self, record: R, act: Callable[[R], object]) -> bool:
        attempts = self._attempts(record)
        while True:
            try:
                done = act(record)
                if inspect.isawaitable(done):
                    await done
                else:
                    refuse_unrun(done)
            except Exception as error:
                wait_ms = attempts.failed(error, _CLOCK.now_ms())
                if wait_ms is None:
                    failure = attempts.outcome()
                    assert failure is not None
                    await asyncio.to_thread(self._links.report, failure)
                    if failure.outcome == "fatal":
                        raise
                    return False
                if await self.stop.wait(wait_ms / 1000):
                    # whoever has the task next tries again
                    raise
            else:
                break
        if (failure := attempts.outcome(recovered=True)) is not None:
            await asyncio.to_thread(self._links.report, failure)
        return True

    async def _kept(self, state: TaskState, future: "Future[None]") -> None:
        wrapped = asyncio.wrap_future(future)
        # not `wait_for`, which may swallow that the task is cancelled
        done, _ = await asyncio.wait([wrapped], timeout=_COMMIT_S)
        if not done:
            raise StoreError(f"a state was not written within {_COMMIT_S:g} s")
        wrapped.result()
        self._committed(state)


class _StandbyContext:
    def __init__(self, stop: Any, job: StandbyJob) -> None:
        self.stop: StopSignal = stop
        self._job = job

    @property
    def state(self) -> TaskState | None:
        return self._job.read()

    def keep(self, warm: Any) -> None:
        self._job.keep(warm)


class Run(ABC):
    """One run of a task. `ended` is called when it is over, however late it stops."""

    def __init__(self, job: Job, ended: Ended, links: TaskLinks) -> None:
        self._job = job
        self._ended = ended
        self._links = links

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None:
        """Tell the task to end, without waiting."""

    @abstractmethod
    def wait(self, timeout_s: float) -> bool: ...

    @abstractmethod
    def kill(self) -> bool:
        """End the run by force. Return whether that is possible."""


class ThreadRun(Run):
    """A run in a thread of this process, which cannot be ended by force; `ended` is called from it."""

    def __init__(
        self,
        job: Job,
        commit: Commit,
        ended: Ended,
        holds: Callable[[], bool] = always,
        links: TaskLinks = NO_LINKS,
    ) -> None:
        super().__init__(job, ended, links)
        self._stop = LeasedStop(holds)
        self._commit = commit
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
            with self._job.logged():
                refuse_unrun(self._job.begin(self._stop, self._commit, self._links))
        except BaseException as error:  # noqa: BLE001  # reported as the task's failure
            trace = stack_trace(error, self._job.secrets)
        self._ended(trace)


class LoopThread:
    """The event loop that all coroutines of a worker share, in a thread that starts with the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="coroutine tasks", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join(5)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.closing(loop):
        while True:
            try:
                return loop.run_forever()
            except (SystemExit, KeyboardInterrupt) as error:
                logger.warning("a task or callback of a coroutine raised %r", error)


class CoroutineRun(Run):
    """A run as a task of an event loop, cancelled if it does not stop in time."""

    def __init__(
        self,
        job: Job,
        commit: BeginCommit,
        ended: Ended,
        loop: LoopThread,
        holds: Callable[[], bool] = always,
        links: TaskLinks = NO_LINKS,
    ) -> None:
        super().__init__(job, ended, links)
        self._loop = loop.loop()
        self._stop = AsyncStop(holds)
        self._commit = commit
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
            with self._job.logged():
                awaitable = self._job.begin_async(self._stop, self._commit, self._links)
                if awaitable is not None:
                    await awaitable
        except BaseException as error:  # noqa: BLE001  # reported as the task's failure
            trace = stack_trace(error, self._job.secrets)
        self._over.set()
        self._ended(trace)


def fenced(state: TaskState) -> NoReturn:
    """Refuse a state: the `Commit` and `BeginCommit` of a task that another worker owns by now, and of standbys."""
    raise TaskFencedError("the task no longer belongs to this worker; its state was not stored")
