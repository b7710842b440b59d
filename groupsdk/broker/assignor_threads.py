"""Run the assignors of consumer groups on threads, so that they do not block the broker's loop."""

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import format_exception_only
from typing import Final

from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentJob, Outcome
from groupsdk.broker.coordinator.consumer.assignors import AssignorError
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer


logger = logging.getLogger(__name__)
_SWITCH_S: Final = 0.0005
"""How long an assignor keeps the interpreter before the loop may run. The loop releases it up to three times for each
request, with every call of a socket, and would wait for Python's 5 ms each time.
"""
_STARVED: Final = 0.05
"""An assignor that has computed for this share of the time at least waits for the processor, and does not hang."""
_lock = threading.Lock()
_running = 0
_usual_s = 0.0

Done = Callable[[Outcome], None]


@contextmanager
def short_turns() -> Iterator[None]:
    """Have the threads of this process take short turns; the former interval returns with the last one that ends."""
    global _running, _usual_s
    with _lock:
        if not _running:
            _usual_s = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual_s, _SWITCH_S))
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                sys.setswitchinterval(_usual_s)


class _Call:
    """One requested call of an assignor."""

    __slots__ = ("began_ms", "clock", "done", "job", "timer", "told", "used_ms")

    def __init__(self, job: AssignmentJob, done: Done) -> None:
        self.job = job
        self.done = done
        self.began_ms = 0
        self.timer: Timer | None = None
        self.clock: int | None = None
        """That of its thread's CPU time."""
        self.used_ms = 0
        """The CPU time that it had taken when its limit was last looked at."""
        self.told = False
        """Whether its outcome was handed over: also when it ran into the limit of time, and still runs."""

    def is_starved(self, limit_ms: int) -> bool:
        """Note its CPU time. Return whether it has computed since the last look, and has some of its limit left."""
        if self.clock is None:
            return False
        before_ms = self.used_ms
        try:
            self.used_ms = int(time.clock_gettime(self.clock) * 1_000)
        except OSError:
            return True  # its thread has ended: the outcome is on its way
        least_ms = before_ms + (limit_ms - before_ms) * _STARVED
        return least_ms <= self.used_ms < limit_ms


class AssignorThreads:
    """Runs each assignor job on a thread of its own, one job at a time for each assignor, with a timeout.

    Python cannot stop a thread. A job that exceeds the timeout is abandoned, and while it goes on, further jobs of the
    same assignor fail at once: a hanging assignor holds one thread. Not thread-safe: call every method on the loop's
    thread.

    Args:
        on_loop: calls a function on the loop's thread; may be called from any thread.
        limit_ms: returns how many milliseconds a job may take (`group.consumer.assignor.timeout.ms`), of its thread's CPU
            time for as long as it computes.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        on_loop: Callable[[Callable[[], None]], None],
        limit_ms: Callable[[], int],
    ) -> None:
        self._scheduler = scheduler
        self._on_loop = on_loop
        self._limit_ms = limit_ms
        self._running: dict[str, _Call] = {}
        self._waiting: dict[str, deque[_Call]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a job's outcome is still to be reported; abandoned jobs do not count."""
        return any(not each.told for each in self._running.values())

    def start(self, job: AssignmentJob, done: Done) -> None:
        """Run a job once earlier jobs of the same assignor have ended.

        `done` is called once on the loop's thread, after this returns, with the target or an exception
        (AssignorError on timeout).
        """
        call = _Call(job, done)
        running = self._running.get(job.name)
        if running is None:
            self._run(call)
        elif running.told:
            busy_ms = self._scheduler.now_ms() - running.began_ms
            error = AssignorError(
                f"assignor {job.name!r} has been running for {busy_ms} ms for the group {running.job.group_id}"
            )
            self._on_loop(lambda: self._tell(call, error))
        else:
            self._waiting.setdefault(job.name, deque()).append(call)

    def _run(self, call: _Call) -> None:
        job = call.job
        self._running[job.name] = call
        call.began_ms = self._scheduler.now_ms()
        call.timer = self._scheduler.after(self._limit_ms(), lambda: self._overdue(call))
        thread = threading.Thread(
            target=self._work, args=(call,), name=f"groupsdk-assignor-{job.name}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            # the process has no more threads
            outcome = AssignorError(f"assignor {job.name!r} cannot run: {error}")
            self._on_loop(lambda: self._ended(call, outcome))

    def _work(self, call: _Call) -> None:
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS
            call.clock = time.pthread_getcpuclockid(threading.get_ident())
        outcome: Outcome
        try:
            with short_turns():
                outcome = call.job.run()
        except AssignorError as error:
            outcome = error
        except BaseException as error:  # noqa: BLE001 - the assignor is the user's
            # `SystemExit` and the like as well: without an outcome no group would get a target again
            (said,) = format_exception_only(error)[-1:]
            outcome = AssignorError(f"assignor {call.job.name!r} raised {said.strip()}")
            outcome.__cause__ = error
        try:
            self._on_loop(lambda: self._ended(call, outcome))
        except RuntimeError:
            logger.debug(
                "assignor %s: finished after the broker stopped; result discarded", call.job.name
            )

    def _ended(self, call: _Call, outcome: Outcome) -> None:
        if call.timer is not None:
            call.timer.cancel()
        name = call.job.name
        del self._running[name]
        if call.told:
            taken_ms = self._scheduler.now_ms() - call.began_ms
            logger.warning(
                "assignor %s: finished after %d ms, too late; result discarded", name, taken_ms
            )
        waiting = self._waiting.get(name)
        if waiting:
            self._run(waiting.popleft())
        self._tell(call, outcome)

    def _overdue(self, call: _Call) -> None:
        name, limit_ms = call.job.name, self._limit_ms()
        if call.is_starved(limit_ms):
            wait_ms = limit_ms - call.used_ms
            call.timer = self._scheduler.after(wait_ms, lambda: self._overdue(call))
            return
        error = AssignorError(
            f"assignor {name!r} took longer than group.consumer.assignor.timeout.ms={limit_ms}"
        )
        for each in (call, *self._waiting.pop(name, ())):
            self._tell(each, error)

    def _tell(self, call: _Call, outcome: Outcome) -> None:
        if not call.told:
            call.told = True
            call.done(outcome)
