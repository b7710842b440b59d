"""What `groupsdk watch` shows: its words, which groups, in which order, and which columns a terminal holds. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from groupsdk.admin.descriptions import Member, is_pattern, matches
from groupsdk.admin.watching import ClusterView, Rebalance, WatchedGroup
from groupsdk.cli.output import cell
from groupsdk.verdict import Finding, GroupVerdict, Severity


COLUMNS: Final = (
    *("GROUP", "TYPE", "STATE", "SINCE", "ASSIGNOR", "EPOCH", "MEMBERS", "ASSIGNED", "LAG"),
    "FINDING",
)
NUMBERS: Final = frozenset(("SINCE", "EPOCH", "MEMBERS", "ASSIGNED", "LAG"))
_LEFT_OUT: Final = (
    *("EPOCH", "TYPE", "SINCE", "ASSIGNED", "ASSIGNOR", "MEMBERS", "STATE", "FINDING", "LAG"),
)
"""What a narrow terminal leaves out, the least telling column first. The name of the group stays to the last."""
_FINDING: Final = "FINDING"
"""The column that is shown where something was found."""
_LEAST_NAME: Final = 40
"""So many characters of a name are shown, whatever is left out for them."""
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


class Order(StrEnum):
    """By what groups are ordered; equal ones by name."""

    GROUP = "group"
    LAG = "lag"
    STATE = "state"
    MEMBERS = "members"
    SINCE = "since"
    FINDING = "finding"

    @property
    def following(self) -> "Order":
        """The order after this one, and the first after the last."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


@dataclass(frozen=True, slots=True)
class GroupRow:
    group_id: str
    state: str
    cells: tuple[str, ...]
    """The text of each of `COLUMNS`."""
    severity: Severity = Severity.OK


_KEYS: Final[dict[Order, Callable[[WatchedGroup], Any]]] = {
    Order.GROUP: lambda each: 0,
    Order.LAG: lambda each: -each.total_lag,
    Order.STATE: lambda each: each.description.state,
    Order.MEMBERS: lambda each: -len(each.description.members),
    Order.SINCE: lambda each: -each.since_ms,
}
"""The largest lag, the most members, the latest change and the worst finding come first."""
_NO_VERDICTS: Final[Mapping[str, GroupVerdict]] = {}


def group_rows(
    view: ClusterView,
    wanted: str = "",
    order: Order = Order.GROUP,
    verdicts: Mapping[str, GroupVerdict] = _NO_VERDICTS,
) -> list[GroupRow]:
    """Return a row for each group whose id has the text `wanted`, or matches it where it is a pattern."""

    def key(each: WatchedGroup) -> Any:
        if order is not Order.FINDING:
            return _KEYS[order](each)
        verdict = verdicts.get(each.description.group_id)
        return 0 if verdict is None else -verdict.severity.rank

    chosen = [each for each in view.groups if _is_wanted(each.description.group_id, wanted)]
    chosen.sort(key=lambda each: (key(each), each.description.group_id))
    return [_row(view, each, verdicts.get(each.description.group_id)) for each in chosen]


def _is_wanted(group_id: str, wanted: str) -> bool:
    if is_pattern(wanted):
        return matches(group_id, (wanted,))
    return wanted.lower() in group_id.lower()


def _row(view: ClusterView, each: WatchedGroup, verdict: GroupVerdict | None) -> GroupRow:
    group = each.description
    found = () if verdict is None else verdict.findings
    values = (
        group.group_id,
        group.type,
        group.state,
        f"{max(0, view.at_ms - each.since_ms) // 1000} s",
        group.assignor or group.protocol_type,
        group.epoch,
        len(group.members),
        sum(member.assignment.size or 0 for member in group.members),
        each.total_lag,
        found[0].rule if found else "",
    )
    severity = Severity.OK if verdict is None else verdict.severity
    return GroupRow(group.group_id, group.state, tuple(map(cell, values)), severity)


@dataclass(frozen=True, slots=True)
class Fit:
    """What of `COLUMNS` a terminal holds."""

    columns: tuple[int, ...]
    name_width: int
    """How many characters of the names of groups it holds in a line."""


def fitting(rows: Sequence[GroupRow], width: int, *, gap: int) -> Fit:
    """Return what fits into so many characters, with a gap of so many after each column.

    Other columns are left out for the names of groups, unless these are longer than two thirds of the terminal.
    """
    needed = [
        max([len(name), *(len(row.cells[at]) for row in rows)]) + gap
        for at, name in enumerate(COLUMNS)
    ]
    longest = needed[0] - gap
    least = min(longest, max(width * 2 // 3, _LEAST_NAME))
    shown = list(range(len(COLUMNS)))
    if all(row.severity is Severity.OK for row in rows):
        shown.remove(COLUMNS.index(_FINDING))
    for name in _LEFT_OUT:
        if least + gap + sum(needed[at] for at in shown[1:]) <= width:
            break
        if COLUMNS.index(name) in shown:
            shown.remove(COLUMNS.index(name))
    left = width - gap - sum(needed[at] for at in shown[1:])
    return Fit(tuple(shown), max(1, min(longest, left)))


def clock_time(at_ms: int) -> str:
    """Return the local time of day, as in 14:48:20."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    return moment.strftime("%H:%M:%S")


def member_rows(group: WatchedGroup) -> list[tuple[Any, ...]]:
    """Return for each member: id, instance id, client, host, number of partitions, their lag, and the assignment."""
    lags = group.member_lags
    return [
        (
            *(member.member_id, member.instance_id, member.client_id, member.host),
            *(member.assignment.size, lags.get(member.member_id, 0), _assignment_text(member)),
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
