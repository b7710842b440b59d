"""Tests that code under check sees another time, and nobody else does."""

import time
from datetime import UTC, date, datetime, timedelta
from time import monotonic_ns

from groupsdk.assignment.check.clock import shifted_clock


_DAY_S = 86_400


def test_a_shifted_clock_is_seen_by_the_package_and_until_the_block_ends() -> None:
    wall_s = datetime.now(UTC).timestamp()
    before, beat, day = time.perf_counter(), monotonic_ns(), datetime.now(UTC)
    with shifted_clock(_DAY_S, __name__):
        assert time.perf_counter() >= before + _DAY_S
        assert monotonic_ns() >= beat + _DAY_S * 10**9
        assert datetime.now(UTC) >= day + timedelta(days=1)
        assert date.today() > day.date()  # noqa: DTZ011
        assert time.gmtime() >= time.gmtime(wall_s + _DAY_S)
    assert time.perf_counter() < before + _DAY_S
    assert datetime.now(UTC) < day + timedelta(days=1)


def test_a_shifted_clock_is_not_seen_by_another_package() -> None:
    before = monotonic_ns()
    with shifted_clock(_DAY_S, "groupsdk.assignment.check"):
        assert monotonic_ns() < before + _DAY_S * 10**9
        assert time.monotonic_ns() < before + _DAY_S * 10**9
