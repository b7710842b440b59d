"""The words of `groupsdk watch`, for all that draws them. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from groupsdk.admin.descriptions import Member
from groupsdk.admin.watching import Rebalance, WatchedGroup
from groupsdk.verdict import Finding, GroupVerdict, Severity


MEMBER_COLUMNS: Final = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "COUNT", "LAG", "ASSIGNMENT")
STATES: Final = {
    "Stable": "green",
    "Empty": "dim",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
}
"""The colours of states."""
SEVERITIES: Final = {
    Severity.OK: "",
    Severity.NOTICE: "cyan",
    Severity.WARNING: "yellow",
    Severity.CRITICAL: "bold red",
}
"""The colours of findings."""


def clock_time(at_ms: int) -> str:
    """Return the local time of day, as in 14:48:20."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return moment.strftime("%H:%M:%S")


def member_rows(group: WatchedGroup) -> list[tuple[Any, ...]]:
    """Return for each member: id, instance id, client, host, number of partitions, their lag, and the assignment."""
    lag: dict[str | None, int] = {}
    for each in group.lag:
        lag[each.member_id] = lag.get(each.member_id, 0) + (each.lag or 0)
    return [
        (
            *(member.member_id, member.instance_id, member.client_id, member.host),
            *(member.assignment.size, lag.get(member.member_id, 0), _assignment_text(member)),
        )
        for member in group.description.members
    ]


def _assignment_text(member: Member) -> str:
    """Return what a member has, and of a worker with shards their weight and load where these are known."""
    parts = [member.assignment.text]
    if member.assignment.weights:
        parts.append(f"weight {member.weight:.4g}")
    if member.subscription.loads:
        parts.append(f"load {member.load:.4g}")
    return "; ".join(parts)


def worst_findings(verdicts: Iterable[GroupVerdict], most: int) -> list[Finding]:
    """Return the worst findings of all groups, so many at most."""
    found = [each for verdict in verdicts for each in verdict.findings]
    return sorted(found, key=lambda each: (-each.severity.rank, each.group))[:most]


def finding_line(finding: Finding) -> str:
    """Describe a finding in a line: what was seen, and what to change."""
    return f"{finding.severity} {finding.group}: {finding.saw} -> {finding.change}"


def rebalance_line(rebalance: Rebalance) -> str:
    """Describe a rebalance in a line: when, causes, duration, members, and partitions moved."""
    causes = "; ".join(each.text for each in rebalance.causes) or "the cause is not seen yet"
    if rebalance.length_ms is None:
        took = f"goes on, {rebalance.phases[-1][0]}"
    else:
        took = (
            f"took {rebalance.length_ms} ms"
            if rebalance.length_ms
            else "took less than an interval"
        )
    return (
        f"{clock_time(rebalance.began_ms)} {rebalance.group_id}: {causes}; {took},"
        f" {rebalance.members} members, {rebalance.moved} moved"
    )
