"""Test how often the membership is looked after while records come, and how long a read waits."""

from itertools import pairwise

import pytest
from pytest_mock import MockerFixture

from groupsdk.errors import ConfigError
from tests.consumer.rig import Bench, Record


def looks(bench: Bench) -> list[int]:
    """Note the time of each look at the membership from here on."""
    step, times = bench.session.step, []

    def noted(wait_ms: int) -> None:
        times.append(bench.clock.now_ms())
        step(wait_ms)

    bench.session.step = noted  # type: ignore[method-assign]  # to see it called
    return times


def test_while_records_come_the_membership_is_looked_after_every_25_ms(bench: Bench) -> None:
    times = looks(bench)
    for _ in range(20):
        bench.fill(1, "t-0")
        assert len(bench.read(1)) == 1
        bench.advance(5)
    assert [later - earlier for earlier, later in pairwise(times)] == [25, 25, 25]


def test_while_nothing_comes_the_membership_is_looked_after_four_times_a_second(
    bench: Bench,
) -> None:
    times = looks(bench)
    for _ in range(20):
        assert bench.read(timeout=0.1) == []
    # those within 2 s, and one for each heartbeat's answer
    assert 7 <= len(times) <= 12


def test_after_a_calm_time_the_membership_is_looked_after_once_a_second(bench: Bench) -> None:
    bench.read(timeout=3)
    times = looks(bench)
    bench.read(timeout=5)
    # those within 5 s, and one for each heartbeat's answer
    assert 4 <= len(times) <= 12


def test_news_of_the_engine_are_handled_within_50_ms_while_no_record_comes(bench: Bench) -> None:
    bench.read(timeout=0.1)
    times, idle = looks(bench), bench.native.idle
    woken_ms: list[int] = []

    def wake_once(seconds: float) -> None:
        idle(seconds)
        if not woken_ms:
            bench.session.member._groupsdk_handle.mailbox.wake()
            woken_ms.append(bench.clock.now_ms())

    bench.native.idle = wake_once
    bench.read(timeout=0.1)
    assert next(each - woken_ms[0] for each in times if each >= woken_ms[0]) <= 50


def waits(bench: Bench) -> list[float]:
    """Note how long each wait for records is, in seconds, from here on."""
    idle, times = bench.native.idle, []

    def noted(seconds: float) -> None:
        times.append(seconds)
        idle(seconds)

    bench.native.idle = noted
    return times


def test_waits_are_longer_after_two_seconds_without_a_record(bench: Bench) -> None:
    bench.fill(1, "t-0")
    assert bench.read(1) == ["t-0@0"]
    times = waits(bench)
    bench.read(timeout=1.9)
    assert max(times) == 0.05
    bench.read(timeout=0.2)
    times.clear()
    bench.read(timeout=1)
    assert set(times) == {0.1}
    bench.fill(1, "t-0")
    assert bench.read(1) == ["t-0@1"]
    times.clear()
    bench.read(timeout=1)
    assert max(times) == 0.05


def test_waits_are_short_while_the_group_rebalances_and_for_two_seconds_after(bench: Bench) -> None:
    bench.read(timeout=3)
    times = waits(bench)
    bench.read(timeout=0.3)
    assert max(times) == 0.1
    bench.consumer.enforce_rebalance()
    times.clear()
    bench.read(timeout=1)
    assert max(times) == 0.05
    bench.read(timeout=2)
    assert times[-1] == 0.1


def test_after_a_calm_time_a_read_ends_with_the_first_record_and_has_those_that_came_with_it() -> (
    None
):
    bench = Bench().joined()
    bench.read(timeout=3)
    idle = bench.native.idle

    def fill(seconds: float) -> None:
        idle(seconds)
        bench.native.idle = idle
        bench.fill(3, "t-0")

    bench.native.idle = fill
    counts: list[int] = []
    consume = bench.native.consume

    def counted(count: int, timeout: float) -> list[Record]:
        counts.append(count)
        return consume(count, timeout)

    bench.native.consume = counted  # type: ignore[method-assign]  # to see it called
    assert bench.read(2, timeout=1) == ["t-0@0", "t-0@1"]
    assert counts[-3:] == [
        1,
        1,
        1,
    ]  # the wait, which brought nothing; the first; the one that came with it
    assert bench.read(2, timeout=1) == ["t-0@2"]


def test_an_interruption_between_the_first_record_and_the_others_loses_none(bench: Bench) -> None:
    bench.read(timeout=3)
    bench.fill(3, "t-0")
    consume = bench.native.consume

    def interrupted(count: int, timeout: float) -> list[Record]:
        if timeout == 0:
            bench.native.interrupt = KeyboardInterrupt()
            bench.native.consume = consume  # type: ignore[method-assign]
        return consume(count, timeout)

    bench.native.consume = interrupted  # type: ignore[method-assign]  # as a signal's handler may raise
    with pytest.raises(KeyboardInterrupt):
        bench.read(500, timeout=1)
    assert bench.read(500) == ["t-0@0", "t-0@1", "t-0@2"]


