"""Read the time: the only module that does."""

import time
from typing import Protocol


__all__ = ["Clock", "Deadline", "ManualClock", "SystemClock", "WallClock"]


class Clock(Protocol):
    """The time in whole milliseconds, from an arbitrary zero point."""

    def now_ms(self) -> int:
        """Return the current time; it never goes back."""
        ...


# CLOCK_BOOTTIME goes on while the machine is suspended and CLOCK_MONOTONIC does not. A member that slept
# past its session timeout must see that on its own clock, so the former wherever there is one.
_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clock since boot, time asleep included where the platform counts it.

    The same for all processes of a machine, so deadlines may cross from one to another.
    """

    def now_ms(self) -> int:
        """Return the milliseconds since boot."""
        return time.clock_gettime_ns(_CLOCK_ID) // 1_000_000


class WallClock:
    """The date, read once and advanced by the clock since boot: the time stamps of a broker's records.

    In milliseconds since 1970 at the start. It never goes back or jumps after that, whatever is done to the machine's
    date, so that one clock serves for time stamps and deadlines.

    Args:
        clock: the clock since boot; None: the system's.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._read_ms = (clock or SystemClock()).now_ms
        self._offset_ms = time.time_ns() // 1_000_000 - self._read_ms()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970."""
        return self._read_ms() + self._offset_ms


def thread_cpu_ns() -> int:
    """Return the nanoseconds of CPU time that this thread has used, to measure work with."""
    return time.thread_time_ns()


class ManualClock:
    """A clock that a test advances by hand.

    Args:
        start_ms: the first time, in milliseconds.
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """Return the time last set."""
        return self._now_ms

    def advance(self, delta_ms: int) -> None:
        """Move the time on by `delta_ms`, which may not be negative."""
        if delta_ms < 0:
            raise ValueError(f"time cannot go back: advance({delta_ms})")
        self._now_ms += delta_ms


class Deadline:
    """One time limit over several steps.

    Args:
        clock: where the time is read.
        timeout_ms: how long from now; None for no limit.
    """

    def __init__(self, clock: Clock, timeout_ms: int | None) -> None:
        self._clock = clock
        self._at_ms = None if timeout_ms is None else clock.now_ms() + timeout_ms

    @property
    def expired(self) -> bool:
        """Return whether the limit has passed."""
        return self._at_ms is not None and self._clock.now_ms() >= self._at_ms

    def remaining_ms(self, at_most_ms: int) -> int:
        """Return the milliseconds left, 0 to `at_most_ms`."""
        if self._at_ms is None:
            return at_most_ms
        return max(0, min(at_most_ms, self._at_ms - self._clock.now_ms()))
