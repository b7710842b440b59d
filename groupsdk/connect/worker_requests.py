"""Hold what a worker is asked from other threads until its own has time for it, and until the group has a leader."""

import queue
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from groupsdk.clock import Clock


T = TypeVar("T")
HOLD_MS: Final = 45_000
"""How long a request for the leader waits while nobody leads; less than HTTP clients and forwarding workers wait."""


class WorkerRequests:
    """The requests to one worker. `put`, `post` and `empty` may be used from any thread, the rest on the worker's.

    Args:
        clock: the time.
        wake: called when there is something to run.
    """

    def __init__(self, clock: Clock, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._wake = wake
        self._queue: queue.SimpleQueue[tuple[Callable[[], None], int | None]] = queue.SimpleQueue()
        self._held: list[tuple[Callable[[], None], int]] = []

    def put(self, act: Callable[[], T], *, of_leader: bool = False) -> "Future[T]":
        """Have something run, and return its future result.

        Args:
            act: what to run; what it raises is the future's.
            of_leader: whether it waits until the leader is known.
        """
        future: Future[T] = Future()

        def run() -> None:
            # a future that its caller has given up takes no result: it would raise, and end the worker
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = act()
            except Exception as error:  # noqa: BLE001  # the caller's
                future.set_exception(error)
            else:
                future.set_result(result)

        self._queue.put((run, self._clock.now_ms() + HOLD_MS if of_leader else None))
        self._wake()
        return future

    def post(self, act: Callable[[], None]) -> None:
        """Have something run that nobody waits for."""
        self._queue.put((act, None))
        self._wake()

    @property
    def empty(self) -> bool:
        """Whether nothing can be run at once."""
        return self._queue.empty()

    @property
    def due_ms(self) -> int | None:
        """When the first of those that wait for a leader has waited for long enough."""
        return min((until_ms for _, until_ms in self._held), default=None)

    def run(self, *, holds_back: bool) -> None:
        """Run everything that has come.

        Args:
            holds_back: whether nobody is known to lead at present, though soon somebody may be.
        """
        now_ms = self._clock.now_ms()
        held, self._held = self._held, []
        for act, until_ms in held:
            self._run_or_hold(act, until_ms, holds_back, now_ms)
        while True:
            try:
                act, waits_until_ms = self._queue.get_nowait()
            except queue.Empty:
                return
            self._run_or_hold(act, waits_until_ms, holds_back, now_ms)

    def _run_or_hold(
        self, act: Callable[[], None], until_ms: int | None, holds_back: bool, now_ms: int
    ) -> None:
        if holds_back and until_ms is not None and now_ms < until_ms:
            self._held.append((act, until_ms))
        else:
            act()
