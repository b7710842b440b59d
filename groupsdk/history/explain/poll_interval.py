"""Decide whether a member was gone because it exceeded max.poll.interval.ms.

librdkafka and Java then leave the group by themselves, though heartbeats go on until then. The log has both timeouts of a
classic member: its rebalance timeout is max.poll.interval.ms.
"""

from enum import StrEnum
from typing import Final


_COMMITS_MS: Final = 5_000
"""auto.commit.interval.ms of Java and librdkafka: the last commit may be this much older than the last poll."""
_SLACK: Final = 10
"""The share of the interval, as its inverse, by which a leave may be late."""
_EARLY_MS: Final = 500
"""How much later than its last poll a member may have committed."""


class PollInterval(StrEnum):
    """What a silence says about max.poll.interval.ms."""

    EXCEEDED = "exceeded"
    EITHER = "either"
    """The session timed out, or the interval was exceeded: the two timeouts are too much alike."""


def poll_interval(
    silence_ms: int | None, session_ms: int | None, poll_ms: int | None
) -> PollInterval | None:
    """Return whether a member that was gone `silence_ms` after its last commit had exceeded `poll_ms`; None if not."""
    if silence_ms is None or poll_ms is None or poll_ms <= 0:
        return None
    slack_ms = max(2 * _COMMITS_MS, poll_ms // _SLACK)
    if not poll_ms - _EARLY_MS <= silence_ms <= poll_ms + slack_ms:
        return None
    # a session that timed out shows as a silence from its own length on
    if session_ms is not None and session_ms - _EARLY_MS <= silence_ms <= session_ms + slack_ms:
        return PollInterval.EITHER
    return PollInterval.EXCEEDED
