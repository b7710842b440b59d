"""Let one thread at a time use a consumer, its listeners not poll it, and no forked child touch it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from groupsdk.errors import ConcurrentUseError, EngineError, MemberClosedError


class OneUser:
    """A lock that nobody waits for: a second thread is told so at once."""

    def __init__(self) -> None:
        self.closed = False
        self._lock = threading.RLock()
        self._polling = False
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this is another process than the consumer's: neither heartbeats nor librdkafka came along."""
        return os.getpid() != self._pid

    def enter(self, *, driving: bool = False) -> bool:
        """Let this thread in, until `leave` is given what this returns.

        Args:
            driving: whether listeners may be called meanwhile.

        Raises:
            ConcurrentUseError: another thread is in, or this one is in a listener and wants to drive.
            EngineError: this is a fork of the consumer's process.
            MemberClosedError: the consumer is closed.
        """
        if os.getpid() != self._pid:  # first: the lock may be held for ever here
            raise EngineError(
                "the process has forked since the consumer was made, and its heartbeat and librdkafka stayed in"
                " the parent; make consumers after forking"
            )
        if not self._lock.acquire(False):
            raise ConcurrentUseError(
                "another thread is using the consumer (wakeup() makes a waiting one return)"
            )
        outer = self._polling
        if self.closed or (driving and outer):
            self._lock.release()
            if self.closed:
                raise MemberClosedError("the consumer is closed")
            raise ConcurrentUseError("a listener may use its consumer, but not poll it")
        self._polling = driving or outer
        return outer

    def leave(self, outer: bool) -> None:
        """Let others in."""
        self._polling = outer
        self._lock.release()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Let this thread in to close the consumer, which a listener may do as well."""
        outer = self.enter()
        self._polling = True
        try:
            yield
        finally:
            self.leave(outer)

    def __enter__(self) -> None:
        # what is nested in a poll leaves it as it is
        self.enter()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
