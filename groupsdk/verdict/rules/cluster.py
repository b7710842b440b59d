"""Rules about the cluster as this group meets it: rights, its coordinator, and the retention of its offsets."""

from collections.abc import Iterator

from groupsdk.verdict.observation import Observation, Obstacle, ObstacleKind, Thresholds
from groupsdk.verdict.rules.rule import Evidence, Rule, length, names, plural
from groupsdk.verdict.values import Severity


_SURE, _LIKELY = 1.0, 0.9
_SOON = 0.25
"""A group that has been empty for all but this share of the retention is about to lose its offsets."""
_VERY_SOON = 0.1


def _of_kind(seen: Observation, kind: ObstacleKind) -> list[Obstacle]:
    return [each for each in seen.obstacles if each.kind is kind]


def _missing_right(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    for each in _of_kind(seen, ObstacleKind.RIGHT):
        yield Evidence(
            Severity.NOTICE if each.optional else Severity.WARNING,
            f"{each.question}: {each.right or each.text} is not allowed",
            "the rules that need it do not apply"
            if each.optional
            else "the group cannot be checked; a client with the same rights cannot use it either",
            f"grant it: {each.command}" if each.command else "grant the right",
            _SURE,
        )


def _coordinator(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    found = _of_kind(seen, ObstacleKind.COORDINATOR)
    if found:
        yield Evidence(
            Severity.CRITICAL,
            f"the group has no coordinator: {found[0].text}",
            "nobody joins or commits until it is back; members stop when their session is over",
            "start the brokers that have the group's partition of __consumer_offsets (groupsdk doctor names those without a leader)",
            _SURE,
        )


def _broker(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    found = _of_kind(seen, ObstacleKind.BROKER)
    if found:
        yield Evidence(
            Severity.NOTICE if all(each.optional for each in found) else Severity.CRITICAL,
            f"a broker does not answer for {names(each.question for each in found)}: {found[0].text}",
            "partitions that it leads are not read, and groups that it coordinates stand still",
            "start the broker, or restore the network to it",
            _LIKELY,
        )


def _expiring(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group = seen.group
    if group is None or group.members or group.state != "Empty" or not seen.lag:
        return
    if seen.empty_ms is None or not seen.retention_ms:
        return
    left_ms = seen.empty_ms + seen.retention_ms - seen.at_ms
    if left_ms > _SOON * seen.retention_ms:
        return
    count = sum(each.committed is not None for each in seen.lag)
    minutes = seen.retention_ms // 60_000
    yield Evidence(
        Severity.CRITICAL if left_ms <= _VERY_SOON * seen.retention_ms else Severity.WARNING,
        f"empty for {length(seen.at_ms - seen.empty_ms)}; offsets.retention.minutes of the brokers is {minutes},"
        f" {length(max(left_ms, 0))} from now {plural(count, 'committed offset')} expire",
        "the group then begins at auto.offset.reset: it reads everything again, or skips what it has not read",
        "start a member before that, or raise offsets.retention.minutes; groupsdk groups offsets"
        f" {seen.group_id} --json saves the offsets",
        _LIKELY,
    )


def _other(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    for each in _of_kind(seen, ObstacleKind.OTHER):
        yield Evidence(
            Severity.NOTICE if each.optional else Severity.WARNING,
            f"{each.question}: {each.text}",
            "the rules that need it do not apply",
            "see the error",
            _SURE,
        )


RULES = (
    Rule(
        "coordinator_unavailable",
        Severity.CRITICAL,
        "a group without a coordinator, or whose coordinator is loading",
        "nobody joins or commits",
        "start the brokers of the group's partition of __consumer_offsets",
        _coordinator,
    ),
    Rule(
        "broker_unavailable",
        Severity.CRITICAL,
        "a broker that does not answer in time",
        "its partitions are not read, its groups stand still",
        "start the broker, or restore the network",
        _broker,
    ),
    Rule(
        "missing_right",
        Severity.WARNING,
        "a question that the principal may not ask",
        "the group is checked in part only",
        "grant the right that is named",
        _missing_right,
    ),
    Rule(
        "not_answered",
        Severity.WARNING,
        "a question that was answered with another error",
        "the rules that need it do not apply",
        "see the error",
        _other,
    ),
    Rule(
        "offsets_expiring",
        Severity.CRITICAL,
        "an empty group whose committed offsets expire soon (offsets.retention.minutes)",
        "the group begins at auto.offset.reset",
        "start a member, or raise the retention",
        _expiring,
    ),
)
