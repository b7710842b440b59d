"""Holds how loads are smoothed."""

import math

from groupsdk.shards.loads import SmoothedLoad


def test_the_first_report_counts_in_full() -> None:
    load = SmoothedLoad(1000)
    load.report(5.0, now_ms=0)

    assert load.value == 5.0


def test_a_report_counts_more_the_longer_the_one_before_is_ago() -> None:
    load = SmoothedLoad(1000)
    load.report(0.0, now_ms=0)
    load.report(1.0, now_ms=1000)

    assert math.isclose(load.value, 1 - 1 / math.e)
    load.report(3.0, now_ms=10_000_000)
    assert math.isclose(load.value, 3.0)


def test_a_report_at_the_same_time_changes_nothing() -> None:
    load = SmoothedLoad(1000)
    load.report(2.0, now_ms=5)
    load.report(9.0, now_ms=5)

    assert load.value == 2.0
