"""Call functions at a given time: one heap for all timers of a broker."""

import heapq
from collections.abc import Callable
from typing import Any, Final

from groupsdk.clock import Clock


_FEW: Final = 64


class Timer:
    """A scheduled call; `cancel` it if it is no longer needed."""

    __slots__ = ("at_ms", "call")

    def __init__(self, at_ms: int, call: Callable[[], Any]) -> None:
        self.at_ms = at_ms
        self.call: Callable[[], Any] | None = call

    def cancel(self) -> None:
        """Cancel the call; does nothing if it was made already."""
        self.call = None


class Scheduler:
    """Keeps timers in order of time and calls those that are due.

    It waits for nothing by itself: whoever owns it calls `run_due` when `next_ms` has come, and is told by
    `on_earlier` when that moves forward. In a broker the event loop does so, with a virtual clock the test.
    For one thread. An exception of a call goes to `on_failure`; the others are called all the same.

    Args:
        clock: tells the time that timers are compared with.
        on_failure: takes what a call raised.
    """

    def __init__(self, clock: Clock, on_failure: Callable[[Exception], None]) -> None:
        self._clock = clock
        self.now_ms = clock.now_ms
        """Returns the time of the clock."""
        self._on_failure = on_failure
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._limit = _FEW
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

    def run_due(self) -> int:
        """Make the calls that are due, in order of time. Return their number.

        What a call schedules for now is left for the next time, so that this ends.
        """
        now_ms = self._clock.now_ms()
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
        return made

    def _drop_cancelled(self) -> None:
        """Rebuild the heap when it has doubled: fetches that are answered early cancel their timers."""
        alive = [entry for entry in self._heap if entry[2].call is not None]
        heapq.heapify(alive)
        self._heap[:] = alive
        self._limit = max(_FEW, 2 * len(alive))

    def __len__(self) -> int:
        return len(self._heap)
