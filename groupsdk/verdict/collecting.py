"""Observe groups of a cluster now and in their last hour, within one limit of time."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupsdk.admin.cluster import ClusterClient, ClusterMetadata
from groupsdk.admin.coordinator_log import OFFSETS_TOPIC
from groupsdk.admin.descriptions import GroupDescription, GroupType, PartitionLag
from groupsdk.admin.groups import committed_offsets, describe_group, lag_of
from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, WallClock
from groupsdk.error_code import ErrorCode
from groupsdk.errors import broker_error
from groupsdk.verdict.group_log import Commits
from groupsdk.verdict.log_reader import GroupLogs
from groupsdk.verdict.observation import (
    LoggedGroup,
    Observation,
    Obstacle,
    ObstacleKind,
    Past,
    Sample,
)
from groupsdk.verdict.questions import Questions, obstacle, offsets_retention_ms


_HOUR_MS: Final = 3_600_000
_LONGEST_MS: Final = 8 * 24 * _HOUR_MS
"""How far back the log of an empty group is read, for how long it has been empty and whether that is usual."""
_MARKS: Final = (1_200_000, 900_000, 600_000, 300_000)
"""How long ago lag is computed from the log, besides now; in milliseconds."""
_STALL_MARK: Final = 2
"""Which of them tells whether a partition stands still."""
_AT_ONCE: Final = 32


@dataclass(slots=True)
class _Seen:
    """What has been learned of a group so far."""

    group_id: str
    questions: Questions
    group: GroupDescription | None = None
    lag: tuple[PartitionLag, ...] | None = None
    partitions: dict[str, int] = field(default_factory=dict)
    ends: list[Mapping[TopicPartition, int | None]] = field(default_factory=list)
    """The end offsets at each mark that could be looked up."""


async def observe_groups(
    client: ClusterClient,
    group_ids: Collection[str],
    *,
    timeout_s: float,
    clock: Clock | None = None,
) -> list[Observation]:
    """Observe groups, in their order; what was not answered within `timeout_s` in all is an obstacle of the observation.

    `client` should give up retries sooner than that, so that their errors are seen.
    """
    clock = clock or WallClock()
    until_s = asyncio.get_running_loop().time() + timeout_s
    now_ms = clock.now_ms()
    marks = [now_ms - each for each in _MARKS]
    seen = [_Seen(each, Questions(until_s, timeout_s)) for each in group_ids]
    shared = Questions(until_s, timeout_s)
    retention_ms = await shared.ask(
        "the brokers' settings", offsets_retention_ms(client), optional=True
    )
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(each: _Seen) -> None:
        async with free:
            await _look(client, each, marks)

    await asyncio.gather(*(one(each) for each in seen))
    log = Questions(until_s, timeout_s)
    logs = GroupLogs({e.group_id: _since_ms(e, now_ms, retention_ms) for e in seen}, marks)
    # where time is up, the question that took it is the obstacle
    has_time = asyncio.get_running_loop().time() < until_s
    if has_time and any(each.group is not None for each in seen):
        await log.ask(
            "the log of the last hour",
            logs.read(client),
            operation="Read",
            name=OFFSETS_TOPIC,
            optional=True,
        )
    return [
        _observation(each, logs, log.obstacles, marks, now_ms=now_ms, retention_ms=retention_ms)
        for each in seen
    ]


def _since_ms(seen: _Seen, now_ms: int, retention_ms: int | None) -> int:
    if seen.group is not None and not seen.group.members:
        return now_ms - min(retention_ms or _LONGEST_MS, _LONGEST_MS)
    return now_ms - _HOUR_MS


async def _look(client: ClusterClient, seen: _Seen, marks: Sequence[int]) -> None:
    questions, group_id = seen.questions, seen.group_id
    seen.group = await questions.ask("its members", describe_group(client, group_id), name=group_id)
    if seen.group is None or seen.group.type is GroupType.SHARE:
        return
    committed = await questions.ask(
        "its committed offsets", committed_offsets(client, group_id), name=group_id
    )
    if committed is None:
        return
    topics = {each.topic for each in committed} | _topics_of(seen.group)
    metadata = await questions.ask("its topics", client.metadata(sorted(topics)))
    if metadata is None:
        return
    _note_topics(seen, metadata, topics)
    owned = {e for member in seen.group.members for e in member.assignment.partitions}
    there = [each for each in {*committed, *owned} if _has_leader(metadata, each)]
    ends = await _ends(client, seen, there, -1)
    if ends is None:
        return
    seen.lag = tuple(lag_of(seen.group, committed, ends))
    read = [each for each in there if each in committed]
    at_marks = [await _ends(client, seen, read, mark) for mark in marks]
    seen.ends = [each for each in at_marks if each is not None]


def _topics_of(group: GroupDescription) -> set[str]:
    return {topic for member in group.members for topic in member.subscription.topics}


def _note_topics(seen: _Seen, metadata: ClusterMetadata, topics: Iterable[str]) -> None:
    for name in sorted(topics):
        topic = metadata.topics.get(name)
        if topic is None or topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if topic.error_code:
            _refused(seen, name, topic.error_code)
            continue
        seen.partitions[name] = len(topic.partitions)
        lost = [number for number, each in topic.partitions.items() if each.leader < 0]
        if lost:
            text = f"{', '.join(f'{name}-{each}' for each in sorted(lost))} has no leader"
            seen.questions.obstacles.append(Obstacle(ObstacleKind.BROKER, "its lag", text))


def _refused(seen: _Seen, topic: str, code: int) -> None:
    error = broker_error(code, f"Metadata of topic {topic!r}")
    seen.questions.obstacles.append(obstacle(error, f"topic {topic}", "Describe", topic))


def _has_leader(metadata: ClusterMetadata, place: TopicPartition) -> bool:
    topic = metadata.topics.get(place.topic)
    partition = None if topic is None else topic.partitions.get(place.partition)
    return partition is not None and partition.leader >= 0


async def _ends(
    client: ClusterClient, seen: _Seen, places: Collection[TopicPartition], at_ms: int
) -> dict[TopicPartition, int | None] | None:
    """Return the end offsets of partitions now (-1), or at a time where that was another; None without an answer."""
    if not places:
        return {}
    found = await seen.questions.ask(
        "its lag", client.list_offsets(dict.fromkeys(places, at_ms)), optional=at_ms >= 0
    )
    # -1: there is no record since then
    return None if found is None else {place: end for place, end in found.items() if end >= 0}


def _observation(
    seen: _Seen,
    logs: GroupLogs,
    unread: Sequence[Obstacle],
    marks: Sequence[int],
    *,
    now_ms: int,
    retention_ms: int | None,
) -> Observation:
    log = logs.found.get(seen.group_id)
    past, commits = log.close() if log is not None else (None, {})
    committed_ms = max((each.changed_ms for each in commits.values()), default=None)
    logged = None if past is None else LoggedGroup(past, committed_ms)
    is_empty = seen.group is not None and not seen.group.members
    obstacles = seen.questions.obstacles
    if seen.group is not None and log is None:
        obstacles = [*obstacles, *unread]
    return Observation(
        group_id=seen.group_id,
        at_ms=now_ms,
        group=seen.group,
        lag=seen.lag,
        partitions=seen.partitions,
        samples=_samples(seen, commits, marks, now_ms),
        past=past,
        settled_ms=None if logged is None else logged.changed_ms,
        # a rebalance is not logged until it has ended; a group that commits did not stand still before
        state_ms=None if logged is None else max(logged.changed_ms, committed_ms or 0),
        empty_ms=logged.emptied_ms if logged is not None and is_empty else None,
        stalled=_stalled(seen, commits, past),
        retention_ms=retention_ms,
        obstacles=tuple(obstacles),
    )


def _samples(
    seen: _Seen, commits: Mapping[TopicPartition, Commits], marks: Sequence[int], now_ms: int
) -> tuple[Sample, ...]:
    """Compute the lag at each mark from the log's commits and the brokers' offsets by time, of partitions known throughout."""
    if not seen.lag or seen.group is None or len(seen.ends) < len(marks):
        return ()
    now = {
        TopicPartition(each.topic, each.partition): each
        for each in seen.lag
        if each.committed is not None and each.end is not None
    }
    known = [place for place in now if place in commits and None not in commits[place].at_marks]
    found = []
    for number, at_ms in enumerate(marks):
        at = {place: commits[place].at_marks[number] or 0 for place in known}
        lag = sum(
            max(0, (seen.ends[number].get(place, now[place].end) or 0) - offset)
            for place, offset in at.items()
        )
        found.append(Sample(at_ms, len(seen.group.members), lag, sum(at.values())))
    lag = sum(now[place].lag or 0 for place in known)
    found.append(
        Sample(now_ms, len(seen.group.members), lag, sum(now[e].committed or 0 for e in known))
    )
    return tuple(found) if known else ()


def _stalled(
    seen: _Seen, commits: Mapping[TopicPartition, Commits], past: Past | None
) -> dict[TopicPartition, int]:
    """Return since when partitions stand still whose unread records are older than that."""
    if past is None or len(seen.ends) < len(_MARKS):
        return {}
    then = seen.ends[_STALL_MARK]
    found = {}
    for each in seen.lag or ():
        place = TopicPartition(each.topic, each.partition)
        if not each.lag or (then.get(place, each.end) or 0) <= (each.committed or 0):
            continue
        found[place] = commits[place].changed_ms if place in commits else past.since_ms
    return found
