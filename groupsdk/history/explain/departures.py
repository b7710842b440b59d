"""Decide whether members that are gone left or timed out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, log
from typing import Final, NamedTuple

from groupsdk.history.explain.assignments import named
from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.commit_spans import Spans
from groupsdk.history.explain.timeline.member import CLASSIC, CONSUMER
from groupsdk.history.explain.timeline.rows import DepartureRow


DEFAULT_SESSION_TIMEOUT_MS: Final = 45_000
"""Kafka's default for the newer protocols, whose session timeout is set at the broker."""
_SURE, _LIKELY, _GUESS = 0.9, 0.7, 0.4
_EARLY_MS: Final = 100
"""How much too early a session may seem to end: a record is written a little after the timer was set."""
_ANSWERS: Final = 3
"""The least number of answers within a session timeout."""
_LONG: Final = 3
"""A silence of this many session timeouts is no evidence for a member that never committed regularly."""
_MISSED: Final = 3
"""A member is silent after this many missed commits."""
_SILENT_MS: Final = 1_000
_ENOUGH: Final = 2
"""This many members that were silent for about as long before they were gone determine the session timeout."""
_ALIKE: Final = 1.25
"""The factor by which those times may differ: a member may have heartbeated after its last commit."""
_BEHIND_MS: Final = 5_000
"""How long a member of unknown session timeout may take to reach an epoch: Kafka's heartbeat interval."""
_TOLD_APART: Final = 1.5
"""If a member may go this many times as long without polling as without heartbeats its silence shows which was too long."""
_REJOINED_MS: Final = 5_000
"""How long the other members of a group may take to rejoin, typically."""
SKEW_MS: Final = 1_000
"""How much the clocks of two brokers may differ, if the coordinator moved."""
LATE_MS: Final = 50
"""How much older a record may be than the coordinator's log line about it."""


class LoggedDeparture(NamedTuple):
    """The departure of a member in a broker's log."""

    group_id: str
    member_id: str
    ts_ms: int
    reason: str


class Departure(NamedTuple):
    """Why a member is gone; `silence_ms` is how long it had not committed, None if the log does not show it."""

    member_id: str
    client_id: str
    reason: str
    """"leave", "expiry" or "poll_timeout"."""
    confidence: float
    silence_ms: int | None


@dataclass(frozen=True, slots=True)
class Silence:
    """The evidence about a departed member; times in milliseconds, None if the log does not show them."""

    row: DepartureRow
    ts_ms: int | None
    before_ms: int | None
    """When the session timers began to run in the previous generation."""
    silence_ms: int | None
    own_ms: float | None
    others_ms: float | None
    """The commit intervals: the member's, and the shortest in the group."""
    interrupted: bool
    """The coordinator changed as the member was gone."""
    is_unnamed: bool = False
    """Some of its partitions are of topics whose name is not known: it may have committed them."""

    @property
    def may_stay_silent(self) -> bool:
        """Whether a client that does not poll in time may stop its heartbeats without leaving."""
        return self.row.member.instance_id is not None or self.row.protocol != CLASSIC


def silence_of(
    row: DepartureRow,
    spans: Spans,
    names: Mapping[str, str],
    *,
    before_ms: int | None,
    interrupted: bool,
) -> Silence:
    """Measure how long a member was silent before it was gone; `before_ms`: when the previous generation's session timers began."""
    ts_ms = row.ts_ms if row.ts_ms >= 0 else None
    last_ms: int | None = None
    own_ms: float | None = None
    # records of classic groups have topic names already
    assigned = named(row.member.assigned, row.protocol, names)
    known = {topic for topic, _ in spans}
    is_unnamed = row.protocol == CONSUMER and any(
        topic not in known and topic == topic_id
        for (topic, _), (topic_id, _) in zip(assigned, row.member.assigned, strict=True)
    )
    for topic, numbers in assigned:
        for number in numbers:
            span = spans.get((topic, number))
            # after a static member is replaced its successor's commits extend the span
            if span is None or span.last_ms is None or ts_ms is None or span.last_ms > ts_ms:
                continue
            last_ms = span.last_ms if last_ms is None else max(last_ms, span.last_ms)
            own_ms = _least(own_ms, span.interval_ms)
    others_ms: float | None = None
    for span in spans.values():
        others_ms = _least(others_ms, span.interval_ms)
    answered = row.alive_ms if row.alive_ms >= 0 else before_ms
    heard = [each for each in (last_ms, answered) if each is not None]
    silence_ms = ts_ms - max(heard) if heard and ts_ms is not None else None
    return Silence(row, ts_ms, before_ms, silence_ms, own_ms, others_ms, interrupted, is_unnamed)


