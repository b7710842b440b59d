"""Tell of members that are gone whether they left or their sessions timed out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log
from typing import Final, NamedTuple

from groupsdk.history.groups.causes import Cause
from groupsdk.history.groups.commit_spans import Spans
from groupsdk.history.groups.moves import named
from groupsdk.history.groups.row_types import DepartureRow


DEFAULT_SESSION_TIMEOUT_MS: Final = 45_000
"""Kafka's own, of a member of a newer protocol: its session timeout is the broker's to know."""
_SURE, _LIKELY, _GUESS = 0.9, 0.7, 0.4
_EARLY_MS: Final = 100
"""By how much a session may seem to end early: a record is written a little after the timer was set."""
_ANSWERS: Final = 3
"""How often members answer within a session timeout at the least."""
_LONG: Final = 3
"""A silence of so many session timeouts tells nothing of a member that never committed regularly."""
_MISSED: Final = 3
"""After so many commits that did not come a member is silent."""
_SILENT_MS: Final = 1_000
_ENOUGH: Final = 2
"""So many members that fell silent for about as long before they went tell how long sessions last."""
_ALIKE: Final = 1.25
"""By which factor those times may differ: a member may have answered a heartbeat after it last committed."""
_BEHIND_MS: Final = 5_000
"""How long a member of unknown session may take to come to an epoch: Kafka's interval of heartbeats."""
SKEW_MS: Final = 1_000
"""By how much the clocks of two brokers may differ, where the coordinator moved."""
_LATE_MS: Final = 50
"""By how much a record may be older than the line that the coordinator wrote of it."""


class LoggedDeparture(NamedTuple):
    """What a broker's log says of a member that is gone."""

    member_id: str
    ts_ms: int
    reason: str


class Departure(NamedTuple):
    """Why a member is gone."""

    member_id: str
    client_id: str
    reason: str
    """"leave" or "expiry"."""
    confidence: float
    silence_ms: int | None


@dataclass(frozen=True, slots=True)
class Silence:
    """What the log tells of a member up to its end; times in milliseconds, None where it does not tell."""

    row: DepartureRow
    ts_ms: int | None
    before_ms: int | None
    """When the timers began to run in the generation before."""
    silence_ms: int | None
    own_ms: float | None
    """How often the member committed."""
    others_ms: float | None
    """How often any of the group did."""
    interrupted: bool
    """The coordinator changed meanwhile."""


def silence_of(
    row: DepartureRow,
    spans: Spans,
    names: Mapping[str, str],
    *,
    before_ms: int | None,
    interrupted: bool,
) -> Silence:
    """Measure for how long a member was silent before it went.

    Args:
        row: of the member.
        spans: of the generation before.
        names: of topics, by their ids.
        before_ms: when the timers began to run in the generation before; None: it is not known.
        interrupted: the coordinator changed as the member went.
    """
    ts_ms = row.ts_ms if row.ts_ms >= 0 else None
    last_ms: int | None = None
    own_ms: float | None = None
    # the names of topics do not matter to members of the classic protocol, whose records have them
    for topic, numbers in named(row.member.assigned, row.protocol, names):
        for number in numbers:
            span = spans.get((topic, number))
            # where a static member was replaced the span goes on, and its end is another member's
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
    return Silence(row, ts_ms, before_ms, silence_ms, own_ms, others_ms, interrupted)


