"""Call functions at a given time, with one heap for all timers of a broker."""

import heapq
from collections.abc import Callable
from typing import Any, Final

from groupsdk.clock import Clock


_FEW: Final = 64


class Timer:
    """A scheduled call, returned by `Scheduler`; `cancel` it if it is no longer needed."""

    __slots__ = ("at_ms", "call")

    def __init__(self, at_ms: int, call: Callable[[], Any]) -> None:
        self.at_ms = at_ms
        self.call: Callable[[], Any] | None = call

    def cancel(self) -> None:
        """Cancel the call; does nothing if it was made or cancelled already."""
        self.call = None


class Scheduler:
    """Keeps timers in order of time and runs those that are due.

    It never waits: its owner calls `run_due` when `next_ms` has come, and `on_earlier` notifies it when `next_ms`
    moves to an earlier time. In a broker the owner is the event loop; with a virtual clock, the test. Not thread-safe.

    Args:
        on_failure: receives the exceptions of calls; the other calls are made all the same.
    """

    def __init__(self, clock: Clock, on_failure: Callable[[Exception], None]) -> None:
        self._clock = clock
        self.now_ms = clock.now_ms
        self._on_failure = on_failure
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._limit = _FEW
        self._due_ms: int | None = None
        self.on_earlier: Callable[[int], None] | None = None

    def at(self, at_ms: int, call: Callable[[], Any]) -> Timer:
        """Call a function at a time, or at the next `run_due` if that time has passed."""
        timer = Timer(at_ms, call)
        heap = self._heap
        earlier = not heap or at_ms < heap[0][0]
        self._count += 1
        heapq.heappush(heap, (at_ms, self._count, timer))
        if len(heap) > self._limit:
            self._drop_cancelled()
        if earlier and self.on_earlier is not None:
            self.on_earlier(at_ms)
        return timer

    def after(self, delay_ms: int, call: Callable[[], Any]) -> Timer:
        """Call a function in `delay_ms` from now."""
        return self.at(self._clock.now_ms() + delay_ms, call)

    @property
    def next_ms(self) -> int | None:
        """The time of the next call; None if there is none."""
        heap = self._heap
        while heap and heap[0][2].call is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self, until_ms: int | None = None) -> int:
        """Make the calls that are due, in order of time. Return how many were made.

        Calls scheduled meanwhile wait for the next `run_due`, even if already due, so that this always returns.

        Args:
            until_ms: the time up to which calls are due; None: now. After a stall it is a time before which everything
                that clients sent has been read.
        """
        now_ms = self._due_ms = self._clock.now_ms() if until_ms is None else until_ms
        last = self._count
        made = 0
        later: list[tuple[int, int, Timer]] = []
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heapq.heappop(heap)
            call = entry[2].call
            if call is None:
                continue
            if entry[1] > last:
                later.append(entry)
                continue
            entry[2].call = None
            made += 1
            try:
                call()
            except Exception as error:  # noqa: BLE001 - one broken call must not stop all timers
                self._on_failure(error)
        for entry in later:
            heapq.heappush(heap, entry)
        self._due_ms = None
        return made

    def due_ms(self) -> int:
        """Return the time up to which deadlines count as over: that of `run_due` while it runs, otherwise now."""
        return self._clock.now_ms() if self._due_ms is None else self._due_ms

    def _drop_cancelled(self) -> None:
        """Rebuild the heap when it has doubled: fetches that are answered early cancel their timers."""
        alive = [entry for entry in self._heap if entry[2].call is not None]
        heapq.heapify(alive)
        self._heap[:] = alive
        self._limit = max(_FEW, 2 * len(alive))

    def __len__(self) -> int:
        return len(self._heap)
