"""Say why a generation came and how sure that is, from the records and from what the brokers' logs say."""

from collections.abc import Iterable, Sequence, Set
from typing import Final, NamedTuple

from groupsdk.history.groups.causes import CONFIDENCE, MISSING_FACTOR, Cause, in_order
from groupsdk.history.groups.departing import SKEW_MS, Departure


LOG: Final = "log"
"""Evidence: the groups' own records."""
BROKER_LOG: Final = "broker_log"
"""Evidence: the reason that the coordinator gave in its log."""
_FULL: Final = 1.0


class ToldReason(NamedTuple):
    """What a broker's log says of a generation."""

    generation: int
    ts_ms: int
    reason: str
    cause: str | None
    """None: the reason is not a known one."""
    compatible: Sequence[str]
    """The causes that agree with it."""


class Verdict(NamedTuple):
    """Why a generation came."""

    primary: str
    causes: list[str]
    confidence: float | None
    evidence: str


def verdict_of(
    causes: Set[Cause],
    departures: Sequence[Departure],
    lost: float | None,
    *,
    has_hole: bool,
) -> Verdict:
    """Say why a generation came, as the records tell.

    Args:
        causes: all of them.
        departures: of the members that are gone in it.
        lost: how sure it is that clients had no coordinator; None: they had one.
        has_hole: generations are missing before it.
    """
    ordered = in_order(causes)
    primary = ordered[0] if ordered else Cause.UNKNOWN
    confidence: float | None
    if primary in (Cause.LEAVE, Cause.EXPIRY):
        confidence = max((each.confidence for each in departures), default=None)
    elif primary == Cause.COORDINATOR_RESTART:
        confidence = lost
    else:
        confidence = CONFIDENCE[primary]
    if confidence is not None and has_hole:
        confidence *= MISSING_FACTOR
    return Verdict(str(primary), [str(each) for each in ordered], confidence, LOG)


def with_reason(verdict: Verdict, told: ToldReason) -> Verdict:
    """Take the coordinator's own reason over; what the log tells more closely than it does stays."""
    if told.cause is None:
        return verdict
    agrees = verdict.primary in told.compatible
    primary = verdict.primary if agrees else told.cause
    # where it only does not contradict, what was told from the records is as sure as it was
    sure = told.cause == verdict.primary or not agrees
    causes = in_order({*(Cause(each) for each in verdict.causes), Cause(primary)})
    return Verdict(
        primary,
        [str(each) for each in causes],
        _FULL if sure else verdict.confidence,
        BROKER_LOG,
    )


def reason_of(
    told: Iterable[ToldReason], generation: int, ts_ms: int, previous_ms: int | None
) -> ToldReason | None:
    """Find the coordinator's own reason for a generation.

    Numbers come again, as when a group is deleted and made again: the reason was given since the generation before.

    Args:
        told: of the group.
        generation: its number.
        ts_ms: when its record was written.
        previous_ms: when that of the generation before was written; None: it is not known.
    """
    latest: ToldReason | None = None
    for each in told:
        if each.generation != generation or each.ts_ms > ts_ms:
            continue
        if previous_ms is not None and each.ts_ms < previous_ms - SKEW_MS:
            continue
        if latest is None or each.ts_ms > latest.ts_ms:
            latest = each
    return latest