def test_changed_subscription_is_handled_by_the_next_read(bench: Bench) -> None:
    bench.read(timeout=0.1)
    times = looks(bench)
    bench.consumer.enforce_rebalance()
    began_ms = bench.clock.now_ms()
    bench.read(timeout=0.1)
    assert times[0] == began_ms


def test_a_commit_in_the_background_is_settled_while_nothing_comes(bench: Bench) -> None:
    bench.fill(1, "t-0")
    bench.read(1)
    bench.read(timeout=0.1)
    ended: list[object] = []
    bench.consumer.commit(callback=lambda error, _: ended.append(error))
    bench.read(timeout=0.05)
    assert ended == [None]


def test_offsets_are_committed_on_time_while_nothing_comes() -> None:
    bench = Bench(auto_commit_interval_ms=1_000).joined()
    bench.fill(1, "t-0")
    assert bench.read(1) == ["t-0@0"]
    bench.read(timeout=1.05)
    assert bench.group.committed() == [{"t-0": 1}]


def test_an_interruption_while_nothing_comes_has_the_membership_looked_after(bench: Bench) -> None:
    bench.read(timeout=0.1)
    times = looks(bench)
    bench.native.interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        bench.read(timeout=0.1)
    assert not times
    began_ms = bench.clock.now_ms()
    bench.read(timeout=0.1)
    assert times[0] == began_ms


def test_after_the_end_of_the_session_no_read_goes_without_a_look() -> None:
    bench = Bench(max_poll_interval_ms=600_000, enable_auto_commit=False).joined()
    bench.read(timeout=0)
    until_ms = bench.session.member.held_until_ms()
    assert until_ms is not None
    assert bench.session.quiet(bench.clock.now_ms())
    # the engine does not run meanwhile, as in a process that is stopped
    bench.clock.advance(until_ms - bench.clock.now_ms() - 1)
    assert bench.session.quiet(bench.clock.now_ms())
    bench.clock.advance(1)
    assert not bench.session.quiet(bench.clock.now_ms())


def test_positions_are_not_asked_for_while_nothing_comes(
    bench: Bench, mocker: MockerFixture
) -> None:
    bench.read(timeout=0.5)
    position = mocker.spy(bench.native, "position")
    bench.read(timeout=0.9)
    assert position.call_count == 0


def test_news_of_the_engine_are_handled_before_the_next_record(bench: Bench) -> None:
    bench.fill(2, "t-0")
    bench.read(1)
    times = looks(bench)
    bench.session.member._groupsdk_handle.mailbox.wake()
    assert len(bench.read(1)) == 1
    assert len(times) == 1


@pytest.mark.parametrize("timeout", [0, 0.003, 0.2])
def test_a_read_waits_as_long_as_it_was_told_whether_a_look_is_due_or_not(
    bench: Bench, timeout: float
) -> None:
    bench.fill(1, "t-0")
    bench.read(1)
    for _ in range(3):
        began_ms = bench.clock.now_ms()
        assert bench.read(1, timeout) == []
        assert bench.clock.now_ms() - began_ms == timeout * 1000


@pytest.mark.parametrize("after_ms", [3, 30_000])
def test_a_negative_timeout_is_none(bench: Bench, after_ms: int) -> None:
    bench.fill(1, "t-0")
    bench.read(1)
    began_ms, idle = bench.clock.now_ms(), bench.native.idle

    def fill_later(seconds: float) -> None:
        idle(seconds)
        if bench.clock.now_ms() - began_ms >= after_ms:
            bench.fill(1, "t-0")

    bench.native.idle = fill_later
    assert len(bench.read(1, -1)) == 1


def test_a_wakeup_ends_one_read(bench: Bench) -> None:
    bench.consumer.wakeup()
    began_ms = bench.clock.now_ms()
    assert bench.read(1, 10) == []
    assert bench.clock.now_ms() - began_ms < 1_000
    assert bench.read(1, 10) == []
    assert bench.clock.now_ms() - began_ms >= 10_000


def test_nothing_is_read_before_something_is_subscribed_to() -> None:
    with pytest.raises(ConfigError, match="subscribe"):
        Bench().read()


def test_no_records_are_asked_for_and_none_come_at_once(bench: Bench) -> None:
    bench.fill(1, "t-0")
    began_ms = bench.clock.now_ms()
    assert bench.consumer.consume(0) == []
    assert bench.clock.now_ms() == began_ms
    assert bench.read(1) == ["t-0@0"]
    for number in (-1, 1_000_001):
        with pytest.raises(ValueError, match="0 to 1000000"):
            bench.consumer.consume(number, 0)
