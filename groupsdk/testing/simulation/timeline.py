"""Keep virtual time: what is to happen when."""

from collections.abc import Callable
from heapq import heappop
from typing import Any, Final, NoReturn

from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer
from groupsdk.clock import ManualClock
from groupsdk.lazy_imports import override


_AT_ONCE: Final = 5_000
"""How much may happen within one millisecond before it is taken for a loop."""
START_MS: Final = 1_000_000


class Timeline(Scheduler):
    """Runs what is to happen in the order of time, and among equals in the order of asking.

    Unlike its base it moves its clock itself, and an exception ends the run.
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self._manual = ManualClock(start_ms)
        super().__init__(self._manual, _raise)
        self.steps = 0
        """How much has happened."""

    def run_until(self, at_ms: int, after_each: Callable[[], None]) -> None:
        """Let time pass; `after_each` is called after everything that happens."""
        at_once = 0
        heap, clock = self._heap, self._manual
        while heap and heap[0][0] <= at_ms:
            due_ms, _, timer = heappop(heap)
            call, timer.call = timer.call, None
            if call is None:
                continue
            passed_ms = due_ms - clock.now_ms()
            if passed_ms > 0:
                clock.advance(passed_ms)
                at_once = 0
            else:
                at_once += 1
                if at_once > _AT_ONCE:
                    raise AssertionError(f"time stands still at {due_ms}: something spins")
            self.steps += 1
            call()
            after_each()
        clock.advance(max(at_ms - clock.now_ms(), 0))


class ProcessTimers(Scheduler):
    """The timers of one process on a timeline: they die with it, and wait while it is paused."""

    def __init__(self, timeline: Timeline, run: Callable[[Callable[[], Any]], None]) -> None:
        super().__init__(timeline, _raise)
        self._timeline = timeline
        self._run = run
        self.dead = False
        self.paused_until_ms = 0

    @override
    def at(self, at_ms: int, call: Callable[[], Any]) -> Timer:
        timer = Timer(at_ms, call)
        self._timeline.at(at_ms, lambda: self._due(timer))
        return timer

    def _due(self, timer: Timer) -> None:
        if self.dead or timer.call is None:
            return
        if self.paused_until_ms > self._timeline.now_ms():
            self._timeline.at(self.paused_until_ms, lambda: self._due(timer))
            return
        call, timer.call = timer.call, None
        self._run(call)


def _raise(error: Exception) -> NoReturn:
    raise error
