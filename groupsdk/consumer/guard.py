"""Let one thread at a time use a consumer, its listeners not poll it, and no forked child touch it."""

import os
from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from typing_extensions import override

from groupsdk.drivers.one_thread import OneThread, Visit
from groupsdk.errors import EngineError, MemberClosedError


P = ParamSpec("P")
T = TypeVar("T")


class OneUser(OneThread):
    """Refuses whoever may not use the consumer at present; nobody waits."""

    def __init__(self) -> None:
        super().__init__(
            "another thread is using the consumer (wakeup() makes a waiting one return)",
            "a listener may use its consumer, but not poll it",
        )
        self.closed = False
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this is another process than the consumer's: neither heartbeats nor librdkafka came along."""
        return os.getpid() != self._pid

    @override
    def check(self, visit: Visit, *, within_callbacks: bool) -> None:
        """Refuse a call that is in the list.

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
    """An object that one thread at a time may use."""

    _guard: OneUser


G = TypeVar("G", bound=Guarded)


def guarded(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Let one thread at a time into a method, listeners as well.

    Raises:
        ConcurrentUseError: another thread uses the object.
        EngineError: this is a fork of its process.
        MemberClosedError: it is closed.
    """

    @wraps(method)
    def alone(self: G, /, *args: P.args, **keywords: P.kwargs) -> T:
        return self._guard.run(partial(method, self, *args, **keywords))

    return alone
