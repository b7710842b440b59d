"""Holds how loads are smoothed, and how the most loaded are relieved."""

import math
from collections.abc import Sequence
from dataclasses import replace

from groupsdk.shards.loads import (
    SmoothedLoad,
    balance_of,
    effective_weights,
    loads_of,
    relieve,
)
from groupsdk.shards.types import Shard
from groupsdk.shards.work import Work
from groupsdk.wire.shards.protocol import MemberState
from tests.shards.test_placement import work_of


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


def measured(weights: Sequence[float], members: int, limit: int | None = None) -> Work:
    """Make a group with measured loads."""
    states = [MemberState(max_shards=limit)] * members
    work = work_of(len(weights), states, [0] * len(weights), weights=weights)
    return replace(work, measured=True)


def test_unmeasured_shard_counts_by_its_weight_in_the_measure_of_the_loads() -> None:
    shards = [Shard("a"), Shard("b", weight=3.0), Shard("c", weight=2.0)]

    assert effective_weights(shards, {}) == [1.0, 3.0, 2.0]
    assert effective_weights(shards, {"a": 10.0, "b": 10.0}) == [10.0, 10.0, 10.0]
    assert effective_weights(shards, {"a": 0.0}) == [0.0, 3.0, 2.0]


def test_the_most_loaded_is_relieved_with_as_few_moves_as_it_takes() -> None:
    work = measured([1.0] * 8, 2)

    moved = relieve(work, [0] * 6 + [1] * 2, goal=4.5, budget=8)

    assert sorted(loads_of(work, moved)) == [4.0, 4.0]
    assert sum(map(int.__ne__, moved, [0] * 6 + [1] * 2)) == 2


def test_no_more_move_than_the_budget_allows() -> None:
    work = measured([1.0] * 20, 2)

    moved = relieve(work, [0] * 20, goal=10.0, budget=3)

    assert loads_of(work, moved) == [17.0, 3.0]


def test_half_of_an_exchange_is_not_carried_out() -> None:
    # 5 against 3 is the only way down to 9, and takes two moves
    work = measured([5.0, 6.0, 3.0, 4.0], 2)
    targets = [0, 0, 1, 1]

    assert loads_of(work, relieve(work, targets, goal=9.5, budget=2)) == [9.0, 9.0]
    assert relieve(work, targets, goal=9.5, budget=1) == targets


def test_a_member_at_its_limit_is_not_given_more() -> None:
    work = measured([1.0, 1.0, 1.0, 1.0, 0.1, 0.1], 2, limit=4)
    targets = [0, 0, 0, 0, 1, 1]

    moved = relieve(work, targets, goal=2.2, budget=6)

    assert sorted(map(moved.count, (0, 1))) == [2, 4]


def test_a_balance_is_compared_with_what_is_possible() -> None:
    work = measured([8.0, 1.0, 1.0], 2)

    balance = balance_of(work, [0, 1, 1])

    assert (balance.greatest, balance.mean, balance.least) == (8.0, 5.0, 8.0)
    assert balance.ratio == 1.6
    assert balance.excess == 0.0
    assert balance_of(work, [-1, -1, -1]).ratio == 1.0
