"""Checks the rules about rebalances that need not be."""

from collections.abc import Sequence
from dataclasses import replace

from groupsdk.verdict import (
    Finding,
    Observation,
    Past,
    PastAdvice,
    PastGeneration,
    Severity,
    judge,
)
from tests.support.observed_groups import (
    HOUR_MS,
    MINUTE_MS,
    NOW_MS,
    group,
    in_turn,
    member,
    seen,
    stay,
)


SLOW = {
    "reason": "poll_timeout",
    "confidence": 0.9,
    "session_ms": 45_000,
    "poll_ms": 300_000,
}


def findings(past: Past, **facts: object) -> Sequence[Finding]:
    observed: Observation = seen(
        group(member("a", [0, 1]), member("b", [2, 3])), {0: 0}, past=past, **facts
    )
    return judge(observed).findings


def test_a_member_that_comes_and_goes_every_three_seconds_is_flapping() -> None:
    past = in_turn(stay("orders-3", 60 - 6 * n, 57 - 6 * n) for n in range(10))

    [finding] = findings(past)

    assert finding.rule == "flapping_member"
    assert "orders-3 at /10.0.0.7 came and went 10 times, each time for about 3 s" in finding.saw
    assert "20 rebalances" in finding.saw


def test_a_client_with_another_id_each_time_is_found_by_its_pattern() -> None:
    past = in_turn(stay(f"orders-7f{n}c9d4b", 60 - 6 * n, 57 - 6 * n) for n in range(5))

    [finding] = findings(past)

    assert "orders-* came and went 5 times" in finding.saw


def test_clients_whose_ids_have_nothing_in_common_are_named() -> None:
    past = in_turn(stay(f"{name}{n}", 60 - 6 * n, 57 - 6 * n) for n, name in enumerate("tuvwx"))

    [finding] = findings(past)

    assert "t0, u1, v2 and 2 more at /10.0.0.7 came and went 5 times" in finding.saw


def test_a_deployment_is_not_flapping() -> None:
    old = [stay(f"orders-{n}", 3_000, 60 - 5 * n, first_seq=-1) for n in range(8)]
    new = [stay(f"orders-{n}", 58 - 5 * n, None, reason="") for n in range(8)]

    assert not findings(in_turn([*old, *new]))


def test_an_autoscaler_is_not_flapping() -> None:
    assert not findings(
        in_turn(stay(f"pod-{n}", 3_000 - 600 * n, 2_600 - 600 * n) for n in range(4))
    )


def test_a_job_that_runs_alone_each_minute_is_not_flapping() -> None:
    past = in_turn((stay("job", 600 - 60 * n, 590 - 60 * n) for n in range(9)), others=0)

    assert not judge(seen(group(), {0: 5}, past=past, empty_ms=NOW_MS - 10_000)).findings


def test_two_processes_with_one_instance_id_are_named_with_both_hosts() -> None:
    past = in_turn(
        stay(
            "c",
            60 - 6 * n,
            None if n == 7 else 54 - 6 * n,
            instance_id="i-1",
            client_host=f"/10.0.0.{n % 2}",
            reason="" if n == 7 else "static_replaced",
        )
        for n in range(8)
    )

    [finding] = findings(past)

    assert finding.rule == "static_twins"
    assert "i-1 was taken over 7 times within 36 s: c at /10.0.0.0, c at /10.0.0.1" in finding.saw


def test_twins_on_one_host_may_be_one_that_restarts() -> None:
    past = in_turn(
        stay("c", 60 - 6 * n, 54 - 6 * n, instance_id="i-1", reason="static_replaced")
        for n in range(4)
    )

    [finding] = findings(past)

    assert finding.rule == "static_twins"
    assert finding.confidence == 0.6
    assert "else look why this one restarts" in finding.change


def test_static_members_that_are_restarted_are_silent() -> None:
    past = in_turn(
        stay("c", 600, 300, instance_id="i-1", client_host=f"/10.0.0.{n}", reason="static_replaced")
        for n in range(2)
    )

    assert not findings(past)


