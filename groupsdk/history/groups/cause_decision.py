"""Say why a generation came and how sure that is, from the records and from what the brokers' logs say."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

from groupsdk.history.groups.causes import CONFIDENCE, MISSING_FACTOR, Cause, in_order
from groupsdk.history.groups.departures import SKEW_MS, Departure
from groupsdk.history.groups.row_types import GenerationRow
from groupsdk.history.kernel.columns import valid_ms


LOG: Final = "log"
"""Evidence: the groups' own records."""
BROKER_LOG: Final = "broker_log"
"""Evidence: the reason that the coordinator gave in its log."""
_FULL: Final = 1.0
RECOVERY_MS: Final = 120_000
"""Within so long after another coordinator took over, clients that had lost their places are back."""
WORKING_MS: Final = 60_000
"""A group that commits for so long under the new coordinator has got over it: one commit may be the last of old members."""
_ALONE: Final = 0.5
"""The confidence where nothing else in the log tells when the coordinator took over."""


class LoggedReason(NamedTuple):
    """What a broker's log says of a generation."""

    generation: int
    ts_ms: int
    reason: str
    cause: str | None
    """None: the reason is not a known one."""
    compatible: Sequence[str]
    """The causes that agree with it."""


class CauseDecision(NamedTuple):
    """Why a generation came."""

    primary: str
    causes: list[str]
    confidence: float | None
    evidence: str


def lost_coordinator(
    row: GenerationRow,
    took_over: Mapping[tuple[int, int], int],
    working: Mapping[tuple[int, int], int],
) -> float | None:
    """Tell whether clients came again for want of a coordinator; returns how sure that is, None if they did not.

    A client that cannot reach its coordinator for as long as its session lasts gives its place up, and comes with
    another member id when the coordinator is back. In the log that looks as if it had started again. It did not
    where the coordinator had just changed, and the group had not gone on committing under the new one.

    Args:
        row: the generation.
        took_over: when the leader of a partition of the log took over, in milliseconds, by partition and leader epoch.
        working: since when the group commits under it, in milliseconds.
    """
    ts_ms = valid_ms(row.ts_ms)
    if not row.coordinator_changed or Cause.CLIENT_RESTART not in row.causes or ts_ms is None:
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
    return CauseDecision(str(primary), [str(each) for each in ordered], confidence, LOG)


def with_reason(verdict: CauseDecision, told: LoggedReason) -> CauseDecision:
    """Take the coordinator's own reason over; what the log tells more closely than it does stays."""
    if told.cause is None:
        return verdict
    agrees = verdict.primary in told.compatible
    primary = verdict.primary if agrees else told.cause
    # where it only does not contradict, what was told from the records is as sure as it was
    sure = told.cause == verdict.primary or not agrees
    causes = in_order({*(Cause(each) for each in verdict.causes), Cause(primary)})
    return CauseDecision(
        primary,
        [str(each) for each in causes],
        _FULL if sure else verdict.confidence,
        BROKER_LOG,
    )


def logged_reason(
    told: Iterable[LoggedReason], generation: int, ts_ms: int, previous_ms: int | None
) -> LoggedReason | None:
    """Find the coordinator's own reason for a generation.

    Numbers come again, as when a group is deleted and made again: the reason was given since the generation before.

    Args:
        told: of the group.
        generation: its number.
        ts_ms: when its record was written.
        previous_ms: when that of the generation before was written; None: it is not known.
    """
    latest: LoggedReason | None = None
    for each in told:
        if each.generation != generation or each.ts_ms > ts_ms:
            continue
        if previous_ms is not None and each.ts_ms < previous_ms - SKEW_MS:
            continue
        if latest is None or each.ts_ms > latest.ts_ms:
            latest = each
    return latest
