"""Test the clocks and deadlines."""

import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from groupsdk.clock import Deadline, ManualClock, SystemClock, WallClock


def test_the_system_clock_counts_milliseconds_and_never_goes_back() -> None:
    clock = SystemClock()
    times = [clock.now_ms() for _ in range(1_000)]
    assert times == sorted(times)
    assert all(type(now_ms) is int for now_ms in times)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has CLOCK_BOOTTIME")
def test_the_system_clock_counts_the_time_asleep() -> None:
    before_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    now_ms = SystemClock().now_ms()
    assert before_ms <= now_ms <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def test_the_system_clock_is_the_same_in_another_process() -> None:
    # deadlines cross from the child process of heartbeat="process"
    before_ms = SystemClock().now_ms()
    program = "from groupsdk.clock import SystemClock; print(SystemClock().now_ms())"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert before_ms <= int(done.stdout) <= SystemClock().now_ms()


def test_a_manual_clock_moves_by_hand_and_only_forward() -> None:
    clock = ManualClock(5)
    assert clock.now_ms() == 5
    clock.advance(0)
    clock.advance(7)
    assert clock.now_ms() == 12
    with pytest.raises(ValueError, match=r"time cannot go back: advance\(-1\)"):
        clock.advance(-1)
    assert clock.now_ms() == 12


def test_a_deadline_expires_on_its_time() -> None:
    clock = ManualClock(100)
    deadline = Deadline(clock, 50)
    assert deadline.remaining_ms(1_000) == 50
    seen = []
    for delta_ms in (0, 49, 1, 1_000):
        clock.advance(delta_ms)
        seen.append((deadline.expired, deadline.remaining_ms(20)))
    assert seen == [(False, 20), (False, 1), (True, 0), (True, 0)]


def test_a_deadline_of_no_time_has_expired() -> None:
    deadline = Deadline(ManualClock(), 0)
    assert deadline.expired
    assert deadline.remaining_ms(5) == 0


def test_a_deadline_without_a_limit_never_expires() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, None)
    clock.advance(2**60)
    assert not deadline.expired
    assert deadline.remaining_ms(5) == 5


def test_the_wall_clock_starts_with_the_date_and_moves_with_the_clock_below() -> None:
    below = ManualClock(5)
    before_ms = int(datetime.now(UTC).timestamp() * 1000)
    clock = WallClock(below)
    after_ms = int(datetime.now(UTC).timestamp() * 1000)

    assert before_ms - 1 <= clock.now_ms() <= after_ms + 1
    start_ms = clock.now_ms()
    below.advance(1234)
    assert clock.now_ms() == start_ms + 1234
