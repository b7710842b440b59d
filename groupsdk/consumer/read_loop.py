"""Read records and serve the membership in between: `ReadLoop`."""

from collections.abc import Callable
from threading import get_ident
from typing import Final, TypeVar

from confluent_kafka import Message

from groupsdk.clock import Clock
from groupsdk.consumer.guard import OneUser
from groupsdk.consumer.reader import Reader
from groupsdk.consumer.session import ConsumerSession
from groupsdk.drivers.caller import checked_timeout_ms
from groupsdk.drivers.one_thread import Visit
from groupsdk.errors import ConfigError
from groupsdk.types import NO_GENERATION


_SLICE_MS: Final = 50
"""How long librdkafka is waited for before the membership is looked after again."""
_CALM_SLICE_MS: Final = 100
"""The same after a calm time. Each wait costs as much as a poll of librdkafka's, so an idle consumer makes fewer."""
_CALM_AFTER_MS: Final = 2_000
"""After how long without a record or a rebalance waits are longer. A group that changes goes on changing: members are
restarted one after another, and each step of a rebalance waits for the slowest member.
"""
_REBALANCE_SLICE_MS: Final = 5
_STEP_MS: Final = 5
_FRESH_MS: Final = 25
"""How long the membership may go without a look while records keep coming and the engine shows nothing new."""
_QUIET_MS: Final = 250
"""How long the membership may go without a look while no records come, the engine shows nothing new and nothing is due."""
_CALM_QUIET_MS: Final = 1_000
"""The same after a calm time. Only new credentials and the next look at topics, which are due every few minutes, then wait."""
_IDLE_MS: Final = 200
_NEVER_MS: Final = 2**62
_MOST: Final = 1_000_000
"""How many records confluent-kafka takes at a time."""

T = TypeVar("T")


