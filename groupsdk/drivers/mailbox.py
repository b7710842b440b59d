"""Hand over the engine's view of a member to its caller."""

import threading
from collections.abc import Callable
from dataclasses import replace

from groupsdk.errors import EngineError
from groupsdk.member.view import NOT_STARTED, MemberView


class Mailbox:
    """Holds the latest view of one member. Thread-safe; its lock is never held for long, nor while another is taken.

    Attributes:
        version: grows with every publication, and with every `wake`. Read it before the view: a view that is
            published in between then ends the next `wait_newer` at once.
        view: the view that the engine published last.
    """

    def __init__(self) -> None:
        # Re-entrant: wakeup() may be called by a signal handler, which interrupts the thread that holds it.
        # And no Condition: that is entered by Python code, within which a handler may raise, Ctrl-C for one;
        # the lock would stay held, and the engine would wait for it instead of heartbeating.
        self._lock = threading.RLock()
        self._waiters: list[threading.Lock] = []
        self.version = 0
        self.view = NOT_STARTED
        self._listener: Callable[[], None] | None = None

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, which must not raise, after each publication; a replaced one perhaps once more."""
        self._listener = listener

    def forget(self, listener: Callable[[], None]) -> None:
        """Remove this listener; another one that has replaced it stays."""
        if self._listener == listener:
            self._listener = None

    def publish(self, view: MemberView) -> None:
        """Publish a view; called by the engine. The end of the engine, once published, stays."""
        self._put(view=view)

    def crash(self, error: EngineError) -> None:
        """Publish that the engine has ended for good; called by its host."""
        self._put(crash=error)

    def wake(self) -> None:
        """Wake the caller, though nothing has changed."""
        self._put()

    def wait_newer(self, version: int, timeout_ms: int) -> None:
        """Wait until there is a version other than this one, or the time is over."""
        waiter = threading.Lock()
        waiter.acquire()
        with self._lock:
            if self.version != version:
                return
            self._waiters.append(waiter)
        # The next publication releases it. No lock is held here, so that it does not matter what
        # interrupts this; a waiter that is left behind goes with the next publication too.
        if not waiter.acquire(timeout=timeout_ms / 1000):
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _put(self, *, view: MemberView | None = None, crash: EngineError | None = None) -> None:
        with self._lock:
            # Under the lock: a concurrent wake must not put back a view that was replaced meanwhile.
            latest, ended = view or self.view, crash or self.view.crash
            self.view = latest if latest.crash is ended else replace(latest, crash=ended)
            self.version += 1
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.release()
        listener = self._listener
        if listener is not None:
            listener()
