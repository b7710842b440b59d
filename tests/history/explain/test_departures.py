"""Whether a member left or died, and how sure that is, from what it and others committed."""

import pytest

from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.commit_spans import CommitPart, Span
from groupsdk.history.explain.departures import classify_departure, silence_of
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
