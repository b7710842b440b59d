"""Rules about rebalances that need not be: members that come and go, are replaced, or lose their sessions.

Storms are found by the history's own rule.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from groupsdk.history.explain.advice import LONGER_SESSION, SESSIONS_MS
from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.storms import Storm, pattern_of, storms
from groupsdk.history.explain.timeline.rows import TimelineGeneration, TimelineMembership
from groupsdk.verdict.observation import Observation, Past, PastMembership, Thresholds
from groupsdk.verdict.rules.rule import Evidence, Rule, length, names, plural
from groupsdk.verdict.values import Severity


_SURE, _LIKELY, _EITHER, _MAYBE = 0.95, 0.8, 0.6, 0.5
_STORM = 5
_STORM_MS = 300_000
"""So many rebalances within this time are a storm, as in the history."""
_ANY = "*"


def _client(each: PastMembership) -> tuple[str, str]:
    """Return what a client has in common with itself after a restart; random ids are told apart by host."""
    pattern = pattern_of(each.client_id)
    return pattern, each.client_host if pattern == _ANY else ""


def _ended(seen: Observation, limits: Thresholds) -> list[PastMembership]:
    past = seen.past
    if past is None:
        return []
    oldest_ms = seen.at_ms - limits.recent_ms
    return [e for e in past.memberships if e.end_ms is not None and e.end_ms >= oldest_ms]


def _storms(past: Past) -> Iterator[Storm]:
    """Find storms as the history does."""
    return storms(
        [TimelineGeneration(e.seq, e.at_ms, e.cause, e.moved, e.gap_ms) for e in past.generations],
        [
            TimelineMembership(
                *(e.client_id, e.client_host, e.first_seq, e.last_seq),
                -1 if e.start_ms is None else e.start_ms,
                -1 if e.end_ms is None else e.end_ms,
                "" if e.end_ms is None else e.reason or str(Cause.UNKNOWN),
            )
            for e in past.memberships
        ],
        generations=_STORM,
        window_ms=_STORM_MS,
    )


def _flapping(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    short: defaultdict[tuple[str, str], list[PastMembership]] = defaultdict(list)
    for each in _ended(seen, limits):
        if (
            each.stay_ms is not None
            and each.stay_ms < limits.short_ms
            and each.reason != Cause.STATIC_REPLACED
        ):
            short[_client(each)].append(each)
    if not short or seen.past is None:
        return
    mine = max(short.values(), key=len)
    if len(mine) < limits.repeats or not _disturbs(seen, mine, limits):
        return
    rebalances, gap_ms = _caused(seen.past, mine)
    stays = sorted(each.stay_ms or 0 for each in mine)
    ids = sorted({each.client_id for each in mine})
    who = mine[-1].where if len(ids) == 1 else _client(mine[0])[0]
    if who == _ANY:  # says nothing to a reader
        who = f"{names(ids, most=3)} at {mine[0].client_host}"
    gaps = f", {length(gap_ms)} without commits in all" if gap_ms else ""
    yield Evidence(
        Severity.WARNING,
        f"{who} came and went {len(mine)} times, each time for about {length(median(stays))}:"
        f" {plural(rebalances, 'rebalance')} in the last {length(seen.at_ms - (mine[0].start_ms or 0))}",
        f"each is a rebalance of all members{gaps}",
        "look at its log: it fails or is restarted soon after it has joined; stop it until it is mended",
        _SURE if len(mine) > limits.repeats else _LIKELY,
    )


def _disturbs(seen: Observation, mine: Sequence[PastMembership], limits: Thresholds) -> bool:
    """Return whether others are rebalanced with it; a job that starts alone, works off and stops harms nobody."""
    assert seen.past is not None
    crowd = {each.seq: each.members for each in seen.past.generations}
    if any(crowd.get(each.first_seq, 0) > 1 for each in mine):
        return True
    return sum(each.lag or 0 for each in seen.lag or ()) >= limits.lag_records


def _caused(past: Past, mine: Iterable[PastMembership]) -> tuple[int, int]:
    """Return how many rebalances these memberships were, and the gaps between commits around them."""
    seqs = {seq for each in mine for seq in (each.first_seq, each.last_seq + 1)}
    of_storms = {
        seq
        for storm in _storms(past)
        for seq in range(storm.first_seq, storm.last_seq + 1)
        if storm.first_seq <= max(seqs) and storm.last_seq >= min(seqs)
    }
    found = [each for each in past.generations if each.seq in seqs | of_storms]
    return len(found), sum(each.gap_ms for each in found)


def _by_instance(found: Iterable[PastMembership]) -> Mapping[str, list[PastMembership]]:
    by_id: defaultdict[str, list[PastMembership]] = defaultdict(list)
    for each in found:
        if each.instance_id:
            by_id[each.instance_id].append(each)
    return by_id


def _twins(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    """Find instance ids whose members replace each other: a restart replaces once, twins do so in turn."""
    replaced = [e for e in _ended(seen, limits) if e.reason == Cause.STATIC_REPLACED]
    for instance_id, mine in _by_instance(replaced).items():
        every = _by_instance(seen.past.memberships if seen.past else ())[instance_id]
        places = [each.where for each in every]
        changes = sum(a != b for a, b in pairwise(places))
        if len(mine) < limits.repeats:
            continue
        both = sorted(set(places))
        in_turn = changes >= limits.repeats and len(both) <= changes
        if not in_turn and len(both) > 1:
            continue  # each time another place: a deployment
        lasted = length((mine[-1].end_ms or 0) - (mine[0].end_ms or 0))
        who = (
            names(both)
            if len(both) > 1
            else f"the coordinator has it at {both[0]}, and keeps the host of the first"
        )
        yield Evidence(
            Severity.CRITICAL if in_turn else Severity.WARNING,
            f"group.instance.id {instance_id} was taken over {len(mine)} times within {lasted}: {who}",
            "each take-over fences the other process: it stops with FENCED_INSTANCE_ID, and what it has not committed is read twice",
            "give each process its own group.instance.id"
            if in_turn
            else "give each process its own group.instance.id if two have this one; else look why this one restarts",
            _SURE if in_turn else _EITHER,
        )


def _poll_exceeded(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    """Find members that left by themselves after max.poll.interval.ms, as librdkafka and Java do: the history tells them."""
    by_client: defaultdict[tuple[str, str], list[PastMembership]] = defaultdict(list)
    for each in _ended(seen, limits):
        if each.reason == Cause.POLL_TIMEOUT or _may_be_either(each):
            by_client[each.client_id, each.client_host].append(each)
    for mine in by_client.values():
        last = mine[-1]
        poll_ms, silent_ms = last.poll_ms or 0, max(each.silence_ms or 0 for each in mine)
        either = all(_may_be_either(each) for each in mine)
        again = f" {len(mine)} times" if len(mine) > 1 else ""
        yield Evidence(
            Severity.WARNING,
            f"{last.where} was gone{again} {length(silent_ms)} after its last commit;"
            f" its max.poll.interval.ms is {poll_ms}"
            + (f", its session.timeout.ms {last.session_ms}" if either else ""),
            "its records are read again by the next owner, and each time is two rebalances",
            "either of two: work that takes too long, then lower max.poll.records or raise"
            f" max.poll.interval.ms to {2 * poll_ms}; or a process that stopped, then look why"
            if either
            else f"lower max.poll.records, or raise max.poll.interval.ms to {2 * poll_ms} or more;"
            " or process records apart from poll",
            _EITHER if either else max(each.confidence or _LIKELY for each in mine),
        )


def _may_be_either(member: PastMembership) -> bool:
    """Return whether a session timed out, or max.poll.interval.ms was exceeded: the two timeouts are too much alike to tell."""
    if member.instance_id or member.reason != Cause.EXPIRY or member.confidence is None:
        return False
    poll_ms, session_ms, silence_ms = member.poll_ms, member.session_ms, member.silence_ms
    if poll_ms is None or session_ms is None or silence_ms is None:
        return False
    return member.confidence < _MAYBE and session_ms < poll_ms <= min(2 * session_ms, silence_ms)


def _short_session(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    """Find clients that expire and are back again and again, as after pauses of the process or its network.

    Clients that do so once each are a deployment whose processes are killed.
    """
    by_client: defaultdict[str, list[tuple[PastMembership, int]]] = defaultdict(list)
    for each in _ended(seen, limits):
        if each.reason == Cause.EXPIRY and not _may_be_either(each):
            back_ms = _back_after(seen, each)
            if back_ms is not None:
                pause_ms = back_ms + (each.silence_ms or each.session_ms or 0)
                by_client[each.where].append((each, pause_ms))
    again = [found for found in by_client.values() if len(found) >= limits.repeats - 1]
    mine = [each for found in again for each, _ in found]
    pauses = [pause_ms for found in again for _, pause_ms in found]
    if not pauses:
        return
    change = _longer_session(seen, max(pauses))
    if change is None:
        return
    setting, price, pays = change
    now = Counter(each.session_ms for each in mine if each.session_ms).most_common(1)
    has = f" with session.timeout.ms={now[0][0]}" if now else ""
    who = sorted({each.where for each in mine})
    yield Evidence(
        Severity.WARNING if pays else Severity.NOTICE,
        f"{plural(len(pauses), 'time')} a member expired and was back: {names(who)};"
        f" away for {length(min(pauses))} to {length(max(pauses))}{has}",
        f"{plural(2 * len(pauses), 'rebalance')}, and records that are read twice",
        f"{setting}, which outlasts these pauses; {price}"
        if pays
        else f"look why it pauses: {setting} would outlast that, but {price}",
        _LIKELY,
    )


def _longer_session(seen: Observation, pause_ms: int) -> tuple[str, str, bool] | None:
    """Return the setting that outlasts pauses, its price, and whether it pays: as the history advises, if it does."""
    assert seen.past is not None
    for each in seen.past.advice:
        if each.advice == LONGER_SESSION:
            price = (
                f"partitions would have stood still for {length(each.added_ms)} because of it,"
                f" and for {length(each.spared_ms)} less without those rebalances"
            )
            return each.setting, price, each.added_ms <= each.spared_ms
    enough = next((each for each in SESSIONS_MS if each > pause_ms), None)
    if enough is None:
        return None
    price = f"the price: after a crash its partitions wait for up to {length(enough)}"
    return f"session.timeout.ms={enough}", price, True


def _back_after(seen: Observation, gone: PastMembership) -> int | None:
    """Return how long after the end of a membership the same client was back; None if it was not."""
    assert seen.past is not None
    assert gone.end_ms is not None
    starts = [
        each.start_ms - gone.end_ms
        for each in seen.past.memberships
        if (each.client_id, each.client_host) == (gone.client_id, gone.client_host)
        and each.start_ms is not None
        and each.start_ms >= gone.end_ms
    ]
    return min(starts, default=None)


def _mixed_assignors(seen: Observation, limits: Thresholds) -> Iterator[Evidence]:
    """Find groups whose assignor changes back and forth with who is in them."""
    if seen.past is None:
        return
    chosen = [e.assignor for e in seen.past.generations if e.assignor and e.members]
    runs = [each for place, each in enumerate(chosen) if place == 0 or chosen[place - 1] != each]
    if len(runs) <= limits.repeats - 1 or len(set(runs)) < 2:
        return
    yield Evidence(
        Severity.WARNING,
        f"the assignor went {' -> '.join(runs[-4:])}: members offer different lists",
        "with each change all partitions may move, and cooperative members stop as eager ones do",
        "set the same partition.assignment.strategy for all members",
        _LIKELY,
    )


RULES = (
    Rule(
        "flapping_member",
        Severity.WARNING,
        "a client that joins and is gone within a minute, again and again",
        "each time is two rebalances of all members",
        "find out why it stops; keep it out until then",
        _flapping,
    ),
    Rule(
        "static_twins",
        Severity.CRITICAL,
        "members of one group.instance.id that replace each other in turn",
        "they fence each other, and records are read twice",
        "a group.instance.id of its own for each process",
        _twins,
    ),
    Rule(
        "poll_interval_exceeded",
        Severity.WARNING,
        "a member that was gone max.poll.interval.ms after its last commit",
        "its records are read again, each time is two rebalances",
        "lower max.poll.records, or raise max.poll.interval.ms",
        _poll_exceeded,
    ),
    Rule(
        "session_too_short",
        Severity.WARNING,
        "a client that expires and is back, again and again",
        "two rebalances for each pause",
        "a session.timeout.ms that outlasts the pauses, at the price of a later take-over after a crash",
        _short_session,
    ),
    Rule(
        "mixed_assignors",
        Severity.WARNING,
        "an assignor that changes back and forth",
        "all partitions may move with each change",
        "the same partition.assignment.strategy for all members",
        _mixed_assignors,
    ),
)
