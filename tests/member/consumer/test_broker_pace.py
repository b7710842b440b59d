from itertools import pairwise
from random import Random
from typing import Any

from groupsdk.member.consumer.broker_pace import (
    ASK_EVERY_MS,
    LONGEST_GUESS_MS,
    SESSION_IN_INTERVALS,
    BrokerPacedHeartbeat,
)
from groupsdk.member.heartbeat import EARLY_HEARTBEATS
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.settings.config import DEFAULT_INTERVAL_MS, ConsumerMemberConfig
from groupsdk.wire.messages.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.member.consumer.driving import SETTINGS, session
from tests.support.cases import each_case


def pace(**settings: Any) -> BrokerPacedHeartbeat:
    config = ConsumerMemberConfig(**(SETTINGS | settings))
    return BrokerPacedHeartbeat.of(config, ExponentialBackoff(100, 1_000), Random(0))


def test_the_session_is_a_guess_until_it_is_told() -> None:
    timer = pace()
    assert timer.session_timeout_ms == DEFAULT_INTERVAL_MS * SESSION_IN_INTERVALS
    timer.paced(1_000, 0)
    assert timer.session_timeout_ms == 1_000 * SESSION_IN_INTERVALS
    timer.session_request("g", 0)
    assert timer.session_told(session(6_000)) is None
    assert timer.session_timeout_ms == 6_000


def test_after_another_interval_the_shorter_session_counts_until_it_is_told_again() -> None:
    timer = pace()
    timer.session_request("g", 0)
    timer.session_told(session(45_000))
    timer.session_request("g", 0)
    timer.paced(200, 0)
    assert timer.session_timeout_ms == 200 * SESSION_IN_INTERVALS
    # answers the question of before
    timer.session_told(session(45_000))
    assert timer.session_timeout_ms == 200 * SESSION_IN_INTERVALS
    timer.session_request("g", 0)
    timer.session_told(session(1_500))
    assert timer.session_timeout_ms == 1_500
    timer.paced(5_000, 0)
    assert timer.session_timeout_ms == 1_500


def test_an_interval_beyond_every_session_does_not_make_belief_last_for_days() -> None:
    timer = pace()
    timer.paced(2**31 - 1, 0)
    assert timer.session_timeout_ms == LONGEST_GUESS_MS


def test_changed_heartbeat_interval_has_the_session_timeout_asked_for_at_once() -> None:
    timer = pace()
    timer.session_request("g", 1_000)
    assert timer.ask_session_at_ms == 1_000 + ASK_EVERY_MS
    timer.paced(700, 2_000)
    assert timer.ask_session_at_ms == 2_000
    assert timer.interval_ms == 700


@each_case("value", (None, "", "x", "0", "-5", str(2**40)))
def test_a_session_that_is_none_is_passed_over(value: str | None) -> None:
    timer = pace()
    wrong = DescribeConfigsResourceResult(name="consumer.session.timeout.ms", value=value)
    result = DescribeConfigsResult(configs=(wrong,))
    assert timer.session_told(DescribeConfigsResponse(results=(result,))) is not None
    assert timer.session_timeout_ms == DEFAULT_INTERVAL_MS * SESSION_IN_INTERVALS


def test_a_refusal_says_why() -> None:
    refused = DescribeConfigsResult(error_code=30, error_message="no")
    why = pace().session_told(DescribeConfigsResponse(results=(refused,)))
    assert why == "GROUP_AUTHORIZATION_FAILED: no"


def test_early_heartbeats_come_at_growing_distances_and_end() -> None:
    timer = pace()
    timer.enable(0)
    assert timer.next_ms == 0
    timer.sent(0)
    timer.soon(0)
    times_ms = []
    for _ in range(9):
        assert timer.next_ms is not None
        times_ms.append(timer.next_ms)
        timer.sent(timer.next_ms)
    distances_ms = [b - a for a, b in zip([0, *times_ms], times_ms, strict=False)]
    assert distances_ms[0] <= 100
    assert distances_ms[-1] == DEFAULT_INTERVAL_MS


def test_a_group_in_motion_is_asked_every_second_after_the_early_heartbeats() -> None:
    """Each second brings a new epoch, as where members start one after the other: none is heard of an interval later."""
    timer, now_ms, sent_ms = pace(), 0, [0]
    timer.enable(now_ms)
    timer.sent(now_ms)
    for epoch_ms in range(0, 60_000, 1_000):
        timer.soon(epoch_ms)
        while timer.next_ms is not None and timer.next_ms < epoch_ms + 1_000:
            now_ms = timer.next_ms
            sent_ms.append(now_ms)
            timer.sent(now_ms)
    assert max(after - before for before, after in pairwise(sent_ms)) <= 2_000
    assert len(sent_ms) <= EARLY_HEARTBEATS + 2 * 60


def test_a_heartbeat_that_is_put_off_is_not_due_before() -> None:
    timer = pace()
    timer.enable(0)
    timer.put_off(500)
    assert timer.next_ms == 500
    timer.put_off(100)
    assert timer.next_ms == 500, "one that is due later stays so"


def test_changed_heartbeat_interval_delays_no_heartbeat_that_is_due_sooner() -> None:
    timer = pace()
    timer.enable(0)
    timer.sent(0)
    timer.soon(0)
    due_ms = timer.next_ms
    assert due_ms is not None
    timer.paced(60_000, 0)
    assert timer.next_ms == due_ms
    timer.paced(due_ms - 1, 0)
    assert timer.next_ms == due_ms - 1
