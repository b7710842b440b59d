"""Keep the deadlines of one member: next heartbeat, session, poll (Kafka's `Heartbeat`)."""

from random import Random
from typing import ClassVar, Final

from groupsdk.member.possession import Possession
from groupsdk.settings.backoff import ExponentialBackoff


FIRST_SPACING_MS: Final = 50
"""From a join to the first heartbeat after it, where the interval is longer."""
_SOON_MS: Final = 1_000
EARLY_HEARTBEATS = 30
"""How many heartbeats may come early before their pace is the interval's."""
EXPECTING_MS: Final = 400
"""The longest time between two heartbeats of a member that expects a rebalance."""


class EarlyHeartbeats:
    """Send the first heartbeats after a join early, at growing intervals.

    Members start in bursts, and one that is stable learns only from a heartbeat that others want to join: with
    Kafka's client a group that is joined a moment too late waits for the heartbeat interval. The early ones are
    few: each takes one from a store that fills slowly, by one an interval unless `refill_ms` says otherwise, so
    that a group which never comes to rest is not asked much more often than before. Where the interval is a second or less, which is soon enough, only the
    first one is early, and all others come evenly.

    Args:
        refill_ms: how long the store takes to get one, in milliseconds; None: the interval. With a shorter time, a
            member whose store is empty heartbeats at that pace while its group is in motion.
    """

    def __init__(self, interval_ms: int, refill_ms: int | None = None) -> None:
        self._interval_ms = interval_ms
        self._refill_ms = interval_ms if refill_ms is None else min(refill_ms, interval_ms)
        self._spacing_ms = interval_ms
        self._store = EARLY_HEARTBEATS
        self._filled_ms: int | None = None

    def joined(self) -> None:
        """Restart with the shortest interval."""
        self._spacing_ms = FIRST_SPACING_MS

    def distance_ms(self, now_ms: int) -> int:
        """Return how long to wait from `now_ms` for the next heartbeat."""
        if self._spacing_ms >= self._interval_ms:
            return self._interval_ms
        filled_ms = self._fill(now_ms)
        distance_ms = self._spacing_ms
        if self._store > 0:
            self._store -= 1
        elif self._refill_ms >= self._interval_ms:
            return self._interval_ms
        else:
            if filled_ms <= now_ms:  # take the one that the store gets next in advance
                filled_ms = self._filled_ms = filled_ms + self._refill_ms
            distance_ms = max(distance_ms, filled_ms - now_ms)
        self._spacing_ms = (
            self._spacing_ms * 2 if self._interval_ms > _SOON_MS else self._interval_ms
        )
        return min(distance_ms, self._interval_ms)

    def _fill(self, now_ms: int) -> int:
        """Fill the store by what is due, and return up to when it is filled."""
        if self._filled_ms is None:
            self._filled_ms = now_ms
        whole = max(0, (now_ms - self._filled_ms) // self._refill_ms)
        self._store = min(EARLY_HEARTBEATS, self._store + whole)
        self._filled_ms += whole * self._refill_ms
        return self._filled_ms


class HeartbeatTimer:
    """The deadlines for the next heartbeat, the session, and the caller's next poll.

    Times are integer milliseconds of one clock. Beyond Kafka's class it keeps the member's `possession`, which
    counts from the times that accepted requests were *sent*.
    """

    _early_refill_ms: ClassVar[int | None] = None
    """How long the store of early heartbeats takes to get one; None: the interval."""

    def __init__(
        self,
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        interval_ms: int,
        max_poll_interval_ms: int,
        backoff: ExponentialBackoff,
        random: Random,
    ) -> None:
        self.next_ms: int | None = None
        """When the next heartbeat is due; None while there are none."""
        self.session_until_ms: int | None = None
        """When a coordinator that stays silent is given up; None while there are no heartbeats."""
        self.poll_until_ms = 0
        """When the member of a caller that stays silent leaves (max.poll.interval.ms)."""
        self.possession = Possession(session_timeout_ms, rebalance_timeout_ms)
        self.interval_ms = interval_ms
        """The heartbeat interval, in milliseconds."""
        self._max_poll_interval_ms = max_poll_interval_ms
        self._backoff = backoff
        self._random = random
        self._failures = 0
        self._early = EarlyHeartbeats(interval_ms, self._early_refill_ms)
        self._expecting_until_ms = 0
        self._expecting_spacing_ms = FIRST_SPACING_MS

    def enable(self, now_ms: int) -> None:
        """Restart the deadlines of heartbeat and session; the poll deadline is the caller's."""
        self._failures = 0
        self._expecting_until_ms = 0
        self._early.joined()
        self.next_ms = now_ms + self._early.distance_ms(now_ms)
        self.session_until_ms = now_ms + self.possession.session_timeout_ms

    def disable(self) -> None:
        """Stop sending heartbeats and expecting responses."""
        self.next_ms = self.session_until_ms = None

    def forget(self) -> None:
        """Reset the proof of membership: the member was expelled or has left."""
        self.disable()
        self.possession.forget()

    def sent(self, now_ms: int) -> None:
        """Record that a heartbeat was sent.

        The next one is due an interval after this one was due, so that delays do not add up; unless this one is late
        by a whole interval.
        """
        if self.next_ms is None:
            return
        lateness_ms = now_ms - self.next_ms
        distance_ms = self._distance_ms(now_ms)
        anchor_ms = self.next_ms if 0 <= lateness_ms < distance_ms else now_ms
        self.next_ms = anchor_ms + distance_ms

    def accepted(self, now_ms: int, sent_ms: int, *, rebalancing: bool = False) -> None:
        """Record that the coordinator accepted the member as alive.

        While the group rebalances it expels members that have not rejoined within the rebalance timeout, however
        well they heartbeat.
        """
        self._failures = 0
        if self.session_until_ms is not None:
            self.session_until_ms = now_ms + self.possession.session_timeout_ms
        self.possession.accepted(sent_ms, rebalancing=rebalancing)

    def failed(self, now_ms: int) -> None:
        """Record that a heartbeat failed: the next one follows after a backoff, at most an interval."""
        delay_ms = self._backoff.backoff_ms(self._failures, self._random)
        self._failures += 1
        if self.next_ms is not None:
            self.next_ms = now_ms + min(delay_ms, self.interval_ms)

    def expect_rebalance(self, now_ms: int, for_ms: int) -> None:
        """Heartbeat at growing intervals of at most `EXPECTING_MS`, until the next join and no longer than `for_ms`.

        A member learns of a rebalance only by a heartbeat, and all others wait for it to join.
        """
        self._expecting_until_ms = now_ms + for_ms
        self._expecting_spacing_ms = FIRST_SPACING_MS
        if self.next_ms is not None:
            self.next_ms = min(self.next_ms, now_ms + self._distance_ms(now_ms))

    def _distance_ms(self, now_ms: int) -> int:
        if now_ms >= self._expecting_until_ms:
            return self._early.distance_ms(now_ms)
        distance_ms = self._expecting_spacing_ms
        self._expecting_spacing_ms = min(2 * distance_ms, EXPECTING_MS)
        return min(distance_ms, self.interval_ms)

    def hurry(self, now_ms: int) -> None:
        """Make a heartbeat due at once; without effect while there are none."""
        if self.next_ms is not None:
            self.next_ms = min(self.next_ms, now_ms)

    def reset_session(self, now_ms: int) -> None:
        """Restart the session deadline, as when a new coordinator was found."""
        if self.session_until_ms is not None:
            self.session_until_ms = now_ms + self.possession.session_timeout_ms

    def polled(self, now_ms: int) -> None:
        """Record that the caller polled, which restarts the poll deadline."""
        self.poll_until_ms = now_ms + self._max_poll_interval_ms
