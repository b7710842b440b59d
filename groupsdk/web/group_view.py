"""What the page shows of one group: facts, findings, topics, members and the last rebalances. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    Member,
    PartitionLag,
    families_of,
    ranges,
)
from groupsdk.admin.watching import Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Finding, GroupVerdict
from groupsdk.web.overview import kind_of, lag_of


MAX_MEMBERS: Final = 2_000
MAX_RANGES: Final = 100
"""So many topics, or other names, are shown of one member."""
_MAX_LENGTH: Final = 600
"""The length of the numbers shown of one topic, in characters."""
MAX_TOPICS: Final = 500
_SHOWN_CAUSES: Final = 20


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as the page shows it; all values are those of JSON."""

    facts: Mapping[str, Any]
    members: Mapping[str, Any] = field(default_factory=dict)
    """By member id: what seldom changes."""
    lags: Mapping[str, int] = field(default_factory=dict)
    """The lag of each member whose lag is known."""
    topics: Mapping[str, Any] = field(default_factory=dict)
    rebalances: Mapping[str, Any] = field(default_factory=dict)
    """By a key that a rebalance keeps."""


def group_view(
    watched: WatchedGroup,
    verdict: GroupVerdict | None,
    states: Sequence[tuple[int, str]],
    rebalances: Iterable[Rebalance],
) -> GroupView:
    """Return what the page shows of a group."""
    group = watched.description
    lags = watched.member_lags
    members = group.members[:MAX_MEMBERS]
    return GroupView(
        facts=_facts(watched, verdict, states),
        members={each.member_id: member_row(each) for each in members},
        lags={each.member_id: lags[each.member_id] for each in members if each.member_id in lags},
        topics=topic_rows(group, watched.lag),
        rebalances={f"{each.began_ms}": _rebalance(each) for each in rebalances},
    )


def _facts(
    watched: WatchedGroup, verdict: GroupVerdict | None, states: Sequence[tuple[int, str]]
) -> dict[str, Any]:
    group = watched.description
    return {
        "kind": kind_of(group),
        "type": group.type.value,
        "state": group.state,
        "since_ms": watched.since_ms,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "member_count": len(group.members),
        "topic_count": len({each.topic for each in watched.lag}),
        "lag": lag_of(watched),
        "states": [list(each) for each in states],
        "findings": [_finding(each) for each in verdict.findings] if verdict is not None else None,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "saw": finding.saw,
        "cost": finding.cost,
        "change": finding.change,
        "confidence": finding.confidence,
    }


def member_row(member: Member) -> dict[str, Any]:
    """Return what the page shows of a member, but its lag."""
    coming, going = _moves(member.assignment, member.target)
    return {
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "rack": member.rack,
        "protocol": member.protocol.value,
        "epoch": member.epoch,
        "weight": f"{member.weight:.4g}" if member.assignment.weights else None,
        "load": f"{member.load:.4g}" if member.subscription.loads else None,
        "url": member.subscription.url,
        "draining": member.subscription.draining,
        "size": member.assignment.size,
        "parts": shown_parts(member.assignment),
        "standbys": shown_parts(Assignment(tasks=member.assignment.standbys)),
        "coming": coming,
        "going": going,
    }


def _moves(now: Assignment, target: Assignment | None) -> tuple[list[str], list[str]]:
    """Return what a member is still to be given, and what it is to give up."""
    if target is None or target == now:
        return [], []
    return shown_parts(_without(target, now)), shown_parts(_without(now, target))


def _without(one: Assignment, other: Assignment) -> Assignment:
    partitions, tasks = set(other.partitions), set(other.tasks)
    return Assignment(
        partitions=tuple(each for each in one.partitions if each not in partitions),
        tasks=tuple(each for each in one.tasks if each not in tasks),
    )


def topic_rows(group: GroupDescription, lags: Iterable[PartitionLag]) -> dict[str, Any]:
    """Return the topics of a group: their partitions, which of them nobody has, and where the lag is greatest."""
    by_topic: dict[str, list[PartitionLag]] = {}
    for each in lags:
        by_topic.setdefault(each.topic, []).append(each)
    rows = {}
    for topic in sorted(by_topic)[:MAX_TOPICS]:
        partitions = by_topic[topic]
        worst = max(partitions, key=lambda each: each.lag or 0)
        unowned = [each for each in partitions if each.member_id is None] if group.members else []
        rows[topic] = {
            "partitions": _numbers(topic, partitions),
            "count": len(partitions),
            "unowned": _numbers(topic, unowned),
            "uncommitted": sum(each.committed is None for each in partitions),
            "lag": sum(each.lag or 0 for each in partitions),
            "worst": [worst.partition, worst.lag or 0],
        }
    return rows


def _numbers(topic: str, partitions: Iterable[PartitionLag]) -> str:
    """Return the numbers of partitions as in "0-3,7"."""
    found = topic_ranges(TopicPartition(topic, each.partition) for each in partitions)
    return found[0][len(topic) + 1 :].removesuffix(")") if found else ""


def _rebalance(rebalance: Rebalance) -> dict[str, Any]:
    causes = [
        {
            "kind": each.kind,
            "client_id": each.client_id,
            "member_id": each.member_id,
            "host": each.host,
            "detail": cut(each.detail),
        }
        for each in rebalance.causes[:_SHOWN_CAUSES]
    ]
    return {
        "at_ms": rebalance.began_ms,
        "length_ms": rebalance.length_ms,
        "moved": rebalance.moved,
        "members": rebalance.members,
        "causes": causes,
        "more_causes": max(0, len(rebalance.causes) - _SHOWN_CAUSES),
        "phases": phases_of(rebalance),
    }


def phases_of(rebalance: Rebalance) -> list[tuple[str, int]]:
    """Return each state of a rebalance with its observed duration in milliseconds."""
    if rebalance.ended_ms is None:
        return []
    ends = [*(at_ms for _, at_ms in rebalance.phases[1:]), rebalance.ended_ms]
    spans = zip(rebalance.phases, ends, strict=False)
    return [(name, end_ms - at_ms) for (name, at_ms), end_ms in spans if end_ms > at_ms]


def shown_parts(assignment: Assignment) -> list[str]:
    """Return what an assignment has, a range of partitions for each topic, then connectors, tasks and shards."""
    shown = topic_ranges(assignment.partitions)
    for names in (assignment.connectors, assignment.tasks, assignment.shards):
        shown += map(cut, families_of(names))
    if not shown and assignment.other is not None:
        shown = list(map(cut, assignment.parts or (assignment.text,)))
    return bounded([each for each in shown if each])


def topic_ranges(partitions: Iterable[TopicPartition]) -> list[str]:
    """Return partitions as in `["orders(0-3,7)", "payments(1)"]`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [cut(ranges({topic: tuple(numbers)})) for topic, numbers in sorted(by_topic.items())]


def cut(text: str) -> str:
    """Return the beginning of a text, a few lines of it."""
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def bounded(shown: list[str]) -> list[str]:
    """Return the first names, and how many more there are."""
    if len(shown) <= MAX_RANGES:
        return shown
    return [*shown[:MAX_RANGES], f"and {len(shown) - MAX_RANGES} more"]
