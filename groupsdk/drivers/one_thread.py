"""Keep other threads out of an object, even if calls are interrupted: `OneThread`, `CallersLock`."""

import _thread
import threading
from collections.abc import Callable
from typing import TypeVar

from groupsdk.errors import ConcurrentUseError
from groupsdk.lazy_imports import override


T = TypeVar("T")


class CallersLock(_thread.RLock):  # type: ignore[misc]  # it is final in the stub alone
    """A re-entrant lock for `with`, which a caller that is interrupted does not keep.

    From Python 3.14 on a signal handler may raise between the acquisition of a lock and the block that releases it.
    Code that is not a signal handler must not take it twice: only its first acquisition is undone.
    """

    @override
    def __enter__(self) -> bool:  # type: ignore[override]  # no argument: `with` gives none
        is_mine: Callable[[], bool] = self._is_owned  # type: ignore[attr-defined]  # the stub lacks it
        was_mine = is_mine()
        try:
            return self.acquire()
        except BaseException:
            if is_mine() and not was_mine:
                self.release()
            raise


def busy_text(user: str, used: str) -> str:
    """Return the error text for a second thread or task that would drive a member or worker."""
    return (
        f"another {user} is using the {used}; a {used} has one caller at a time (wakeup() makes a waiting one"
        " return)"
    )


def nested_text(used: str) -> str:
    """Return the error text for a callback that would drive the member or worker that calls it."""
    return (
        f"called from a callback of the same {used}, which may call close() but not poll(),"
        " ensure_active_group() or leave_group()"
    )


class Visit:
    """A call in progress; user callbacks may run within one that is `driving`."""

    __slots__ = ("driving", "thread")

    def __init__(self, *, driving: bool) -> None:
        self.driving = driving
        self.thread = threading.get_ident()


class OneThread:
    """Rejects a second thread at once, and callbacks that would drive the object that calls them.

    A signal handler may raise between any two steps of a call, as that of Ctrl-C does. A lock that is acquired or
    released by Python code would then stay held for ever: the handler may run after the lock was taken and before
    the block that gives it back has begun, or at the first step of ``__exit__``. So the calls being made are a list.
    A call puts itself there first thing within ``try``, and ``finally`` takes it out by one call of a method written in
    C; CPython runs handlers only after such a call has had its effect. The first in the list has the object.
    """

    def __init__(self, busy: str, nested: str) -> None:
        self.visits: list[Visit] = []
        """For those who cannot afford `run`, and do as it does."""
        self.torn = False
        """Whether a call has ended by an exception since this was last set to False: it may have stopped anywhere."""
        self._busy = busy
        self._nested = nested

    def run(
        self, work: Callable[[], T], *, driving: bool = False, within_callbacks: bool = True
    ) -> T:
        """Run a function while no other thread is inside.

        Raises ConcurrentUseError if another thread is in, or this one is in a callback and may not do this there.
        """
        visit = Visit(driving=driving)
        try:
            self.visits.append(visit)
            self.check(visit, within_callbacks=within_callbacks)
            return work()
        except BaseException:
            self.torn = True
            raise
        finally:
            self.visits.remove(visit)

    def check(self, visit: Visit, *, within_callbacks: bool) -> None:
        """Reject a call that conflicts with those in progress (ConcurrentUseError)."""
        if self.visits[0].thread != visit.thread:
            raise ConcurrentUseError(self._busy)
        if within_callbacks or len(self.visits) == 1:
            return
        if any(
            each.driving
            for each in self.visits[:]
            if each is not visit and each.thread == visit.thread
        ):
            raise ConcurrentUseError(self._nested)
