"""What a generation is blamed on, and how surely."""

import pytest

from groupsdk.history.explain.causes import (
    RECOVERY_MS,
    WORKING_MS,
    LoggedReason,
    decide_cause,
    lost_coordinator,
    with_reason,
)
from groupsdk.history.explain.changes import CONFIDENCE, MISSING_FACTOR, Cause
from groupsdk.history.explain.departures import Departure
from groupsdk.history.explain.timeline.rows import GenerationRow
from tests.history.explain.timelines import generation_row


TOOK_OVER_MS = 1_000_000
PLACE = 3, 7
SURE = CONFIDENCE[Cause.COORDINATOR_RESTART]


def restart(
    after_ms: int, *, changed: bool = True, cause: Cause = Cause.CLIENT_RESTART
) -> GenerationRow:
    """A generation, so long after the coordinator took over, in which a client came back with another id."""
    return generation_row(
        ts_ms=TOOK_OVER_MS + after_ms,
        causes=(cause,),
        coordinator_changed=changed,
        partition=PLACE[0],
        leader_epoch=PLACE[1],
    )


@pytest.mark.parametrize(
    ("row", "worked_ms", "confidence"),
    [
        (restart(RECOVERY_MS), None, SURE),
        (restart(RECOVERY_MS + 1), None, None),
        # the group was served by the coordinator that it had before
        (restart(10_000, changed=False), None, None),
        (restart(10_000, cause=Cause.JOIN), None, None),
        # the last commits of members that are gone, or a group that has recovered
        (restart(10_000 + WORKING_MS - 1), 10_000, SURE),
        (restart(10_000 + WORKING_MS), 10_000, None),
        # nothing but this record shows when the coordinator took over
        (restart(0), None, 0.5),
    ],
)
def test_a_restart_is_blamed_on_a_coordinator_that_has_just_changed(
    row: GenerationRow, worked_ms: int | None, confidence: float | None
) -> None:
    working = {} if worked_ms is None else {PLACE: TOOK_OVER_MS + worked_ms}
    assert lost_coordinator(row, {PLACE: TOOK_OVER_MS}, working) == confidence
    # of another partition, or another leader epoch, the log tells nothing of this group's coordinator
    for other in ((4, 7), (3, 6)):
        assert lost_coordinator(row, {other: TOOK_OVER_MS}, {}) is None


@pytest.mark.parametrize("has_hole", [False, True])
def test_confidence_is_lower_behind_a_hole(has_hole: bool) -> None:
    factor = MISSING_FACTOR if has_hole else 1
    left = Departure("m", "c", "leave", 0.9, 100)
    for causes, departures, lost, full in (
        ({Cause.JOIN}, (), None, CONFIDENCE[Cause.JOIN]),
        ({Cause.LEAVE}, (left,), None, 0.9),
        ({Cause.COORDINATOR_RESTART}, (), 0.5, 0.5),
        ({Cause.LEAVE}, (), None, None),
    ):
        found = decide_cause(causes, departures, lost, has_hole=has_hole)
        assert found.primary == next(iter(causes))
        assert found.confidence == (None if full is None else full * factor)


@pytest.mark.parametrize(
    ("cause", "compatible", "primary", "confidence"),
    [
        ("join", ["join"], "join", 1.0),
        # the coordinator's reason is wider than what the records show, and says nothing more of it
        ("client_restart", ["client_restart", "join"], "join", CONFIDENCE[Cause.JOIN] / 2),
        ("leave", ["leave"], "leave", 1.0),
        (None, [], "join", CONFIDENCE[Cause.JOIN] / 2),
    ],
)
def test_a_logged_reason_makes_sure_only_of_what_it_says(
    cause: str | None, compatible: list[str], primary: str, confidence: float
) -> None:
    verdict = decide_cause({Cause.JOIN}, (), None, has_hole=True)
    found = with_reason(verdict, LoggedReason("g", 5, 0, "text", cause, compatible))
    assert found.primary == primary
    assert found.confidence == pytest.approx(confidence)
