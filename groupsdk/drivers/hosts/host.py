"""The interface of engine hosts, and the mailbox in which a host leaves the newest view."""

import contextlib
import itertools
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from groupsdk.clock import Clock
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.errors import EngineError, GroupSdkError
from groupsdk.member.events import CallerEvent
from groupsdk.member.view import NOT_STARTED, MemberView
from groupsdk.settings.config import MemberConfig


if TYPE_CHECKING:
    from groupsdk.member.requests import CoordinatorRequest
    from groupsdk.wire.schema import Response


class Mailbox:
    """Holds the latest view of one member. Thread-safe; its lock is never held for long, nor while another is taken.

    Its callers take no lock: a signal handler may raise, Ctrl-C for one, and from Python 3.14 on even between the
    acquisition of a lock and the block that releases it. It would stay held, and the engine wait for it instead of
    heartbeating. What callers do to `_waiters` is atomic.

    Attributes:
        version: grows with every publication, and with every `wake`. Read it before the view: a view that is
            published in between then ends the next `wait_newer` at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: list[threading.Lock] = []
        self._versions = itertools.count(1)
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
        # Of two at the same time the earlier number may stay; it is new to all that wait, too.
        self.version = next(self._versions)
        while self._waiters:
            with contextlib.suppress(IndexError):  # another thread was faster
                self._waiters.pop().release()
        listener = self._listener
        if listener is not None:
            listener()

    def wait_newer(self, version: int, timeout_ms: int) -> None:
        """Wait until there is a version other than this one, or the time is over."""
        waiter = threading.Lock()
        waiter.acquire()
        # Before it reads the version: whoever sets another one after that releases it. A waiter that
        # is left behind by what interrupts this goes with the next publication.
        self._waiters.append(waiter)
        if self.version != version or not waiter.acquire(timeout=timeout_ms / 1000):
            try:  # noqa: SIM105  # it makes three calls, and this is for each wait
                self._waiters.remove(waiter)
            except ValueError:
                pass  # released meanwhile

    def _put(self, *, view: MemberView | None = None, crash: EngineError | None = None) -> None:
        with self._lock:
            # Under the lock: the engine's last view must not put back one without the crash.
            latest, ended = view or self.view, crash or self.view.crash
            self.view = latest if latest.crash is ended else replace(latest, crash=ended)
        self.wake()


T = TypeVar("T")


class Host(Protocol):
    """Runs one member's engine where user code cannot starve it, and publishes to a `Mailbox`.

    All methods may be called from any thread, and none of them waits.
    """

    @property
    def ended(self) -> Future[None]:
        """Done once the engine has ended, for any reason, and nothing of it is left."""
        ...

    def start(self) -> None:
        """Start the engine, once; EngineError if the machine has no room for it."""
        ...

    def post(self, event: CallerEvent) -> None:
        """Hand the engine an event; events arrive in the order of the calls. No-op once it has ended."""
        ...

    def ask(self, request: "CoordinatorRequest") -> "Future[Response]":
        """Send the coordinator a request beside the membership, in order with earlier events.

        The future has the response or a `GroupSdkError`, and is done on the engine's thread.
        """
        ...

    def metrics(self) -> Future[dict[str, float]]:
        """Ask for Kafka's coordinator metrics; the last known ones once the engine has ended."""
        ...

    def abandon(self) -> None:
        """Make the engine end by itself because its caller is gone: a dynamic member leaves the group.

        May be called by the garbage collector. Gives a `ResourceWarning` where the engine still ran.
        """
        ...

    def abort(self) -> None:
        """End the engine at once, without leaving the group; for an engine that does not respond."""
        ...


OpenHost = Callable[[MemberConfig, Clock, Mailbox], Host]
"""What makes a host; tests give their own."""


def settle(future: "Future[Response]", answer: "Response | GroupSdkError") -> None:
    if isinstance(answer, GroupSdkError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


def warn_unclosed(group_id: str, host: Host) -> None:
    """Emit the `ResourceWarning` for a member that was dropped while it ran; last, as a filter may make it an exception."""
    warnings.warn(
        f"group={group_id}: a member was dropped without close() and leaves its group now; close it, or use it"
        " in a with block",
        ResourceWarning,
        stacklevel=2,
        source=host,
    )


class _Condition(CallersLock):  # type: ignore[misc]  # as there
    """The condition of a future.

    That of the standard library stays locked for ever if the handler of a signal raises while it is entered, as that of
    Ctrl-C does. The engine would wait for it with the answer in its hands, in the place of heartbeating.
    """

    def __init__(self) -> None:
        self._waiters: list[threading.Lock] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `notify_all`, with the lock given back meanwhile; return whether it came in time."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        try:
            self.release()
            return waiter.acquire(timeout=-1 if timeout is None else timeout)
        finally:
            self.acquire()

    def notify_all(self) -> None:
        """End all waiting."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.release()


def promise() -> Future[T]:
    """Return a future that a waiting caller cannot cancel, and a signal handler cannot leave locked."""
    future: Future[T] = Future()
    future._condition = _Condition()  # type: ignore[assignment]  # noqa: SLF001  # it takes no argument for this
    future.set_running_or_notify_cancel()
    return future
