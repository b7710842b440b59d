"""Whether a member left or died, and how sure that is, from what it and others committed."""

import pytest

from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.commit_spans import CommitPart, Span
from groupsdk.history.explain.departures import (
    Departure,
    LoggedDeparture,
    classify_departure,
    silence_of,
    with_logged_departure,
)
from groupsdk.history.explain.timeline.member import Member
from groupsdk.history.explain.timeline.rows import DepartureRow


TIMEOUT_MS = 5_000
GONE_MS = 100_000


def gone(*assigned: tuple[str, tuple[int, ...]]) -> DepartureRow:
    """Return a member of the consumer protocol that is gone, and answered long before."""
    member = Member(
        *("m", None, "c", "/h", -1, -1, ("t", "u")),
        assigned=assigned,
    )
    return DepartureRow(
        *("g", "consumer", 1, 2, GONE_MS), member, superseded=False, alive_ms=GONE_MS - 7_000
    )


def committed(topic: str, partition: int, last_ms: int) -> Span:
    """Return commits of each second up to a time."""
    part = CommitPart("g", 0, 5, 0, topic, partition, last_ms - 9_000, last_ms, 7, 10)
    return Span(part)


@pytest.mark.parametrize(
    ("names", "last_ms", "told"),
    [
        # its own commits tell
        ({"id-t": "t"}, GONE_MS - 20, (Cause.LEAVE, 0.9)),
        ({"id-t": "t"}, GONE_MS - 6_000, (Cause.EXPIRY, 0.9)),
        # without a name they cannot be told from those of others
        ({}, GONE_MS - 20, (Cause.EXPIRY, 0.4)),
        # its topic has a name, and it did not commit while others did
        ({"id-t": "other"}, GONE_MS - 20, (Cause.EXPIRY, 0.7)),
    ],
)
def test_commits_of_a_topic_without_a_name_are_nobodys(
    names: dict[str, str], last_ms: int, told: tuple[Cause, float]
) -> None:
    spans = {("t", 0): committed("t", 0, last_ms)}
    silence = silence_of(gone(("id-t", (0,))), spans, names, before_ms=None, interrupted=False)
    found = classify_departure(
        silence, session_timeout_ms=TIMEOUT_MS, learned_session_timeout_ms=None
    )
    assert (found.reason, found.confidence) == told


def stopped(
    last_ms: int, *, session_ms: int = 5_000, poll_ms: int = 30_000, instance: str | None = None
) -> tuple[str, float]:
    """Return why a member of the classic protocol is gone that committed each second up to a time."""
    member = Member(
        *("m", instance, "c", "/h", session_ms, poll_ms, ("t",)), assigned=(("t", (0,)),)
    )
    row = DepartureRow("g", "classic", 1, 2, GONE_MS, member, superseded=False, alive_ms=-1)
    spans = {("t", 0): committed("t", 0, last_ms)}
    silence = silence_of(row, spans, {}, before_ms=0, interrupted=False)
    found = classify_departure(silence, session_timeout_ms=None, learned_session_timeout_ms=None)
    return found.reason, found.confidence


def test_a_client_that_stopped_for_its_poll_interval_left_by_itself() -> None:
    assert stopped(GONE_MS - 31_000) == ("poll_timeout", 0.9)
    assert stopped(GONE_MS - 6_000) == ("expiry", 0.9)
    # a static member does not leave
    assert stopped(GONE_MS - 31_000, instance="i") == ("expiry", 0.9)
    # aiokafka sends its session timeout in the place of its poll interval
    assert stopped(GONE_MS - 5_500, poll_ms=5_000) == ("expiry", 0.9)


def test_a_poll_interval_of_about_a_session_is_either_of_two() -> None:
    assert stopped(GONE_MS - 6_000, poll_ms=6_000) == ("expiry", 0.4)


def test_the_log_that_says_left_does_not_say_why() -> None:
    member = Member("m", None, "c", "/h", 5_000, 30_000, ("t",), assigned=(("t", (0,)),))
    row = DepartureRow("g", "classic", 1, 2, GONE_MS, member, superseded=False, alive_ms=-1)
    silence = silence_of(row, {}, {}, before_ms=0, interrupted=False)
    departure = Departure("m", "c", Cause.POLL_TIMEOUT, 0.9, 31_000)
    logged = LoggedDeparture("g", "m", GONE_MS, Cause.LEAVE)
    assert with_logged_departure(departure, silence, [logged]) == departure
    expired = logged._replace(reason=Cause.EXPIRY)
    assert with_logged_departure(departure, silence, [expired]).reason == Cause.EXPIRY
