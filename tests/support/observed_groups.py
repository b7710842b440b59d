"""Makes descriptions of groups and observations of them, for tests of what judges them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Observation, Past, PastGeneration, PastMembership, Sample


NOW_MS = 1_800_000_000_000
"""When the groups of tests are looked at, in milliseconds since 1970."""
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def member(
    name: str,
    partitions: Iterable[int] = (),
    *,
    topic: str = "orders",
    topics: tuple[str, ...] = (),
    **others: Any,
) -> Member:
    """Make a member that subscribes to `topics`, or `topic` alone, and has some partitions of `topic`."""
    parts = tuple(TopicPartition(topic, each) for each in partitions)
    return Member(
        member_id=f"{name}-1f3a",
        client_id=name,
        host=f"/10.0.0.{len(name)}",
        subscription=Subscription(topics or (topic,)),
        assignment=Assignment(parts),
        **others,
    )


def group(*members: Member, **others: Any) -> GroupDescription:
    """Make a classic group of consumers that is stable with members, and else empty."""
    described = GroupDescription(
        group_id="g",
        type=GroupType.CLASSIC,
        state="Stable" if members else "Empty",
        protocol_type="consumer",
        assignor="range" if members else "",
        coordinator=1,
        members=members,
    )
    return replace(described, **others)


def lag_of(
    group: GroupDescription, behind: Mapping[int, int], *, topic: str = "orders", end: int = 10_000
) -> tuple[PartitionLag, ...]:
    """Make the lag of partitions of a topic, each with the member that has it."""
    owners = {part: each for each in group.members for part in each.assignment.partitions}
    found = []
    for partition, lag in behind.items():
        owner = owners.get(TopicPartition(topic, partition))
        found.append(
            PartitionLag(
                topic,
                partition,
                committed=end - lag,
                end=end,
                member_id=None if owner is None else owner.member_id,
                client_id=None if owner is None else owner.client_id,
                host=None if owner is None else owner.host,
            )
        )
    return tuple(found)


def seen(
    group: GroupDescription, behind: Mapping[int, int] | None = None, **facts: Any
) -> Observation:
    """Observe a group that has been as it is for an hour, unless `facts` say otherwise."""
    hour_ago = NOW_MS - 60 * MINUTE_MS
    usual: dict[str, Any] = {
        "settled_ms": hour_ago,
        "state_ms": hour_ago,
        "empty_ms": None if group.members else hour_ago,
        "retention_ms": 7 * 24 * 60 * MINUTE_MS,
    }
    lag = None if behind is None else lag_of(group, behind)
    return Observation(
        group_id=group.group_id, at_ms=NOW_MS, group=group, lag=lag, **{**usual, **facts}
    )


def samples(
    lags: Iterable[int], *, read_each: int = 1_000, every_ms: int = MINUTE_MS, members: int = 2
) -> tuple[Sample, ...]:
    """Make looks at a group, the last one now, that reads `read_each` records between two of them."""
    found = list(lags)
    return tuple(
        Sample(NOW_MS - (len(found) - 1 - place) * every_ms, members, lag, place * read_each)
        for place, lag in enumerate(found)
    )


def stay(client: str, start_s: float, end_s: float | None, **others: object) -> PastMembership:
    """Make a membership that began and ended so many seconds before now."""
    facts: dict[str, object] = {"client_host": "/10.0.0.7", "reason": "leave", **others}
    return PastMembership(
        client_id=client,
        start_ms=round(NOW_MS - 1_000 * start_s),
        end_ms=None if end_s is None else round(NOW_MS - 1_000 * end_s),
        **facts,  # type: ignore[arg-type]
    )


def in_turn(stays: Iterable[PastMembership], *, others: int = 2) -> Past:
    """Make the generations that these memberships cause in a group with other members."""
    found: list[PastMembership] = []
    generations: list[PastGeneration] = []

    def add(at_ms: int, members: int, cause: str) -> None:
        generations.append(
            PastGeneration(
                seq=len(generations), at_ms=at_ms, cause=cause, members=members, assignor="range"
            )
        )

    for each in stays:
        first = len(generations)
        add(each.start_ms or 0, others + 1, "join")
        if each.end_ms is not None:
            add(each.end_ms, others, each.reason)
        found.append(
            PastMembership(
                **{
                    **{name: getattr(each, name) for name in each.__slots__},
                    "first_seq": first,
                    "last_seq": first,
                }
            )
        )
    return Past(since_ms=NOW_MS - HOUR_MS, generations=tuple(generations), memberships=tuple(found))
