"""Run one task once in a process of its own, which ends when the worker's session or the worker does."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import RawArray
from typing import Any, Final

from groupsdk.clock import Clock, SystemClock
from groupsdk.connect.errors import ConnectError, TaskFencedError
from groupsdk.connect.store.status_backing_store import stack_trace
from groupsdk.connect.tasks.runs import NO_LINKS, Commit, Ended, LeasedStop, Run, TaskJob, TaskLinks
from groupsdk.connect.tasks.task import Connector, TaskState
from groupsdk.connect.tasks.tolerance import RecordFailure
from groupsdk.coordinator import refuse_unrun
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT64


class SharedLease:
    """Two times in memory that the worker writes and the processes of its tasks read.

    So they know that the session is over even while the worker is suspended. Times are milliseconds of `SystemClock`,
    which is the same in all processes of a machine. A process can get it only when it is spawned."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        # each is written whole: 8 bytes at an address that is a multiple of 8
        self._times = RawArray("q", [MAX_INT64, MAX_INT64])

    def renew(self, stop_ms: int, end_ms: int) -> None:
        """Set from when on tasks are told to stop, and their processes end themselves, since other workers may run the tasks."""
        self._times[0] = stop_ms
        self._times[1] = end_ms

    def holds(self) -> bool:
        return self._clock.now_ms() < int(self._times[0])

    def is_over(self) -> bool:
        """Return whether tasks must have ended: others may run them."""
        return self._clock.now_ms() >= int(self._times[1])


_DEAD: Final = "the process of the task exited with status {}"
_UNREADABLE: Final = "the process of the task sent an object that cannot be read here: {}"
_ORPHAN: Final = 70
"""The status of a process whose worker has died."""
_LAPSED: Final = 71
"""The status of a process whose task did not end before its worker's session did."""
_WATCH_S: Final = 0.05


def _nothing() -> None: ...


class ProcessRun(Run):
    """Runs in a process of its own, which can be ended by force.

    It ends by itself when this process dies, and when the lease is over, as it is when this process is suspended
    for longer than its session: then `lapsed` is called before `ended`.
    """

    _job: TaskJob

    def __init__(
        self,
        job: TaskJob,
        commit: Commit,
        ended: Ended,
        lease: SharedLease | None = None,
        lapsed: Callable[[], None] = _nothing,
        links: TaskLinks = NO_LINKS,
    ) -> None:
        super().__init__(job, ended, links)
        self._commit = commit
        self._lapsed = lapsed
        self._lease = lease or SharedLease()
        # not forked: this process has threads
        self._spawn = multiprocessing.get_context("spawn")
        self._here, self._there = self._spawn.Pipe()
        self._process: SpawnProcess | None = None
        self._stopped = self._killed = False
        self._sending = threading.Lock()
        self._over = threading.Event()

    @override
    def start(self) -> None:
        threading.Thread(target=self._run, name="task process", daemon=True).start()

    @override
    def stop(self) -> None:
        self._stopped = True
        self._send(("stop", None))

    @override
    def wait(self, timeout_s: float) -> bool:
        return self._over.wait(max(0.0, timeout_s))

    @override
    def kill(self) -> bool:
        self._killed = True
        process = self._process
        if process is None:
            return self._over.is_set()
        process.kill()
        return self._over.wait(5.0)

    def _send(self, message: tuple[str, object]) -> None:
        # one that has ended needs to hear nothing
        with self._sending, contextlib.suppress(OSError):
            self._here.send(message)

    def _run(self) -> None:
        try:
            # the user's code, as all that is pickled: on the run's own thread
            arguments = (*_shipped(self._job), self._there, self._lease)
            process = self._spawn.Process(target=_in_child, args=arguments, daemon=True)
            if not self._stopped:
                process.start()
                self._process = process
                if self._killed:
                    process.kill()
        except BaseException as error:  # noqa: BLE001  # reported as the task's failure
            self._end(stack_trace(error, self._job.secrets))
        else:
            self._there.close()
            self._end(None if self._process is None else self._serve(process))

    def _end(self, trace: str | None) -> None:
        self._here.close()
        self._over.set()
        self._ended(trace)

    def _serve(self, process: SpawnProcess) -> str | None:
        """Answer the child until it ends. Return the stack trace of its task."""
        trace: str | None = None
        unreadable = kind = ""
        try:
            while kind not in ("ended", "lapsed"):
                kind, value = self._here.recv()
                if kind == "commit":
                    self._send(("committed", _raised(lambda: self._commit(value))))  # noqa: B023  # called at once
                elif kind == "topic":
                    self._links.uses_topic(value)
                elif kind == "failure":
                    self._send(("reported", _raised(lambda: self._links.report(value))))  # noqa: B023  # called at once
                else:
                    trace = value
        except (EOFError, OSError):
            pass
        except Exception as error:  # noqa: BLE001  # a state holds the user's objects, whose classes decode themselves
            kind, unreadable = "", f"{error!r}"
            process.kill()
        process.join()
        if kind not in ("ended", "lapsed"):
            trace = _UNREADABLE.format(unreadable) if unreadable else _DEAD.format(process.exitcode)
        if kind == "lapsed" or process.exitcode == _LAPSED:
            self._lapsed()
        return trace


