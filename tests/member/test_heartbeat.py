"""Test the deadlines of one member."""

from random import Random

import pytest

from groupsdk.member.heartbeat import EARLY_HEARTBEATS, EarlyHeartbeats, HeartbeatTimer
from groupsdk.settings.backoff import ExponentialBackoff


@pytest.fixture
def heartbeat(steady_heartbeats: None) -> HeartbeatTimer:
    return timer()


def timer(interval_ms: int = 3_000) -> HeartbeatTimer:
    return HeartbeatTimer(
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        interval_ms=interval_ms,
        max_poll_interval_ms=60_000,
        backoff=ExponentialBackoff(100, 1_000, jitter=0),
        random=Random(0),
    )


def test_nothing_is_due_before_it_is_enabled(heartbeat: HeartbeatTimer) -> None:
    assert (heartbeat.next_ms, heartbeat.session_until_ms) == (None, None)


def test_enabling_starts_interval_and_session(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(1_000)
    assert (heartbeat.next_ms, heartbeat.session_until_ms) == (4_000, 11_000)


def test_small_lateness_does_not_add_up(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    for late_ms in (3_020, 6_010, 9_300):
        heartbeat.sent(late_ms)
    assert heartbeat.next_ms == 12_000


def test_a_whole_interval_late_starts_a_new_beat(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    heartbeat.sent(6_500)
    assert heartbeat.next_ms == 9_500


def test_one_that_is_sent_before_it_is_due_puts_off_the_next_by_one_interval(
    heartbeat: HeartbeatTimer,
) -> None:
    heartbeat.enable(0)
    heartbeat.sent(1_000)
    assert heartbeat.next_ms == 4_000


def test_hurrying_makes_it_due_and_the_next_one_normal(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    heartbeat.hurry(1_000)
    assert heartbeat.next_ms == 1_000
    heartbeat.sent(1_000)
    assert heartbeat.next_ms == 4_000
    heartbeat.sent(4_000)
    heartbeat.hurry(9_000)
    assert heartbeat.next_ms == 7_000, "hurrying never puts off"


def test_an_answer_extends_the_session(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    heartbeat.accepted(9_000, 8_000)
    assert heartbeat.session_until_ms == 19_000


def test_failures_back_off_but_never_beyond_the_interval(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    waits = []
    for _ in range(6):
        heartbeat.failed(5_000)
        assert heartbeat.next_ms is not None
        waits.append(heartbeat.next_ms - 5_000)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    heartbeat.accepted(5_000, 5_000)
    heartbeat.failed(5_000)
    assert heartbeat.next_ms == 5_100


def test_a_new_coordinator_gets_a_whole_session(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    heartbeat.reset_session(9_999)
    assert heartbeat.session_until_ms == 19_999


def test_the_poll_deadline_counts_from_the_last_poll(heartbeat: HeartbeatTimer) -> None:
    heartbeat.polled(1_000)
    assert heartbeat.poll_until_ms == 61_000


def test_validity_counts_from_the_time_of_sending(heartbeat: HeartbeatTimer) -> None:
    assert heartbeat.possession.until_ms is None
    heartbeat.accepted(5_000, 5_000)
    assert heartbeat.possession.until_ms == 15_000


def test_validity_never_shrinks_with_an_older_proof(heartbeat: HeartbeatTimer) -> None:
    heartbeat.accepted(5_000, 5_000)
    heartbeat.accepted(4_000, 4_000)
    assert heartbeat.possession.until_ms == 15_000


def test_a_proof_at_time_zero_counts(heartbeat: HeartbeatTimer) -> None:
    heartbeat.accepted(0, 0)
    heartbeat.accepted(-5, -5)  # the zero point of a clock means nothing
    assert heartbeat.possession.until_ms == 10_000


def test_validity_ends_with_the_rebalance_timeout_however_well_the_member_heartbeats(
    heartbeat: HeartbeatTimer,
) -> None:
    heartbeat.accepted(0, 0)
    for sent_ms in range(3_000, 90_000, 3_000):
        heartbeat.accepted(sent_ms, sent_ms, rebalancing=True)
    assert heartbeat.possession.until_ms == 60_000
    heartbeat.accepted(90_000, 90_000)
    assert heartbeat.possession.until_ms == 100_000


def test_forgetting_drops_the_proof(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    heartbeat.accepted(0, 0)
    heartbeat.forget()
    assert heartbeat.possession.until_ms is None
    assert (heartbeat.next_ms, heartbeat.session_until_ms) == (None, None)


def test_disabling_keeps_the_proof(heartbeat: HeartbeatTimer) -> None:
    heartbeat.enable(0)
    heartbeat.accepted(0, 0)
    heartbeat.disable()
    assert heartbeat.next_ms is None
    assert heartbeat.possession.until_ms == 10_000


def heartbeats(heartbeat: HeartbeatTimer, until_ms: int) -> list[int]:
    """Send what is due up to a time; returns when."""
    sent = []
    while heartbeat.next_ms is not None and heartbeat.next_ms <= until_ms:
        sent.append(heartbeat.next_ms)
        heartbeat.sent(sent[-1])
    return sent


def test_the_first_heartbeats_after_a_join_come_early_at_growing_distances() -> None:
    heartbeat = timer()
    heartbeat.enable(1_000)
    sent = heartbeats(heartbeat, 13_000)
    assert sent == [1_050, 1_150, 1_350, 1_750, 2_550, 4_150, 7_150, 10_150]
    heartbeat.enable(13_000)  # another join
    assert heartbeat.next_ms == 13_050


@pytest.mark.parametrize(
    ("interval_ms", "expected"),
    [(30, [30, 60, 90]), (50, [50, 100, 150]), (1_000, [50, 1_050, 2_050])],
)
def test_with_a_short_interval_heartbeats_come_evenly(
    interval_ms: int, expected: list[int]
) -> None:
    heartbeat = timer(interval_ms)
    heartbeat.enable(0)
    assert heartbeats(heartbeat, 3_000)[:3] == expected


def test_a_group_that_never_comes_to_rest_is_asked_at_the_pace_of_the_interval() -> None:
    heartbeat = timer()
    sent, now_ms = 0, 0
    while now_ms < 600_000:  # a join follows every single heartbeat
        heartbeat.enable(now_ms)
        assert heartbeat.next_ms is not None
        now_ms = heartbeat.next_ms
        sent += 1
    assert sent <= EARLY_HEARTBEATS + 2 * 600_000 // 3_000


def test_a_long_rest_saves_up_no_more_early_heartbeats() -> None:
    early = EarlyHeartbeats(3_000)
    early.joined()
    early.distance_ms(0)
    rested_ms, count = 3_000 * 1_000_000, 0
    early.joined()
    while early.distance_ms(rested_ms) < 3_000:
        count += 1
        early.joined()
    assert count == EARLY_HEARTBEATS


@pytest.fixture
def none_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat comes early because of a join."""
    monkeypatch.setattr(EarlyHeartbeats, "joined", lambda early: None)


def test_a_member_that_expects_a_rebalance_heartbeats_often_until_the_next_join(
    none_early: None,
) -> None:
    heartbeat = timer()
    heartbeat.enable(0)
    assert heartbeat.next_ms == 3_000
    heartbeat.expect_rebalance(1_000, 10_000)
    assert heartbeats(heartbeat, 3_000) == [1_050, 1_150, 1_350, 1_750, 2_150, 2_550, 2_950]
    heartbeat.enable(3_000)
    assert heartbeats(heartbeat, 9_000) == [6_000, 9_000]


def test_a_member_expects_a_rebalance_no_longer_than_told_and_never_beyond_its_interval(
    none_early: None,
) -> None:
    heartbeat = timer()
    heartbeat.enable(0)
    heartbeat.expect_rebalance(0, 300)
    assert heartbeats(heartbeat, 9_000) == [50, 150, 350, 3_350, 6_350]
    quick = timer(interval_ms=100)
    quick.enable(0)
    quick.expect_rebalance(0, 1_000)
    assert heartbeats(quick, 400) == [50, 150, 250, 350]


def test_a_member_without_heartbeats_expects_nothing_at_once() -> None:
    heartbeat = timer()
    heartbeat.expect_rebalance(0, 1_000)
    assert heartbeat.next_ms is None