def _least(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def silence_size(silence: Silence) -> tuple[int, int] | None:
    """Return what a silence tells of how long sessions last: its order of magnitude and its length; None: nothing."""
    length, own = silence.silence_ms, silence.own_ms
    if (
        silence.row.member.session_timeout_ms >= 0
        or length is None
        or length < _SILENT_MS
        or own is None
        or length <= _MISSED * own
        or silence.interrupted
    ):
        return None
    return floor(log(length) / log(_ALIKE)), length


def learned_session_timeout(sizes: Iterable[tuple[int, int]]) -> int | None:
    """Learn how long sessions last from those that fell silent; None where too few did for about as long.

    A member that committed regularly and dies is silent for as long as its session lasts. Where several were silent for
    about as long, that is it. A member that leaves commits shortly before.
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
    silence: Silence, *, session_timeout_ms: int | None, learnt_ms: int | None
) -> Departure:
    """Tell why a member is gone.

    A session cannot end before its timeout is over since the last commit, or since the last generation began (since
    its last answer, in a group of a newer protocol): a member that went earlier has left. Of one that was silent
    for longer its habits decide. It died where it, or at least its group, used to commit more often than that;
    where it is static, for those do not say that they leave; where it never came to the last epoch; and where its
    client had come again while it was still there. But a silence that is longer than any rebalance takes is
    that of a member that lives and has nothing to commit, unless there was no coordinator for a time. The confidence
    says how far that goes.

    Args:
        silence: what the log tells of it.
        session_timeout_ms: of members whose records do not say; None: it is not known.
        learnt_ms: of `learned_session_timeout`.
    """
    row = silence.row
    timeout = row.member.session_timeout_ms
    known = True
    if timeout < 0:
        known = session_timeout_ms is not None
        timeout = session_timeout_ms or learnt_ms or DEFAULT_SESSION_TIMEOUT_MS
    learnt = not known and learnt_ms is not None
    assumed = not known and learnt_ms is None
    reason, confidence = _verdict(silence, timeout, assumed=assumed, learnt=learnt)
    member = row.member
    return Departure(
        member.member_id, member.client_id, str(reason), confidence, silence.silence_ms
    )


def _verdict(silence: Silence, timeout: int, *, assumed: bool, learnt: bool) -> tuple[Cause, float]:
    row, length, own = silence.row, silence.silence_ms, silence.own_ms
    static = row.member.instance_id is not None
    early = timeout - min(_EARLY_MS, timeout / 10)
    is_early = length is not None and length < early
    # where a static member says that it is away for a while its session goes on, from before it said so
    if static and row.behind:
        return Cause.EXPIRY, _SURE
    epoch_ms = _since(silence)
    # of a session that nobody knows the length of, the member's own habits tell all
    if assumed:
        found = _by_habits(silence, epoch_ms, static=static)
        if found is not None:
            return found
    if learnt and length is not None and own is not None and length <= _MISSED * own:
        return Cause.LEAVE, _SURE
    if assumed and _is_idle(silence):
        # while the others worked it did not, and it did not commit as it went
        return Cause.EXPIRY, _GUESS
    if is_early:
        return Cause.LEAVE, _GUESS if assumed else _LIKELY if learnt else _SURE
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


def _of_the_silent(silence: Silence, timeout: int, epoch_ms: int | None) -> tuple[Cause, float]:
    row, length, own = silence.row, silence.silence_ms, silence.own_ms
    interrupted = silence.interrupted
    # timers stand still without a coordinator, and nobody can answer it; then those that died meanwhile go
    if row.behind and epoch_ms is not None and epoch_ms >= timeout / _ANSWERS and not interrupted:
        return Cause.EXPIRY, _SURE
    habit = own if own is not None else silence.others_ms
    regular = habit is not None and habit < timeout
    # a dead member holds a rebalance up no longer than this
    longest = timeout + max(row.member.rebalance_timeout_ms, timeout) + 2 * (own or 0)
    timely = length is not None and length <= longest and not interrupted
    if regular and own is not None and timely:
        return Cause.EXPIRY, _SURE
    if (regular and (timely or interrupted)) or row.superseded:
        return Cause.EXPIRY, _LIKELY
    if interrupted or (length is not None and length <= _LONG * timeout):
        return Cause.EXPIRY, _GUESS
    return Cause.LEAVE, _GUESS


def with_logged_departure(
    departure: Departure, silence: Silence, told: Sequence[LoggedDeparture]
) -> Departure:
    """Take over what the coordinator said of a member as it went: one that comes back may go several times."""
    if silence.ts_ms is None:
        return departure
    latest: LoggedDeparture | None = None
    for each in told:
        if each.member_id != departure.member_id or each.ts_ms > silence.ts_ms + _LATE_MS:
            continue
        if silence.before_ms is not None and each.ts_ms < silence.before_ms - SKEW_MS:
            continue
        if latest is None or each.ts_ms > latest.ts_ms:
            latest = each
    if latest is None:
        return departure
    return departure._replace(reason=latest.reason, confidence=1.0)
