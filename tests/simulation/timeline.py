"""Keep virtual time: what is to happen when."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Timer:
    """Something that is to happen, unless it is cancelled."""

    __slots__ = ("action", "at_ms")

    def __init__(self, at_ms: int, action: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Timeline:
    """Runs what is to happen in the order of time, and among equals in the order of asking."""

    def __init__(self, start_ms: int = 1_000_000) -> None:
        self.now_ms = start_ms
        self.steps = 0
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()

    def after(self, delay_ms: int, action: Callable[[], None]) -> Timer:
        timer = Timer(self.now_ms + max(0, delay_ms), action)
        heappush(self._heap, (timer.at_ms, next(self._order), timer))
        return timer

    def at(self, at_ms: int, action: Callable[[], None]) -> Timer:
        return self.after(at_ms - self.now_ms, action)

    def run_until(self, at_ms: int, after_each: Callable[[], None]) -> None:
        """Let time pass; `after_each` is called after everything that happens."""
        at_once = 0
        while self._heap and self._heap[0][0] <= at_ms:
            due_ms, _, timer = heappop(self._heap)
            if timer.action is None:
                continue
            at_once = at_once + 1 if due_ms == self.now_ms else 0
            if at_once > 5_000:
                raise AssertionError(f"time stands still at {self.now_ms}: something spins")
            self.now_ms = due_ms
            self.steps += 1
            timer.action()
            after_each()
        self.now_ms = max(self.now_ms, at_ms)
