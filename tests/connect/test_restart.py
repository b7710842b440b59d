"""Holds when failed tasks are started again."""

from random import Random

import pytest

from groupsdk.connect.tasks.tolerance import RestartPolicy, RestartTracker
from groupsdk.errors import ConfigError


def test_a_task_that_raises_at_once_waits_longer_each_time_up_to_the_limit() -> None:
    tracker = RestartTracker(RestartPolicy(backoff_ms=100, backoff_max_ms=1_000), Random(1))
    waits = [tracker.failed(0) or 0 for _ in range(12)]
    assert 80 <= waits[0] <= 120
    assert 160 <= waits[1] <= 240
    assert all(800 <= each <= 1_000 for each in waits[6:])


def test_after_so_many_times_it_stays_failed() -> None:
    tracker = RestartTracker(RestartPolicy(max_restarts=2), Random(1))
    assert [tracker.failed(0) is None for _ in range(3)] == [False, False, True]
    assert RestartTracker(RestartPolicy(max_restarts=0), Random(1)).failed(0) is None


def test_a_task_that_ran_well_begins_anew() -> None:
    tracker = RestartTracker(RestartPolicy(max_restarts=1, reset_after_ms=500), Random(1))
    assert tracker.failed(0) is not None
    assert tracker.failed(500) is not None
    assert tracker.failed(499) is None


@pytest.mark.parametrize("wrong", [{"backoff_ms": 0}, {"max_restarts": -1}, {"reset_after_ms": 0}])
def test_a_policy_that_would_spin_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RestartPolicy(**wrong)
