"""Test how often the membership is looked after while records come, and how long a read waits."""

from itertools import pairwise

import pytest

from groupsdk.errors import ConfigError
from tests.consumer.rig import Bench


def joined() -> Bench:
    bench = Bench()
    bench.consumer.subscribe("t")
    bench.read(timeout=0.3)
    return bench


def looks(bench: Bench) -> list[int]:
    """Note the time of each look at the membership from here on."""
    step, times = bench.session.step, []

    def noted(wait_ms: int) -> None:
        times.append(bench.clock.now_ms())
        step(wait_ms)

    bench.session.step = noted  # type: ignore[method-assign]  # to see it called
    return times


def test_while_records_come_the_membership_is_looked_after_every_25_ms() -> None:
    bench = joined()
    times = looks(bench)
    for _ in range(20):
        bench.fill(1, "t-0")
        assert len(bench.read(1)) == 1
        bench.advance(5)
    assert [later - earlier for earlier, later in pairwise(times)] == [25, 25, 25]


def test_what_the_engine_shows_is_looked_at_before_the_next_record() -> None:
    bench = joined()
    bench.fill(2, "t-0")
    bench.read(1)
    times = looks(bench)
    bench.session.member._engine_handle.mailbox.wake()
    assert len(bench.read(1)) == 1
    assert len(times) == 1


@pytest.mark.parametrize("timeout", [0, 0.003, 0.2])
def test_a_read_waits_as_long_as_it_was_told_whether_a_look_is_due_or_not(timeout: float) -> None:
    bench = joined()
    bench.fill(1, "t-0")
    bench.read(1)
    for _ in range(3):
        began_ms = bench.clock.now_ms()
        assert bench.read(1, timeout) == []
        assert bench.clock.now_ms() - began_ms == timeout * 1000


@pytest.mark.parametrize("after_ms", [3, 30_000])
def test_a_negative_timeout_is_none(after_ms: int) -> None:
    bench = joined()
    bench.fill(1, "t-0")
    bench.read(1)
    began_ms, idle = bench.clock.now_ms(), bench.native.idle

    def fill_later(seconds: float) -> None:
        idle(seconds)
        if bench.clock.now_ms() - began_ms >= after_ms:
            bench.fill(1, "t-0")

    bench.native.idle = fill_later
    assert len(bench.read(1, -1)) == 1


def test_a_wakeup_ends_one_read() -> None:
    bench = joined()
    bench.consumer.wakeup()
    began_ms = bench.clock.now_ms()
    assert bench.read(1, 10) == []
    assert bench.clock.now_ms() - began_ms < 1_000
    assert bench.read(1, 10) == []
    assert bench.clock.now_ms() - began_ms >= 10_000


def test_nothing_is_read_before_something_is_subscribed_to() -> None:
    with pytest.raises(ConfigError, match="subscribe"):
        Bench().read()


def test_no_records_are_asked_for_and_none_come_at_once() -> None:
    bench = joined()
    bench.fill(1, "t-0")
    began_ms = bench.clock.now_ms()
    assert bench.consumer.consume(0) == []
    assert bench.clock.now_ms() == began_ms
    assert bench.read(1) == ["t-0@0"]
    for number in (-1, 1_000_001):
        with pytest.raises(ValueError, match="0 to 1000000"):
            bench.consumer.consume(number, 0)
