"""Checks the rules about rights, coordinators and retention."""

from groupsdk.verdict import Observation, Obstacle, ObstacleKind, Severity, judge
from tests.support.observed_groups import MINUTE_MS, NOW_MS, group, seen


def observed(*obstacles: Obstacle) -> Observation:
    return Observation(group_id="g", at_ms=NOW_MS, obstacles=obstacles)


def test_a_missing_right_is_named_with_the_command_that_grants_it() -> None:
    obstacle = Obstacle(
        ObstacleKind.RIGHT,
        "its members",
        "GROUP_AUTHORIZATION_FAILED",
        right="DESCRIBE on group g",
        command="kafka-acls.sh --add --operation Describe --group g",
    )
    [finding] = judge(observed(obstacle)).findings
    assert finding.rule == "missing_right"
    assert "DESCRIBE on group g" in finding.saw
    assert "kafka-acls.sh" in finding.change


def test_a_coordinator_that_is_gone_is_not_taken_for_a_right() -> None:
    obstacle = Obstacle(ObstacleKind.COORDINATOR, "its members", "COORDINATOR_NOT_AVAILABLE")
    [finding] = judge(observed(obstacle)).findings
    assert finding.rule == "coordinator_unavailable"
    assert "kafka-acls" not in finding.change


def test_a_silent_broker_is_a_finding_with_its_questions() -> None:
    first = Obstacle(ObstacleKind.BROKER, "its members", "no answer of node 2 within 4 s")
    [finding] = judge(
        observed(first, Obstacle(ObstacleKind.BROKER, "its offsets", "no answer"))
    ).findings
    assert finding.rule == "broker_unavailable"
    assert "its members, its offsets: no answer of node 2" in finding.saw


def test_offsets_of_an_empty_group_expire_by_the_brokers_retention() -> None:
    retention_ms = 24 * 60 * MINUTE_MS

    def after(hours: int) -> list[tuple[str, Severity]]:
        empty_ms = NOW_MS - hours * 60 * MINUTE_MS
        observation = seen(group(), {0: 0}, empty_ms=empty_ms, retention_ms=retention_ms)
        return [(each.rule, each.severity) for each in judge(observation).findings]

    assert after(12) == []
    assert after(20) == [("offsets_expiring", Severity.WARNING)]
    assert after(23) == [("offsets_expiring", Severity.CRITICAL)]