def _raised(act: Callable[[], None]) -> Exception | None:
    """Return what something raises, as the child can raise it."""
    try:
        act()
    except ConnectError as error:
        return error
    except Exception as error:  # noqa: BLE001  # raised in the child, which may not know its class
        return ConnectError(f"{type(error).__name__}: {error}")
    return None


class _ChildLink:
    def __init__(self, pipe: Connection, lease: SharedLease) -> None:
        self.stop = LeasedStop(lease.holds)
        self._lease = lease
        self._pipe = pipe
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self._answered = threading.Condition()
        self._answers: list[Exception | None] = []
        for target in (self._listen, self._watch):
            threading.Thread(target=target, daemon=True).start()

    def send(self, kind: str, value: object) -> None:
        with self._sending:
            self._pipe.send((kind, value))

    def commit(self, state: TaskState) -> None:
        self._ask("commit", dict(state))

    def report(self, failure: RecordFailure) -> None:
        self._ask("failure", failure)

    def _ask(self, kind: str, value: object) -> None:
        """Have the worker do something, and wait until it has."""
        # one after the other, as answers do not say what to
        with self._asking:
            if self.stop.holds():
                self.send(kind, value)
            error = self._answer()
        if error is not None:
            raise error

    def _answer(self) -> Exception | None:
        with self._answered:
            while not self._answers:
                if not self.stop.holds():
                    raise TaskFencedError("the worker's session expired: the state is discarded")
                # a worker that is suspended does not answer
                self._answered.wait(_WATCH_S)
            return self._answers.pop()

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
            # the worker has died, so others may run the task: it must not act any more
            os._exit(_ORPHAN)

    def _watch(self) -> None:
        """Tell the task to end when the lease does not hold, and end it when that is over."""
        while not self._lease.is_over():
            # which looks at the lease
            self.stop.is_set()
            time.sleep(_WATCH_S)
        os._exit(_LAPSED)


def _shipped(job: TaskJob) -> tuple[Any, ...]:
    """Return a job as it can be sent to another process, where its class may have to be recreated."""
    fields = {each.name: getattr(job, each.name) for each in dataclass_fields(job)}
    del fields["connector"]
    recipe: object = job.connector.recipe()
    match recipe:
        case (make, tuple(arguments)) if callable(make):
            return make, arguments, fields
    raise TypeError(
        f"recipe() must return a callable and a tuple of its arguments, not {recipe!r:.200}"
    )


def _in_child(
    make: Callable[..., type[Connector]],
    arguments: tuple[Any, ...],
    fields: dict[str, Any],
    pipe: Connection,
    lease: SharedLease,
) -> None:
    # the worker's first signal is for the worker, which then says what is to end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link = _ChildLink(pipe, lease)
    trace = None
    secrets: set[str] = fields["secrets"]
    try:
        job = TaskJob(connector=make(*arguments), **fields)
        with job.logged():
            links = TaskLinks(lambda topic: link.send("topic", topic), link.report)
            refuse_unrun(job.begin(link.stop, link.commit, links))
    except BaseException as error:  # noqa: BLE001  # reported as the task's failure
        trace = stack_trace(error, secrets)
    link.send("ended" if link.stop.holds() else "lapsed", trace)
    # without waiting for threads of the user's, which have no task any more
    os._exit(0)
