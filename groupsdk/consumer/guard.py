"""Guard a consumer against concurrent use, polling from its listeners, and use in a forked child."""

import os
from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from groupsdk.drivers.one_thread import OneThread, Visit
from groupsdk.errors import EngineError, MemberClosedError
from groupsdk.lazy_imports import override


P = ParamSpec("P")
T = TypeVar("T")


class OneUser(OneThread):
    """Rejects calls that may not use the consumer at present, without waiting."""

    def __init__(self) -> None:
        super().__init__(
            "another thread is using the consumer (wakeup() makes a waiting one return)",
            "a listener may use its consumer, but not poll it",
        )
        self.closed = False
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the consumer's: heartbeats and librdkafka do not survive a fork."""
        return os.getpid() != self._pid

    @override
    def check(self, visit: Visit, *, within_callbacks: bool) -> None:
        """Reject a call that conflicts with those in progress.

        Raises:
            ConcurrentUseError: another thread is in, or this one is in a listener and wants to drive.
            EngineError: this is a fork of the consumer's process.
            MemberClosedError: the consumer is closed.
        """
        if os.getpid() != self._pid:  # first: the parent's calls are in the list for ever here
            raise EngineError(
                "the process forked after the consumer was created, and its heartbeat and librdkafka stayed in"
                " the parent; create consumers after forking"
            )
        super().check(visit, within_callbacks=within_callbacks or self.closed)
        if self.closed:
            raise MemberClosedError("the consumer is closed")


class Guarded(Protocol):
    _guard: OneUser


G = TypeVar("G", bound=Guarded)


def guarded(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Restrict a method to one thread at a time (`OneUser.check`); listeners may call it."""

    @wraps(method)
    def alone(self: G, /, *args: P.args, **keywords: P.kwargs) -> T:
        return self._guard.run(partial(method, self, *args, **keywords))

    return alone
