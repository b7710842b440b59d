"""Rules about members: how many there are, what each has, and which protocol they speak."""

from collections.abc import Iterator

from groupsdk.admin.descriptions import REBALANCING, GroupDescription, GroupType
from groupsdk.verdict.observation import Observation, Thresholds
from groupsdk.verdict.rules.rule import Evidence, Rule, length, names, plural
from groupsdk.verdict.values import Severity


_SURE, _LIKELY, _MAYBE = 0.95, 0.8, 0.5
_EVEN = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky", "uniform"})
"""Assignors that give members of one subscription as many partitions as they can."""
_UNEVEN = frozenset({"weighted", "lag", "stream"})
"""Assignors for which partitions weigh differently, and Kafka Streams, whose standby tasks are not partitions."""


def _is_settled(seen: Observation, limits: Thresholds) -> bool | None:
    """Return whether the members have been the same for long enough; None if that is unknown."""
    if seen.settled_ms is None:
        return None
    return seen.at_ms - seen.settled_ms >= limits.settle_ms


def _assigned(seen: Observation) -> GroupDescription | None:
    """Return a stable group of consumers whose partitions are known, or None."""
    group = seen.group
    if group is None or group.state != "Stable" or not group.members:
        return None
    return group if any(each.assignment.partitions for each in group.members) else None


def _is_moving(group: GroupDescription) -> bool:
    return any(each.target not in (None, each.assignment) for each in group.members)


def _spare(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group, settled = _assigned(seen), _is_settled(seen, limits)
    if group is None or settled is False or _is_moving(group):
        return
    idle = [each for each in group.members if not each.assignment.partitions]
    partitions = sum(len(each.assignment.partitions) for each in group.members)
    if not idle or len(group.members) <= partitions or group.assignor in _UNEVEN:
        return
    yield Evidence(
        Severity.NOTICE,
        f"{plural(len(group.members), 'member')} for {plural(partitions, 'partition')}:"
        f" {names(each.client_id for each in idle)} has nothing to do",
        "idle processes, and each of their restarts is a rebalance",
        f"stop {len(idle)} of them, or add partitions; keep them only as spares",
        _SURE if settled else _MAYBE,
    )


def _unbalanced(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group, settled = _assigned(seen), _is_settled(seen, limits)
    if group is None or settled is False or _is_moving(group) or group.assignor in _UNEVEN:
        return
    loads = {each.member_id: len(each.assignment.partitions) for each in group.members}
    most, least = max(loads.values()), min(loads.values())
    if most - least < 2 or most < 2 * least:
        return
    alike = len({frozenset(each.subscription.topics) for each in group.members}) == 1
    hosts = {each.member_id: f"{each.client_id} at {each.host}" for each in group.members}
    busiest = max(loads, key=lambda each: loads[each])
    idlest = min(loads, key=lambda each: loads[each])
    yield Evidence(
        Severity.WARNING,
        f"{hosts[busiest]} has {plural(most, 'partition')}, {hosts[idlest]} has {least}"
        f" (assignor {group.assignor or 'unknown'})",
        f"the busiest member does {most * len(loads) / sum(loads.values()):.1f} times the average work, and sets the lag",
        _evener(group, alike=alike),
        (_LIKELY if alike or group.assignor in _EVEN else _MAYBE) if settled else _MAYBE,
    )


def _evener(group: GroupDescription, *, alike: bool) -> str:
    if not alike:
        return "let all members subscribe to the same topics; with different ones, use the assignor sticky"
    if group.assignor == "range":
        return "partition.assignment.strategy=cooperative-sticky: range gives each topic's first partitions to the same members"
    return "check the assignor: with the same subscriptions, cooperative-sticky differs by at most one partition"


def _mixed_protocols(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group = seen.group
    if group is None or group.type is not GroupType.CONSUMER:
        return
    old = [each for each in group.members if each.protocol is GroupType.CLASSIC]
    if not old or len(old) == len(group.members):
        return
    since = seen.settled_ms
    if since is not None and seen.at_ms - since < limits.migration_ms:
        return
    lasts = "" if since is None else f", unchanged for {length(seen.at_ms - since)}"
    yield Evidence(
        Severity.WARNING,
        f"{len(old)} of {plural(len(group.members), 'member')} speak the classic protocol,"
        f" the others KIP-848: {names(each.client_id for each in old)}{lasts}",
        "the migration stands still: the classic members still stop for each rebalance",
        "restart the members named with group.protocol=consumer, or go back with the others",
        _MAYBE if since is None else _SURE,
    )


def _standstill(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group = seen.group
    if group is None or group.state not in REBALANCING or seen.state_ms is None:
        return
    lasts_ms = seen.at_ms - seen.state_ms
    if lasts_ms < limits.standstill_ms:
        return
    late = [each for each in group.members if each.target not in (None, each.assignment)]
    who = f"; not there yet: {names(each.client_id for each in late)}" if late else ""
    yield Evidence(
        Severity.CRITICAL,
        f"{group.state} for {length(lasts_ms)} with {plural(len(group.members), 'member')}{who}",
        "partitions that move have no owner meanwhile",
        "look at the members that do not poll, and restart them; a lower max.poll.interval.ms bounds the wait",
        _LIKELY,
    )


RULES = (
    Rule(
        "unbalanced",
        Severity.WARNING,
        "a member with at least twice as many partitions as another, and two more",
        "the busiest member sets the lag",
        "cooperative-sticky, or the same subscriptions for all members",
        _unbalanced,
    ),
    Rule(
        "spare_members",
        Severity.NOTICE,
        "more members than partitions",
        "idle processes, whose restarts are rebalances",
        "fewer members, or more partitions",
        _spare,
    ),
    Rule(
        "mixed_protocols",
        Severity.WARNING,
        "members of the classic protocol and of KIP-848 in one group, for longer than a migration takes",
        "the classic members still stop for each rebalance",
        "complete the migration, or go back",
        _mixed_protocols,
    ),
    Rule(
        "rebalance_stuck",
        Severity.CRITICAL,
        "a rebalance that does not end",
        "partitions that move have no owner",
        "restart the members that do not poll",
        _standstill,
    ),
)
