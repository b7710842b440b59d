"""Have an event loop make the calls of a scheduler at their time."""

import asyncio
from typing import Final

from groupsdk.broker.runtime.scheduler import Scheduler


_MS_PER_S: Final = 1000


class LoopTimer:
    """Run a scheduler on an event loop: one wake-up of the loop, for the first of its calls.

    Args:
        loop: whose thread all calls are made on.
        scheduler: what is run.
        waits: whether the loop wakes up by the machine's clock. With a clock that a test moves it does not: only
            what is due at once is called, the rest when the test says so.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, scheduler: Scheduler, *, waits: bool = True
    ) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._waits = waits
        self._wake: asyncio.TimerHandle | None = None
        self._closed = False
        scheduler.on_earlier = self._arm
        if scheduler.next_ms is not None:
            self._arm(scheduler.next_ms)

    def close(self) -> None:
        """Make no more calls."""
        self._closed = True
        self._scheduler.on_earlier = None
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _arm(self, at_ms: int) -> None:
        delay_ms = max(at_ms - self._scheduler.now_ms(), 0)
        if delay_ms and not self._waits:
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._loop.call_later(delay_ms / _MS_PER_S, self._run_due)

    def _run_due(self) -> None:
        self._wake = None
        self._scheduler.run_due()
        next_ms = self._scheduler.next_ms
        if next_ms is not None and not (self._closed or self._wake):
            self._arm(next_ms)
