"""Checks the rules about members."""

import pytest

from groupsdk.admin.descriptions import Assignment, GroupType
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Finding, Observation, Severity, judge
from tests.support.observed_groups import MINUTE_MS, NOW_MS, group, member, seen


def only(observation: Observation) -> Finding:
    [found] = judge(observation).findings
    return found


def test_a_member_without_partitions_beside_one_with_five_is_unbalanced() -> None:
    finding = only(seen(group(member("a", range(5)), member("bb"))))

    assert finding.rule == "unbalanced"
    assert "a at /10.0.0.1 has 5 partitions, bb at /10.0.0.2 has 0" in finding.saw
    assert "cooperative-sticky" in finding.change


def test_different_subscriptions_are_named_as_the_reason() -> None:
    other = member("b", [0], topic="payments")
    finding = only(seen(group(member("a", range(5)), other)))
    assert "same topics" in finding.change


@pytest.mark.parametrize("assignor", ["weighted", "lag"])
def test_assignors_that_weigh_partitions_may_be_uneven(assignor: str) -> None:
    assert not judge(seen(group(member("a", range(5)), member("b"), assignor=assignor))).findings


def test_more_members_than_partitions_is_a_notice() -> None:
    crowd = group(*(member(name, [at]) for at, name in enumerate("abcd")), member("e"), member("f"))

    finding = only(seen(crowd))

    assert finding.rule == "spare_members"
    assert finding.severity is Severity.NOTICE
    assert "6 members for 4 partitions: e, f" in finding.saw


def test_a_rebalance_in_progress_is_not_judged_by_what_it_moves() -> None:
    gained = Assignment((TopicPartition("orders", 4),))
    moving = group(member("a", range(5)), member("b", target=gained), type=GroupType.CONSUMER)
    assert not judge(seen(moving)).findings
    assert not judge(
        seen(group(member("a", range(5)), member("b")), settled_ms=NOW_MS - 3_000)
    ).findings


def test_a_migration_that_stands_still_is_found() -> None:
    both = group(
        member("a", [0]),
        member("b", [1], protocol=GroupType.CONSUMER),
        type=GroupType.CONSUMER,
        assignor="uniform",
    )
    finding = only(seen(both))
    assert finding.rule == "mixed_protocols"
    assert "1 of 2 members speak the classic protocol" in finding.saw
    assert not judge(seen(both, settled_ms=NOW_MS - 5 * MINUTE_MS)).findings


def test_a_rebalance_that_does_not_end_is_critical() -> None:
    stuck = group(member("a"), state="PreparingRebalance")
    finding = only(seen(stuck))
    assert finding.rule == "rebalance_stuck"
    assert finding.severity is Severity.CRITICAL
    assert not judge(seen(stuck, state_ms=NOW_MS - 30_000)).findings
