"""Tell a task to end: a signal that also looks at the clock, for threads and for coroutines."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Generic, TypeVar


def always() -> bool:
    """Say that tasks may go on."""
    return True


EventT = TypeVar("EventT", threading.Event, asyncio.Event)


class LeasedSignal(Generic[EventT]):
    """A stop signal that is also set once the worker may not go on.

    A process that was suspended goes on right where a task looks at its signal, before anything else of it can
    tell the task to end: so the look itself asks the clock.

    Args:
        event: what it sets, and where it is set.
        holds: tells whether tasks may go on; may be called from any thread.
    """

    def __init__(self, event: EventT, holds: Callable[[], bool]) -> None:
        self._event: EventT = event
        self._holds = holds
        self._lapsed = False

    def holds(self) -> bool:
        """Tell whether the worker may go on; once it may not, that is so for ever."""
        if not self._lapsed and not self._holds():
            self._lapsed = True
        return not self._lapsed

    def set(self) -> None:
        """Tell to end; for a coroutine, on its loop."""
        self._event.set()

    def is_set(self) -> bool:
        """Tell whether to end."""
        if not self._event.is_set() and not self.holds():
            self._event.set()
        return bool(self._event.is_set())


class LeasedStop(LeasedSignal[threading.Event]):
    """The stop signal of a thread."""

    def __init__(self, holds: Callable[[], bool] = always) -> None:
        super().__init__(threading.Event(), holds)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for so many seconds, or until told to end; tells whether that was so."""
        self._event.wait(timeout)
        return self.is_set()


class AsyncStop(LeasedSignal[asyncio.Event]):
    """The stop signal of a coroutine, whose `wait` is awaited."""

    def __init__(self, holds: Callable[[], bool] = always) -> None:
        super().__init__(asyncio.Event(), holds)

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # as threading.Event
        """Wait for so many seconds, or until told to end; tells whether that was so."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), timeout)
        return self.is_set()