def _least(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def silence_size(silence: Silence) -> tuple[int, int] | None:
    """Return the order of magnitude and length of a silence, as evidence of the session timeout; None if it is no evidence."""
    length, own = silence.silence_ms, silence.own_ms
    if (
        silence.row.member.session_timeout_ms >= 0
        or length is None
        or length < _SILENT_MS
        or own is None
        or length <= _MISSED * own
        or silence.interrupted
        # it may have stopped polling, which ends a membership later
        or 0 < silence.row.member.rebalance_timeout_ms <= length + own
    ):
        return None
    return floor(log(length) / log(_ALIKE)), length


def learned_session_timeout(sizes: Iterable[tuple[int, int]]) -> int | None:
    """Return the session timeout in milliseconds; None if too few silences are about equally long.

    A member that committed regularly and dies is silent for its session timeout. A member that leaves commits shortly before.
    """
    counts: Counter[int] = Counter()
    shortest: dict[int, int] = {}
    for size, length in sizes:
        counts[size] += 1
        shortest[size] = min(shortest.get(size, length), length)
    alike = {size: counts[size] + counts.get(size + 1, 0) for size in counts}
    enough = [size for size, many in alike.items() if many >= _ENOUGH]
    if not enough:
        return None
    return shortest[max(enough, key=lambda size: (alike[size], -size))]


def classify_departure(
    silence: Silence, *, session_timeout_ms: int | None, learned_session_timeout_ms: int | None
) -> Departure:
    """Decide why a member is gone, and with which confidence.

    A session cannot expire before its timeout has passed since the last commit, or since the last generation began
    (in a group of a newer protocol: since its last answer), so a member gone earlier has left. A member that was
    silent for longer died if it, or at least its group, used to commit more often than that; if it is static, as
    static members do not send LeaveGroup; if it never reached the last epoch; or if its client had joined again
    while it was still there. But a silence longer than any rebalance takes is that of a live member with nothing
    to commit, unless there was no coordinator for a time. `session_timeout_ms` is for members whose records do not have it.
    """
    row = silence.row
    timeout = row.member.session_timeout_ms
    known = True
    if timeout < 0:
        known = session_timeout_ms is not None
        timeout = session_timeout_ms or learned_session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS
    learned = not known and learned_session_timeout_ms is not None
    assumed = not known and learned_session_timeout_ms is None
    reason, confidence = _verdict(silence, timeout, assumed=assumed, learned=learned)
    member = row.member
    return Departure(
        member.member_id, member.client_id, str(reason), confidence, silence.silence_ms
    )


def _verdict(
    silence: Silence, timeout: int, *, assumed: bool, learned: bool
) -> tuple[Cause, float]:
    row, length, own = silence.row, silence.silence_ms, silence.own_ms
    static = row.member.instance_id is not None
    early = timeout - min(_EARLY_MS, timeout / 10)
    is_early = length is not None and length < early
    # a static member that leaves for a while keeps its session, which began before that
    if static and row.behind:
        return Cause.EXPIRY, _SURE
    polled = _poll_timeout(silence, timeout, assumed=assumed)
    if polled is not None:
        return polled
    epoch_ms = _since(silence)
    # without a known session timeout only the member's habits count
    if assumed:
        found = _by_habits(silence, epoch_ms, static=static)
        if found is not None:
            return found
    if learned and length is not None and own is not None and length <= _MISSED * own:
        return Cause.LEAVE, _SURE
    if assumed and _is_idle(silence):
        # while the others worked it did not, and it did not commit as it went
        return Cause.EXPIRY, _GUESS
    if is_early:
        return Cause.LEAVE, _GUESS if assumed else _LIKELY if learned else _SURE
    if static:
        return Cause.EXPIRY, _SURE
    return _of_the_silent(silence, timeout, epoch_ms)


def _since(silence: Silence) -> int | None:
    if silence.ts_ms is None or silence.before_ms is None:
        return None
    return silence.ts_ms - silence.before_ms


def _by_habits(
    silence: Silence, epoch_ms: int | None, *, static: bool
) -> tuple[Cause, float] | None:
    length, own = silence.silence_ms, silence.own_ms
    if static:
        return Cause.EXPIRY, _LIKELY
    if length is not None and own is not None:
        if length > _MISSED * own and length >= _SILENT_MS:
            return Cause.EXPIRY, _LIKELY
        if length <= _MISSED * own:
            return Cause.LEAVE, _SURE
    if silence.row.behind and epoch_ms is not None and epoch_ms >= _BEHIND_MS:
        return Cause.EXPIRY, _LIKELY
    return None


def _is_idle(silence: Silence) -> bool:
    length, others = silence.silence_ms, silence.others_ms
    return (
        silence.own_ms is None
        and length is not None
        and others is not None
        and length > _MISSED * others
        and length >= _SILENT_MS
    )


def _poll_timeout(silence: Silence, timeout: int, *, assumed: bool) -> tuple[Cause, float] | None:
    """Decide whether a member that used to commit stopped for as long as it may go without polling.

    Clients send their `max.poll.interval.ms` as the rebalance timeout (KIP-62), and heartbeat until it is over. Then a client
    leaves; a static one, and librdkafka in the newer protocols, stops its heartbeats and is expelled a session later.
    """
    row, length = silence.row, silence.silence_ms
    # one that committed once since the last rebalance has the habits of the others
    habit = silence.own_ms if silence.own_ms is not None else silence.others_ms
    told = Cause.POLL_TIMEOUT, _LIKELY if assumed or silence.own_ms is None else _SURE
    allowed = row.member.rebalance_timeout_ms
    # a client that sends its session timeout keeps its poll interval to itself
    is_known = allowed > row.member.session_timeout_ms
    if length is None or habit is None or not is_known or silence.interrupted:
        return None
    if length <= _MISSED * habit:
        return None
    # the last commit is up to an interval away from the last poll, and the others need time to rejoin
    late_ms = 2 * habit + _REJOINED_MS
    if (
        silence.may_stay_silent
        and allowed + timeout - habit <= length <= allowed + timeout + late_ms
    ):
        return told
    static = row.member.instance_id is not None
    if static or not allowed - habit <= length <= allowed + late_ms:
        return None
    if assumed or allowed > _TOLD_APART * timeout:
        return told
    # a session of about the same length may have timed out instead
    return (Cause.EXPIRY, _GUESS) if length >= timeout else None


def _of_the_silent(silence: Silence, timeout: int, epoch_ms: int | None) -> tuple[Cause, float]:
    row, length, own = silence.row, silence.silence_ms, silence.own_ms
    interrupted = silence.interrupted
    # without a coordinator timers stop and nobody can answer; members that died meanwhile expire afterwards
    if row.behind and epoch_ms is not None and epoch_ms >= timeout / _ANSWERS and not interrupted:
        return Cause.EXPIRY, _SURE
    habit = own if own is not None else silence.others_ms
    regular = habit is not None and habit < timeout
    # a dead member delays a rebalance no longer than this
    longest = timeout + max(row.member.rebalance_timeout_ms, timeout) + 2 * (own or 0)
    timely = length is not None and length <= longest and not interrupted
    if regular and own is not None and timely:
        return Cause.EXPIRY, _SURE
    # commits of unnamed topics may be its own, so those of others are no evidence
    likely = regular and (timely or interrupted) and not silence.is_unnamed
    if likely or row.superseded:
        return Cause.EXPIRY, _LIKELY
    if interrupted or (length is not None and length <= _LONG * timeout):
        return Cause.EXPIRY, _GUESS
    return Cause.LEAVE, _GUESS


def with_logged_departure(
    departure: Departure, silence: Silence, logged: Sequence[LoggedDeparture]
) -> Departure:
    """Return the departure with the reason of the coordinator's log: that of its latest line about the member, if any."""
    if silence.ts_ms is None:
        return departure
    since_ms = -inf if silence.before_ms is None else silence.before_ms - SKEW_MS
    until_ms = silence.ts_ms + LATE_MS
    mine = (each for each in logged if each.member_id == departure.member_id)
    fitting = (each for each in mine if since_ms <= each.ts_ms <= until_ms)
    latest = max(fitting, key=lambda each: each.ts_ms, default=None)
    if latest is None:
        return departure
    is_explained = latest.reason == Cause.LEAVE or silence.may_stay_silent
    if departure.reason == Cause.POLL_TIMEOUT and is_explained:
        # the coordinator does not hear why
        return departure._replace(confidence=max(departure.confidence, _SURE))
    return departure._replace(reason=latest.reason, confidence=1.0)
