"""Run long tasks in short slices between the requests of clients, with a bounded share of the event loop's time.

One step at each iteration of the loop is too much: a client that waits for each response before its next request would
have a step between any two of them.
"""

import logging
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, Final, Protocol


logger = logging.getLogger(__name__)
SLICE_NS: Final = 500_000
"""For how long steps run before the loop goes on, while it is not overloaded."""
_LONGEST_SLICE_NS: Final = 5_000_000
_LONGEST_WAIT_NS: Final = 1_000_000_000
_NS_PER_S: Final = 1e9


class InSteps(Protocol):
    """Calls one step of a task that clients wait for, so that short requests go first."""

    def __call__(self, step: Callable[[], Any], group: str = ..., /) -> Any:
        """Call a step of a group, or of no group, after those of the same that wait."""


class Activity:
    """Counts the requests on which the shares of the loop's time depend.

    Attributes:
        short: the short requests so far.
        long: the long requests so far, and the slices of their steps.
    """

    __slots__ = ("long", "short")

    def __init__(self) -> None:
        self.short = 0
        self.long = 0


class Share:
    """Decides when a slice may run and how long it may be. It reads no clock: times are passed in, in nanoseconds.

    If no client was served since the last slice, the next may run at once. Otherwise it waits until the loop has had
    its part of the time. If it could not run for longer than that, as on an overloaded loop, it takes up to 5 ms
    instead of `SLICE_NS`, so that the task does not starve.

    Args:
        percent: the share of the loop's time while clients are served; from 1 to 99.
    """

    __slots__ = ("_ended_ns", "_others", "_percent", "_served", "_wait_ns")

    def __init__(self, percent: int) -> None:
        self._percent = percent
        self._others = 100 - percent
        self._served = 0
        self._ended_ns = 0
        self._wait_ns = 0

    def wait_ns(self, now_ns: int, served: int) -> int:
        """Return how long the next slice has to wait after so many requests that go first; 0: it may run."""
        if served == self._served:
            return 0
        return max(self._ended_ns + self._wait_ns - now_ns, 0)

    def slice_ns(self, now_ns: int) -> int:
        """Return how long a slice that begins now may take."""
        late_ns = max(now_ns - self._ended_ns - self._wait_ns, 0)
        return min(SLICE_NS + late_ns * self._percent // self._others, _LONGEST_SLICE_NS)

    def spent(self, start_ns: int, end_ns: int, served: int) -> None:
        """Account for a slice that ran."""
        self._served = served
        self._ended_ns = end_ns
        self._wait_ns = min((end_ns - start_ns) * self._others // self._percent, _LONGEST_WAIT_NS)


class Lane:
    """Calls the steps of long tasks in turn, in slices with a share of the loop's time.

    Each call is one step, of well below a millisecond if possible; a task adds its next step from within the last. Steps
    are of groups, which take turns: a group whose thousand members join holds up no other group, and no other task, for
    more than a step at a time. Those of one group are called in order. Not thread-safe: used on the loop's thread.

    Args:
        share: decides when slices run; it belongs to this lane.
        defer: calls a function after the loop has polled its sockets and served the clients it found.
        is_for_clients: whether the tasks are long requests, so that only short ones go first; other tasks wait for both.
    """

    def __init__(
        self,
        share: Share,
        activity: Activity,
        defer: Callable[[Callable[[], Any]], Any],
        later: Callable[[float, Callable[[], Any]], Any],
        *,
        is_for_clients: bool,
        clock_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._share = share
        self._activity = activity
        self._defer = defer
        self._later = later
        self._is_for_clients = is_for_clients
        self._clock_ns = clock_ns
        self._waiting: dict[str, deque[Callable[[], Any]]] = {}
        self._turns: deque[str] = deque()  # the groups with waiting steps
        self._is_armed = False

    def add(self, step: Callable[[], Any], group: str = "") -> None:
        """Call a step in one of the next slices, after those of its group that were added before it."""
        waiting = self._waiting.get(group)
        if waiting is None:
            self._waiting[group] = deque((step,))
            self._turns.append(group)
        else:
            waiting.append(step)
        if not self._is_armed:
            self._arm()

    def has_waiting(self, group: str) -> bool:
        """Return whether steps of a group wait."""
        return group in self._waiting

    def after_waiting(self, call: Callable[[], Any]) -> None:
        """Call a function once the steps that wait now had a turn; at once if there are none."""
        left = len(self._waiting)
        if not left:
            call()
            return

        def passed() -> None:
            nonlocal left
            left -= 1
            if not left:
                call()

        for waiting in self._waiting.values():
            waiting.append(passed)

    def _next(self) -> Callable[[], Any]:
        group = self._turns.popleft()
        waiting = self._waiting[group]
        step = waiting.popleft()
        if waiting:
            self._turns.append(group)
        else:
            del self._waiting[group]
        return step

    def _served(self) -> int:
        activity = self._activity
        return activity.short if self._is_for_clients else activity.short + activity.long

    def _arm(self) -> None:
        self._is_armed = True
        wait_ns = self._share.wait_ns(self._clock_ns(), self._served())
        if wait_ns:
            self._later(wait_ns / _NS_PER_S, self._run)
        else:
            self._defer(self._run)

    def _run(self) -> None:
        clock_ns, share = self._clock_ns, self._share
        start_ns = clock_ns()
        if share.wait_ns(start_ns, self._served()):
            self._arm()  # clients came meanwhile
            return
        until_ns = start_ns + share.slice_ns(start_ns)
        turns = self._turns
        now_ns = start_ns
        while turns and now_ns < until_ns:
            step = self._next()
            try:
                step()
            except Exception:  # a bug in one task must not stop the others
                logger.exception("a step of a long task failed")
            now_ns = clock_ns()
        if self._is_for_clients:
            self._activity.long += 1
        share.spent(start_ns, now_ns, self._served())
        self._is_armed = False
        if turns:
            self._arm()
