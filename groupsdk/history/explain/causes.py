"""Decide the cause of a generation and its confidence, from the records and the brokers' logs."""

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf
from typing import Final, NamedTuple

from groupsdk.history.explain.changes import CONFIDENCE, MISSING_FACTOR, Cause, in_order
from groupsdk.history.explain.departures import SKEW_MS, Departure
from groupsdk.history.explain.timeline.rows import GenerationRow
from groupsdk.history.times import valid_ms


LOG: Final = "log"
"""Evidence: the groups' own records."""
BROKER_LOG: Final = "broker_log"
"""Evidence: the reason that the coordinator gave in its log."""
_FULL: Final = 1.0
RECOVERY_MS: Final = 120_000
"""Clients that lost their membership while there was no coordinator are back within this time after it changed."""
WORKING_MS: Final = 60_000
"""A group that has committed for this long under the new coordinator has recovered: a single commit may be the last of old members."""
_ALONE: Final = 0.5
"""The confidence if nothing else in the log shows when the coordinator took over."""


class LoggedReason(NamedTuple):
    """The reason for a generation in a broker's log."""

    group_id: str
    generation: int
    ts_ms: int
    reason: str
    cause: str | None
    """None: the text is not a known reason."""
    compatible: Sequence[str]
    """The causes that are compatible with it."""


class CauseDecision(NamedTuple):
    primary: str
    causes: list[str]
    confidence: float | None
    evidence: str


def lost_coordinator(
    row: GenerationRow,
    took_over: Mapping[tuple[int, int], int],
    working: Mapping[tuple[int, int], int],
) -> float | None:
    """Return the confidence that clients rejoined because they had no coordinator; None if they did not.

    A client that cannot reach its coordinator for a whole session timeout gives up its membership, and rejoins with
    another member id when the coordinator is back. In the log that looks like a restart of the client. It was none
    if the coordinator had just changed and the group had not resumed committing under the new one. Both times are in
    milliseconds, by partition and leader epoch.
    """
    if not row.coordinator_changed or Cause.CLIENT_RESTART not in row.causes:
        return None
    ts_ms = valid_ms(row.ts_ms)
    if ts_ms is None:
        return None
    place = row.partition, row.leader_epoch
    since, first_ms = took_over.get(place), working.get(place)
    if since is None or ts_ms - since > RECOVERY_MS:
        return None
    if first_ms is not None and ts_ms - first_ms >= WORKING_MS:
        return None
    return _ALONE if since >= ts_ms else CONFIDENCE[Cause.COORDINATOR_RESTART]


def decide_cause(
    causes: Set[Cause],
    departures: Sequence[Departure],
    lost: float | None,
    *,
    has_hole: bool,
) -> CauseDecision:
    """Decide the cause of a generation from the records; `lost` is the confidence that clients had no coordinator."""
    ordered = in_order(causes)
    primary = ordered[0] if ordered else Cause.UNKNOWN
    confidence: float | None
    if primary in (Cause.LEAVE, Cause.EXPIRY, Cause.POLL_TIMEOUT):
        confidence = max((each.confidence for each in departures), default=None)
    elif primary == Cause.COORDINATOR_RESTART:
        confidence = lost
    else:
        confidence = CONFIDENCE[primary]
    if confidence is not None and has_hole:
        confidence *= MISSING_FACTOR
    return CauseDecision(str(primary), [str(each) for each in ordered], confidence, LOG)


def with_reason(verdict: CauseDecision, logged: LoggedReason) -> CauseDecision:
    """Return the decision with the coordinator's own reason, `logged`, applied to `verdict`, unless the records are more precise."""
    if logged.cause is None:
        return verdict
    agrees = verdict.primary in logged.compatible
    primary = verdict.primary if agrees else logged.cause
    # a reason that is merely compatible does not raise the confidence
    sure = logged.cause == verdict.primary or not agrees
    causes = in_order({*(Cause(each) for each in verdict.causes), Cause(primary)})
    return CauseDecision(
        primary,
        [str(each) for each in causes],
        _FULL if sure else verdict.confidence,
        BROKER_LOG,
    )


def logged_reason(
    logged: Iterable[LoggedReason], generation: int, ts_ms: int, previous_ms: int | None
) -> LoggedReason | None:
    """Find the coordinator's own reason for a generation, logged after the previous one: generation numbers repeat."""
    since_ms = -inf if previous_ms is None else previous_ms - SKEW_MS
    mine = (each for each in logged if each.generation == generation)
    fitting = (each for each in mine if since_ms <= each.ts_ms <= ts_ms)
    return max(fitting, key=lambda each: each.ts_ms, default=None)
