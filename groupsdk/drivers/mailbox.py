"""Hand the engine's view of a member to its caller."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from groupsdk.errors import EngineError
from groupsdk.membership.view import MemberView


@dataclass(frozen=True, slots=True)
class Publication:
    """What the engine has shown last."""

    version: int
    """Grows with every publication."""
    handled: int
    """How many of the caller's events the view reflects."""
    view: MemberView | None
    """None until the engine has handled a first event."""
    error: EngineError | None
    """Why the engine ended, if it did so by itself."""


class Mailbox:
    """Holds the latest publication. Thread-safe; its lock is the only one, and is never held for long."""

    def __init__(self) -> None:
        # Re-entrant: wakeup() may be called by a signal handler, which interrupts the thread that holds it.
        # And no Condition: that is entered by Python code, within which a handler may raise, Ctrl-C for one;
        # the lock would stay held, and the engine would wait for it instead of heartbeating.
        self._lock = threading.RLock()
        self._waiters: list[threading.Lock] = []
        self._latest = Publication(0, 0, None, None)
        self._listener: Callable[[], None] | None = None

    def listen(self, listener: Callable[[], None]) -> None:
        """Have `listener`, and no other any more, called after each publication, on the publishing thread.

        It may be called once more shortly after it was replaced. It must not raise.
        """
        self._listener = listener

    def forget(self, listener: Callable[[], None]) -> None:
        """Call this listener no more; one that has replaced it stays."""
        if self._listener == listener:
            self._listener = None

    def publish(self, handled: int, view: MemberView) -> None:
        """Show a view; called by the engine."""
        self._put(lambda latest: Publication(latest.version + 1, handled, view, latest.error))

    def crash(self, error: EngineError) -> None:
        """Say that the engine has ended; called by its host."""
        self._put(lambda latest: replace(latest, version=latest.version + 1, error=error))

    def wake(self) -> None:
        """Make the caller look again, though nothing has changed."""
        self._put(lambda latest: replace(latest, version=latest.version + 1))

    def read(self) -> Publication:
        """Return the latest publication."""
        return self._latest

    def wait_newer(self, version: int, timeout_ms: int) -> None:
        """Wait until there is a publication newer than `version`, or the time is over."""
        waiter = threading.Lock()
        waiter.acquire()
        with self._lock:
            if self._latest.version != version:
                return
            self._waiters.append(waiter)
        # The next publication releases it. No lock is held here, so that it does not matter what
        # interrupts this; a waiter that is left behind goes with the next publication too.
        if not waiter.acquire(timeout=timeout_ms / 1000):
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _put(self, successor: Callable[[Publication], Publication]) -> None:
        with self._lock:
            # Under the lock: who wakes the caller must not put back a view that was replaced meanwhile.
            self._latest = successor(self._latest)
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.release()
        listener = self._listener
        if listener is not None:
            listener()
