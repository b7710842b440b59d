"""The rows of the page's overview: one for each group, with what is worth looking at. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.admin.descriptions import REBALANCING, GroupDescription, GroupType
from groupsdk.admin.watching import WatchedGroup
from groupsdk.verdict import GroupVerdict
from groupsdk.web.connect_tasks import ShownTask
from groupsdk.wire.connect_protocol import CONNECT_PROTOCOL_TYPE
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from groupsdk.wire.shards.protocol import PROTOCOL_NAME as SHARDS


_SHOWN_FINDING: Final = 300
_SAID_MS: Final = 10_000
"""For so long the sentence of a finding stands, though its figures change at each look."""


@dataclass(frozen=True, slots=True)
class Said:
    """The sentence that the overview shows of a group's verdict."""

    text: str = ""
    rule: str = ""
    at_ms: int = 0


def said_of(verdict: GroupVerdict, before: Said | None) -> Said:
    """Return the sentence of the most severe finding, or the one `before` if that is recent and of the same rule."""
    if not verdict.findings:
        return Said()
    first = verdict.findings[0]
    recent = before is not None and verdict.at_ms - before.at_ms < _SAID_MS
    if before is not None and recent and before.rule == first.rule:
        return before
    return Said(first.saw[:_SHOWN_FINDING], first.rule, verdict.at_ms)


def kind_of(group: GroupDescription) -> str:
    """Return what a group is for: "consumer", "connect", "shards", "share", "streams", or its own protocol type."""
    if group.type in (GroupType.SHARE, GroupType.STREAMS):
        return group.type.value
    if group.protocol_type == CONNECT_PROTOCOL_TYPE:
        return "connect"
    if group.assignor == SHARDS and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "shards"
    return group.protocol_type or "consumer"


def group_row(
    watched: WatchedGroup,
    lag: int | None,
    verdict: GroupVerdict,
    said: Said,
    rebalances: int,
    tasks: Sequence[ShownTask] = (),
) -> dict[str, Any]:
    """Return what the overview shows of a group, but the figure of its lag, which changes more often."""
    group = watched.description
    return {
        "kind": kind_of(group),
        "type": group.type.value,
        "state": group.state,
        "rebalancing": group.state in REBALANCING,
        "since_ms": watched.since_ms,
        "members": len(group.members),
        "has": _has(group),
        "severity": verdict.severity.value,
        "finding": said.text,
        "findings": len(verdict.findings),
        "abandoned": not group.members and group.state not in REBALANCING and bool(lag),
        "rebalances": rebalances,
        "failed": sum(each.state == "FAILED" for each in tasks),
    }


def lag_of(watched: WatchedGroup) -> int | None:
    """Return the lag of a group; None if nothing is known of it."""
    return watched.total_lag if watched.lag else None


def matching(groups: Mapping[str, WatchedGroup], words: list[str]) -> list[str]:
    """Return the groups in which each word occurs: in its name, its members' or the names of what these have."""
    found = []
    for group_id, watched in groups.items():
        text = _words_of(watched)
        if all(word in text for word in words):
            found.append(group_id)
    return found


def _words_of(watched: WatchedGroup) -> str:
    group = watched.description
    words = {group.group_id}
    words.update(each.topic for each in watched.lag)
    for member in group.members:
        words.update((member.member_id, member.client_id, member.host, member.instance_id or ""))
        words.update(member.subscription.topics)
        words.update(member.assignment.connectors)
        words.update(member.assignment.tasks)
        words.update(member.assignment.shards)
        words.update(topic for topic, _ in member.assignment.partitions)
    return "\n".join(words).lower()


def _has(group: GroupDescription) -> str:
    """Return how much the members of a group have, such as "12 partitions" or "1 connector, 3 tasks"."""
    counts = {
        "partition": sum(len(each.assignment.partitions) for each in group.members),
        "connector": sum(len(each.assignment.connectors) for each in group.members),
        "task": sum(len(each.assignment.tasks) for each in group.members),
        "shard": sum(len(each.assignment.shards) for each in group.members),
    }
    return ", ".join(
        f"{count:,} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items() if count
    )