class ReadLoop:
    """Implements `poll` and `consume`; belongs to the thread that the guard admits."""

    def __init__(
        self, session: ConsumerSession, reader: Reader, guard: OneUser, clock: Clock
    ) -> None:
        self._session = session
        self._reader = reader
        self._guard = guard
        self._clock = clock
        self._woken = False
        self._visit = Visit(driving=True)
        """That of the last read, for the next one of the same thread."""
        self._fresh_until_ms = 0
        self._quiet_until_ms = 0
        self._seen = -1
        self._came = True
        """Whether records have come since the last wait began."""
        self._generation = NO_GENERATION
        self._calm_from_ms = 0
        self._calm = False
        """Whether the wait that begins now is one of a calm time."""

    def wakeup(self) -> None:
        """Make a waiting `read` return early, once. Thread-safe; signal handlers may call it."""
        self._woken = True
        self._session.member.wakeup()

    def nudge(self) -> None:
        """Make a waiting read check again whether it was cancelled. Thread-safe."""
        self._session.member.wakeup()

    def poll(self, timeout: float | None, given_up: Callable[[], bool]) -> Message | None:
        """Return the next record; see `read` for the errors."""
        return self.read(timeout, self._reader.poll, given_up)

    def consume(
        self,
        num_messages: int,
        timeout: float | None,
        given_up: Callable[[], bool] | None = None,
    ) -> list[Message]:
        """Return up to `num_messages` records, with 0 none; see `read` for the errors.

        Raises ValueError if librdkafka does not accept this number.
        """
        if not isinstance(num_messages, int):
            raise TypeError(f"num_messages must be an integer, not {num_messages!r}")
        if not 0 <= num_messages <= _MOST:
            raise ValueError(f"num_messages must be from 0 to {_MOST}, not {num_messages!r}")
        if num_messages == 0:
            return self.read(0, lambda _: None, given_up) or []

        def read(timeout_s: float) -> list[Message] | None:
            return self._reader.consume(num_messages, timeout_s, first=self._calm) or None

        return self.read(timeout, read, given_up) or []

    def read(
        self,
        timeout: float | None,
        read: Callable[[float], T | None],
        given_up: Callable[[], bool] | None = None,
    ) -> T | None:
        """Read available records; serve the membership first, every few milliseconds.

        `read` returns None if there is nothing: a Message without a value counts as false, since its length is its value's.
        `timeout` is in seconds; None or negative: no limit. `given_up`: the caller has stopped waiting for this read. To have that
        noticed soon, change it and call `nudge`: a `wakeup` in its place could come too late, and would end a later read.
        Raises ConcurrentUseError if another thread reads, or a listener does.
        """
        timeout_ms = checked_timeout_ms(timeout)
        if timeout is not None and timeout < 0:
            timeout_ms = None
        found = None
        guard = self._guard
        visits, visit = guard.visits, self._visit
        if visits or visit.thread != get_ident():
            visit = self._visit = Visit(driving=True)
        try:
            # as `OneThread.run` does, whose extra calls would cost each record some percent
            visits.append(visit)
            if visits[0] is not visit or guard.closed or guard.forked:
                guard.check(visit, within_callbacks=False)
            if guard.torn:
                self._mend()
            # a whole look costs as much as librdkafka takes for a hundred records
            if (
                self._session.member.version == self._seen
                and self._clock.now_ms() < self._fresh_until_ms
            ):
                self._calm = False
                step_ms = _STEP_MS if timeout_ms is None else min(timeout_ms, _STEP_MS)
                found = read(step_ms / 1000)
                if timeout_ms is not None:
                    timeout_ms -= step_ms
            if found is None:
                self._reader.count_processed()
                found = self._look_and_read(timeout_ms, read, given_up)
        except BaseException:
            guard.torn = True
            raise
        finally:
            visits.remove(visit)
        self._reader.handed_out()
        if found is not None:
            self._came = True
        return found

    def _mend(self) -> None:
        self._quiet_until_ms = 0
        self._reader.mend(self._session.coordinator.owned)
        self._guard.torn = False

    def _look_and_read(
        self,
        timeout_ms: int | None,
        read: Callable[[float], T | None],
        given_up: Callable[[], bool] | None,
    ) -> T | None:
        """Serve the membership where that may be due, then read; repeat until there are records or the time is over."""
        self._fresh_until_ms = 0
        session = self._session
        if session.coordinator.subscription is None:
            raise ConfigError("the consumer is not subscribed: call subscribe() before poll()")
        wait_ms = 0
        now_ms = self._clock.now_ms()
        until_ms = _NEVER_MS if timeout_ms is None else now_ms + timeout_ms
        while True:
            if self._is_quiet(now_ms):
                slice_ms = _SLICE_MS
            else:
                self._quiet_until_ms = 0  # first: after an exception there is another look
                self._seen = self._session.member.version
                session.step(wait_ms)
                if self._guard.closed:  # by a listener
                    return None
                now_ms = self._clock.now_ms()
                slice_ms = self._begin_slice(now_ms)
            if slice_ms:
                wait_ms = 0
                self._calm = self._is_calm(now_ms)
                if self._calm and slice_ms == _SLICE_MS:
                    slice_ms = _CALM_SLICE_MS
                self._reader.refresh_mark(now_ms)
                found = read(max(0, min(slice_ms, until_ms - now_ms)) / 1000)
                if found is not None:
                    self._quiet_until_ms = 0
                    return found
                now_ms = self._clock.now_ms()
            else:
                self._reader.serve()
                now_ms = self._clock.now_ms()
                wait_ms = max(0, min(_IDLE_MS, until_ms - now_ms))
            if (given_up is not None and given_up()) or self._take_wakeup() or now_ms >= until_ms:
                return None

    def _begin_slice(self, now_ms: int) -> int:
        """Return how long to read before the next look at the member's version; 0: nothing may be read."""
        session = self._session
        if not session.may_read():
            return 0
        self._reader.go_on()
        self._fresh_until_ms = now_ms + _FRESH_MS
        snapshot = session.member.snapshot()
        if snapshot.generation != self._generation:
            self._generation = snapshot.generation
            self._calm_from_ms = now_ms + _CALM_AFTER_MS
        if snapshot.rejoin_pending or self._reader.waiting:
            self._calm_from_ms = now_ms + _CALM_AFTER_MS
            self._quiet_until_ms = now_ms + _QUIET_MS
            return _REBALANCE_SLICE_MS
        self._quiet_until_ms = now_ms + (_CALM_QUIET_MS if self._is_calm(now_ms) else _QUIET_MS)
        return _SLICE_MS

    def _is_calm(self, now_ms: int) -> bool:
        """Return whether neither records nor a rebalance came for a while."""
        if self._came:
            self._came = False
            self._calm_from_ms = now_ms + _CALM_AFTER_MS
        return now_ms >= self._calm_from_ms

    def _is_quiet(self, now_ms: int) -> bool:
        """Return whether a look would find nothing to do.

        librdkafka's wait cannot be ended by another thread, so an idle consumer waits in slices. A look costs several
        times what a slice does.
        """
        session = self._session
        return (
            now_ms < self._quiet_until_ms
            and session.member.version == self._seen
            and session.quiet(now_ms)
        )

    def _take_wakeup(self) -> bool:
        if not self._woken:
            return False  # and not written: a wakeup() of another thread may come right now
        self._woken = False
        return True
