"""Test whether, why and when a member joins again."""

from random import Random

import pytest

from groupsdk.member.classic.rebalance import (
    HAND_OVER_REFILL_MS,
    HAND_OVERS,
    Rejoin,
)
from groupsdk.member.membership import FIRST_JOIN
from groupsdk.settings.backoff import ExponentialBackoff


@pytest.fixture
def rejoin() -> Rejoin:
    return Rejoin(ExponentialBackoff(100, 1_000, jitter=0), Random(0))


def test_a_new_member_needs_to_join_and_to_prepare(rejoin: Rejoin) -> None:
    assert (rejoin.needed, rejoin.needs_prepare, rejoin.reason) == (True, True, FIRST_JOIN)
    assert rejoin.retry_at_ms == 0


def test_a_join_that_was_sent_is_not_needed_until_asked_for_again(rejoin: Rejoin) -> None:
    rejoin.sent()
    assert not rejoin.needed
    rejoin.request("the shards changed")
    assert (rejoin.needed, rejoin.reason) == (True, "the shards changed")


def test_the_latest_reason_stands(rejoin: Rejoin) -> None:
    rejoin.request("one")
    rejoin.request("two")
    assert rejoin.reason == "two"


def test_backoff_grows_and_starts_over_after_a_success(rejoin: Rejoin) -> None:
    waits = []
    for _ in range(6):
        rejoin.again_later("load", 5_000)
        waits.append(rejoin.retry_at_ms - 5_000)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    rejoin.succeeded(5_000)
    rejoin.again_later("load", 5_000)
    assert rejoin.retry_at_ms == 5_100


def test_immediate_attempts_are_limited_in_a_row(rejoin: Rejoin) -> None:
    waits = []
    for _ in range(5):
        rejoin.again_now("rebalancing", 5_000)
        waits.append(rejoin.retry_at_ms - 5_000)
    assert waits == [0, 0, 0, 100, 200]
    rejoin.succeeded(5_000)
    rejoin.again_now("rebalancing", 5_000)
    assert rejoin.retry_at_ms == 5_000


def test_a_caller_that_asks_after_every_generation_is_paced(rejoin: Rejoin) -> None:
    def round_at(now_ms: int, asked_after_ms: int = 10) -> tuple[int, bool]:
        rejoin.sent()
        rejoin.succeeded(now_ms)
        begins = rejoin.ask("again", now_ms + asked_after_ms)
        rejoin.ask("and again", now_ms + asked_after_ms)  # the same rebalance
        return rejoin.retry_at_ms - now_ms - asked_after_ms, begins

    found = [round_at(now_ms) for now_ms in range(50_000, 59_000, 1_000)]
    waits = [max(0, wait) for wait, _ in found]
    assert waits == [0, 0, 0, 100, 200, 400, 800, 1_000, 1_000]
    assert [begins for _, begins in found].index(True) == 3
    assert [begins for _, begins in found].count(True) == 1
    rejoin.sent()
    rejoin.succeeded(60_000)
    rejoin.ask("again", 60_010)
    assert rejoin.retry_at_ms > 60_010
    rejoin.request("the group is already rebalancing")
    assert rejoin.retry_at_ms == 0, "others wait for this member"
    assert round_at(70_000, asked_after_ms=1_000)[0] <= 0, "the group had some rest"
    assert round_at(71_000)[0] <= 0


def test_work_that_is_handed_over_does_not_wait_as_long_as_the_store_lasts(rejoin: Rejoin) -> None:
    def waits(now_ms: int, count: int) -> list[int]:
        found = []
        for _ in range(count):
            rejoin.sent()
            rejoin.succeeded(now_ms)
            rejoin.ask("handed over", now_ms, hand_over=True)
            found.append(max(0, rejoin.retry_at_ms - now_ms))
        return found

    assert waits(50_000, HAND_OVERS) == [0] * HAND_OVERS
    # then it is paced like any other caller
    assert waits(50_000, 6) == [0, 0, 0, 100, 200, 400]
    assert waits(50_000 + 2 * HAND_OVER_REFILL_MS, 3) == [0, 0, 800]
    # a delay that an ordinary request has begun is over as soon as work waits
    assert rejoin.retry_at_ms > 51_000
    rejoin.ask("handed over", 51_000, hand_over=True)
    assert rejoin.retry_at_ms == 0


def test_preparing_is_due_once_per_rebalance(rejoin: Rejoin) -> None:
    rejoin.prepared()
    rejoin.again_now("rebalancing", 0)
    rejoin.again_later("load", 0)
    assert not rejoin.needs_prepare
    rejoin.succeeded(5_000)
    assert not rejoin.needs_prepare, "the assignment is not taken up yet"
    rejoin.delivered()
    assert rejoin.needs_prepare


def test_expelled_prepares_anew(rejoin: Rejoin) -> None:
    rejoin.prepared()
    rejoin.sent()
    rejoin.expelled("UNKNOWN_MEMBER_ID")
    assert (rejoin.needed, rejoin.needs_prepare, rejoin.reason) == (True, True, "UNKNOWN_MEMBER_ID")
