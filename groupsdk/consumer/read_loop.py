"""Read records for a caller, and look after the membership in between: `ReadLoop`."""

from collections.abc import Callable
from typing import Final, TypeVar

from groupsdk.clock import Clock, Deadline
from groupsdk.consumer.guard import OneUser
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.session import ConsumerSession
from groupsdk.drivers.caller import checked_timeout_ms
from groupsdk.errors import ConfigError


_SLICE_MS: Final = 50
"""How long librdkafka is waited for before the membership is looked after again."""
_REBALANCE_SLICE_MS: Final = 5
_STEP_MS: Final = 5
_FRESH_MS: Final = 25
"""How long the membership may go without a look while records keep coming and the engine shows nothing new."""
_IDLE_MS: Final = 200

T = TypeVar("T")


class ReadLoop:
    """What `poll` and `consume` do; belongs to the thread that the guard lets in.

    Args:
        session: what is looked after, and tells whether reading is allowed.
        reader: what reads.
        guard: lets the caller in.
        clock: the time.
    """

    def __init__(
        self, session: ConsumerSession, reader: Reader, guard: OneUser, clock: Clock
    ) -> None:
        self._session = session
        self._member = session.member
        self._reader = reader
        self._guard = guard
        self._clock = clock
        self._woken = False
        self._fresh_until_ms = 0
        self._seen = -1

    def wakeup(self) -> None:
        """Make a waiting `read` return soon, once; signal handlers may call it."""
        self._woken = True
        self._member.wakeup()

    def read(self, timeout: float | None, read: Callable[[float], T | None]) -> T | None:
        """Read what there is; look after the membership before that, every few milliseconds.

        Args:
            timeout: seconds to wait at most; None or negative: for ever.
            read: waits for records, for so many seconds at most.

        Raises:
            ConcurrentUseError: another thread reads, or a listener does.
            Exception: whatever the listener raised.
        """
        timeout_ms = checked_timeout_ms(timeout)
        if timeout is not None and timeout < 0:
            timeout_ms = None
        found = None
        outer = self._guard.enter(driving=True)
        try:
            # a whole look costs as much as librdkafka takes for a hundred records
            if self._member.version == self._seen and self._clock.now_ms() < self._fresh_until_ms:
                step_ms = _STEP_MS if timeout_ms is None else min(timeout_ms, _STEP_MS)
                found = read(step_ms / 1000)
                if timeout_ms is not None:
                    timeout_ms -= step_ms
            if not found:
                self._reader.count_processed()
                found = self._look_and_read(Deadline(self._clock, timeout_ms), read)
        finally:
            self._guard.leave(outer)
        self._reader.handed_out()
        return found

    def _look_and_read(self, deadline: Deadline, read: Callable[[float], T | None]) -> T | None:
        """Look after the membership, then read; repeat until there is something, or time is over."""
        self._fresh_until_ms = 0
        session = self._session
        if session.coordinator.subscription is None:
            raise ConfigError("nothing is subscribed to: call subscribe() before poll()")
        wait_ms = 0
        while True:
            self._seen = self._member.version
            session.step(wait_ms)
            if self._guard.closed:  # by a listener
                return None
            if session.may_read():
                wait_ms = 0
                now_ms = self._clock.now_ms()
                self._fresh_until_ms = now_ms + _FRESH_MS
                self._reader.refresh_mark(now_ms)
                found = read(deadline.remaining_ms(self._slice_ms()) / 1000)
                if found:
                    return found
            else:
                wait_ms = deadline.remaining_ms(_IDLE_MS)
            if self._take_wakeup() or deadline.expired:
                return None

    def _slice_ms(self) -> int:
        busy = self._member.snapshot().rejoin_pending or self._reader.waiting
        return _REBALANCE_SLICE_MS if busy else _SLICE_MS

    def _take_wakeup(self) -> bool:
        woken, self._woken = self._woken, False
        return woken
