"""Rules about records that are not read, or not in time."""

from collections.abc import Iterator
from itertools import pairwise

from groupsdk.admin.descriptions import GroupDescription, PartitionLag
from groupsdk.assignment import TopicPartition
from groupsdk.verdict.observation import Observation, Sample, Thresholds
from groupsdk.verdict.rules.rule import Evidence, Rule, length, names, plural
from groupsdk.verdict.values import Severity


_SURE, _LIKELY, _MAYBE = 0.95, 0.8, 0.5
_USUAL = 1.5
"""An absence up to this many times as long as an earlier one is usual."""
_PARTS = 3
"""Lag must have grown in each of so many parts of the time looked at."""


def _total(lag: tuple[PartitionLag, ...]) -> int:
    return sum(each.lag or 0 for each in lag)


def _without_members(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    """Find an empty group with lag; a short absence is a deployment."""
    group, lag = seen.group, seen.lag
    if group is None or group.members or group.state != "Empty" or not lag:
        return
    behind = _total(lag)
    away_ms = None if seen.empty_ms is None else seen.at_ms - seen.empty_ms
    if behind < limits.lag_records or (away_ms is not None and away_ms < _usual_ms(seen, limits)):
        return
    since = "" if away_ms is None else f" for {length(away_ms)}"
    yield Evidence(
        Severity.CRITICAL,
        f"{plural(behind, 'record')} behind in {plural(sum(bool(e.lag) for e in lag), 'partition')},"
        f" and no members{since}",
        "nothing is read; what retention deletes meanwhile is never read",
        "start the consumers; if the group is not used any more, delete it:"
        f" groupsdk groups delete {seen.group_id}",
        _MAYBE if away_ms is None else _SURE,
    )


def _usual_ms(seen: Observation, limits: Thresholds) -> float:
    """Return how long an absence may last: a deployment, or as long as earlier ones of a job that runs now and then."""
    absences = seen.past.absences if seen.past is not None else ()
    longest = max((end_ms - start_ms for start_ms, end_ms in absences), default=0)
    return max(limits.absence_ms, _USUAL * longest)


def _growing(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group, lag = seen.group, seen.lag
    if group is None or not group.members or not lag:
        return
    trend = _trend(seen, limits)
    if trend is None:
        return
    first, last = trend
    seconds = (last.at_ms - first.at_ms) / 1000
    behind, grown = last.lag or 0, (last.lag or 0) - (first.lag or 0)
    read = max(0, (last.committed or 0) - (first.committed or 0)) / seconds
    late_s = behind / read if read else float("inf")
    if behind < limits.lag_records or late_s < limits.lag_seconds:
        return
    written = read + grown / seconds
    hour = round(behind + 3_600 * grown / seconds)
    yield Evidence(
        Severity.WARNING if read else Severity.CRITICAL,
        f"lag grew from {first.lag:,} to {behind:,} records within {length(1000 * seconds)}:"
        f" {_rate(written)} records/s are written, {_rate(read)} are read",
        f"{plural(hour, 'record')} behind in an hour"
        + (f"; the last one waits {length(1000 * late_s)}" if read else ""),
        _more_work(group, seen, reads=bool(read)),
        _LIKELY,
    )


def _rate(records_per_s: float) -> str:
    return f"{records_per_s:,.0f}" if records_per_s >= 100 else f"{records_per_s:.3g}"


def _more_work(group: GroupDescription, seen: Observation, *, reads: bool) -> str:
    if not reads:
        return "look at the logs of the members: they are in the group, and commit nothing"
    owned = {part for member in group.members for part in member.assignment.partitions}
    free = len(owned) - len(group.members)
    if free > 0:
        return f"start up to {free} more members, one for each partition; or make the work on a record faster"
    return "add partitions, then members; or make the work on a record faster: each partition has a member of its own"


def _trend(seen: Observation, limits: Thresholds) -> tuple[Sample, Sample] | None:
    """Return the first and the last look of a time in which lag grew throughout."""
    if not seen.samples or (seen.samples[-1].lag or 0) < limits.lag_records:
        return None
    known = [each for each in seen.samples if each.lag is not None and each.committed is not None]
    within = [each for each in known if each.at_ms >= seen.at_ms - 2 * limits.trend_ms]
    if len(within) <= _PARTS or within[-1].at_ms - within[0].at_ms < limits.trend_ms:
        return None
    if (within[-1].lag or 0) <= (within[0].lag or 0):
        return None
    step = (within[-1].at_ms - within[0].at_ms) / _PARTS
    marks = [
        min(within, key=lambda each, n=number: abs(each.at_ms - within[0].at_ms - n * step))  # type: ignore[misc]
        for number in range(_PARTS + 1)
    ]
    lags = [each.lag or 0 for each in marks]
    if all(after > before for before, after in pairwise(lags)):
        return marks[0], marks[-1]
    return None


def _unread(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    group = seen.group
    if group is None or group.state != "Stable" or not group.members or seen.lag is None:
        return
    if not any(each.assignment.partitions for each in group.members):
        return
    known_ms = None if seen.settled_ms is None else seen.at_ms - seen.settled_ms
    if known_ms is None or known_ms >= limits.settle_ms:
        yield from _unassigned(group, seen, sure=known_ms is not None)
    yield from _stalled(seen, limits)


def _unassigned(group: GroupDescription, seen: Observation, *, sure: bool) -> Iterator[Evidence]:
    wanted = {topic for member in group.members for topic in member.subscription.topics}
    left = {
        TopicPartition(each.topic, each.partition)
        for each in seen.lag or ()
        if each.member_id is None and each.end is not None and each.topic in wanted
    }
    for topic in wanted & seen.partitions.keys():
        owned = {
            part.partition
            for member in group.members
            for part in member.assignment.partitions
            if part.topic == topic
        }
        left |= {TopicPartition(topic, n) for n in range(seen.partitions[topic]) if n not in owned}
    if left:
        yield Evidence(
            Severity.CRITICAL,
            f"no member has {names(f'{each.topic}-{each.partition}' for each in sorted(left))}, although members subscribe to the topic",
            "their records are not read",
            "check the assignor, and that all members subscribe to the same topics; a member that joins again makes the group assign anew",
            _LIKELY if sure else _MAYBE,
        )


def _stalled(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    if all(seen.at_ms - since_ms < limits.stall_ms for since_ms in seen.stalled.values()):
        return
    lag = {TopicPartition(each.topic, each.partition): each for each in seen.lag or ()}
    stuck = {
        part: seen.at_ms - since_ms
        for part, since_ms in sorted(seen.stalled.items())
        if seen.at_ms - since_ms >= limits.stall_ms
        and part in lag
        and lag[part].member_id is not None
        and (lag[part].lag or 0) > 0
    }
    busy = [each for each in lag if (lag[each].lag or 0) > 0]
    # where nothing is committed at all the group is behind as a whole
    if not stuck or len(stuck) == len(busy) == len(lag):
        return
    behind = sum(lag[each].lag or 0 for each in stuck)
    who = sorted({lag[each].client_id or "" for each in stuck})
    yield Evidence(
        Severity.CRITICAL,
        f"{names(f'{each.topic}-{each.partition}' for each in stuck)}: no commit for {length(min(stuck.values()))},"
        f" {plural(behind, 'record')} behind, while others go on; assigned to {names(who)}",
        "its records are not read: one that fails each time, or work that hangs, holds up those behind it",
        "look at the log of that member for the record at the committed offset; skip it or send it to a dead-letter topic",
        _LIKELY,
    )


RULES = (
    Rule(
        "lag_without_members",
        Severity.CRITICAL,
        "an empty group with lag, empty for longer than a deployment takes",
        "nothing is read, and retention deletes what is waiting",
        "start the consumers, or delete the group",
        _without_members,
    ),
    Rule(
        "growing_lag",
        Severity.CRITICAL,
        "lag that grows throughout, by more than the group reads in a minute",
        "records are later each minute",
        "more members up to the number of partitions, then more partitions; or faster work",
        _growing,
    ),
    Rule(
        "unread_partitions",
        Severity.CRITICAL,
        "partitions of subscribed topics that no member has, or that stay uncommitted while others go on",
        "their records are not read",
        "check subscriptions and the assignor; look for a record that fails each time",
        _unread,
    ),
)