def test_a_member_that_was_silent_for_its_poll_interval_exceeded_it() -> None:
    past = in_turn(
        [
            stay("slow", 2_000, 900, **SLOW, silence_ms=303_000),
            stay("slow", 600, 100, **SLOW, silence_ms=301_000),
        ]
    )

    [finding] = findings(past)

    assert finding.rule == "poll_interval_exceeded"
    assert "gone 2 times" in finding.saw
    assert "max.poll.interval.ms is 300000" in finding.saw
    assert "max.poll.interval.ms to 600000" in finding.change


def test_a_poll_interval_like_the_session_leaves_either_of_two() -> None:
    gone = stay(
        "slow",
        900,
        300,
        reason="expiry",
        confidence=0.4,
        silence_ms=61_000,
        session_ms=45_000,
        poll_ms=60_000,
    )
    past = in_turn([gone])

    [finding] = findings(past)

    assert finding.confidence == 0.6
    assert finding.change.startswith("either of two")


def pausing() -> Past:
    return in_turn(
        stay(
            "pausing",
            600 - 100 * n,
            520 - 100 * n,
            reason="expiry",
            confidence=0.9,
            silence_ms=11_000,
            session_ms=10_000,
            poll_ms=300_000,
        )
        for n in range(5)
    )


def test_the_price_of_a_longer_session_is_the_history_s() -> None:
    def advised(spared_ms: int, added_ms: int) -> Finding:
        advice = PastAdvice(
            advice="longer_session",
            setting="session.timeout.ms=60000",
            rebalances=8,
            spared_ms=spared_ms,
            added_ms=added_ms,
        )
        [found] = findings(replace(pausing(), advice=(advice,)))
        return found

    pays = advised(200_000, 50_000)
    assert pays.severity is Severity.WARNING
    assert pays.change.startswith("session.timeout.ms=60000, which outlasts these pauses")
    dear = advised(50_000, 200_000)
    assert dear.severity is Severity.NOTICE
    assert dear.change.startswith("look why it pauses")


def test_clients_that_expire_and_return_have_too_short_a_session() -> None:
    [finding] = findings(pausing())

    assert finding.rule == "session_too_short"
    assert "session.timeout.ms=10000" in finding.saw
    assert "session.timeout.ms=45000" in finding.change
    assert "the price" in finding.change


def test_a_deployment_whose_processes_are_killed_is_silent() -> None:
    killed = [
        stay(f"orders-{n}", 3_000, 600 - 60 * n, reason="expiry", silence_ms=46_000)
        for n in range(5)
    ]
    back = [stay(f"orders-{n}", 590 - 60 * n, None, reason="") for n in range(5)]

    assert not findings(in_turn([*killed, *back]))


def test_a_single_crash_is_silent() -> None:
    crash = stay("a", 900, 300, reason="expiry", silence_ms=47_000, session_ms=45_000)

    assert not findings(in_turn([crash, stay("a", 200, None, reason="")]))


def test_an_assignor_that_changes_back_and_forth_is_mixed() -> None:
    def past(*assignors: str) -> Past:
        generations = tuple(
            PastGeneration(
                seq=n, at_ms=NOW_MS - (9 - n) * MINUTE_MS, cause="join", members=2, assignor=each
            )
            for n, each in enumerate(assignors)
        )
        return Past(since_ms=NOW_MS - HOUR_MS, generations=generations)

    [finding] = findings(past("range", "cooperative-sticky", "range", "range"))

    assert finding.rule == "mixed_assignors"
    assert "range -> cooperative-sticky -> range" in finding.saw
    # a migration
    assert not findings(past("range", "range", "cooperative-sticky", "cooperative-sticky"))


def test_what_ended_long_ago_is_over() -> None:
    past = in_turn(stay("orders-3", 8_060 - 6 * n, 8_057 - 6 * n) for n in range(10))

    assert not findings(past)
