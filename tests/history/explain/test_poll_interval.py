"""Checks which silences show that max.poll.interval.ms was exceeded."""

import pytest

from groupsdk.history.explain.poll_interval import PollInterval, poll_interval


@pytest.mark.parametrize("silence_ms", [299_600, 300_000, 304_000, 330_000])
def test_a_silence_as_long_as_the_interval_exceeded_it(silence_ms: int) -> None:
    assert poll_interval(silence_ms, 45_000, 300_000) is PollInterval.EXCEEDED


@pytest.mark.parametrize("silence_ms", [None, 2_000, 47_000, 290_000, 400_000])
def test_another_silence_did_not(silence_ms: int | None) -> None:
    assert poll_interval(silence_ms, 45_000, 300_000) is None


def test_an_interval_like_the_session_leaves_both_open() -> None:
    assert poll_interval(47_000, 45_000, 45_000) is PollInterval.EITHER


def test_without_an_interval_nothing_is_said() -> None:
    assert poll_interval(300_000, 45_000, None) is None
    assert poll_interval(300_000, 45_000, -1) is None
