"""Decide whether and when a member rejoins, and keep the reason."""

from random import Random
from typing import Final

from groupsdk.backoff import ExponentialBackoff


FIRST_JOIN: Final = "the member joins for the first time"
MAX_REASON_LENGTH: Final = 255
"""Longer reasons are cut, as Kafka's client does (KIP-800)."""

_IMMEDIATE_ATTEMPTS: Final = 3
_SOON_MS: Final = 1_000
"""A caller that asks for the next rebalance so soon after the last one would never let the group rest."""


class Rejoin:
    """Whether the member must rejoin, why, and the backoff of its attempts.

    Kafka's client repeats a join at once after some errors. So does this one, but only so many times in
    a row: then it backs off, so that a coordinator that always answers the same cannot make it spin. And
    neither can a caller that asks for the next rebalance in every `on_join_complete`.

    Args:
        backoff: between attempts that fail.
        random: where jitter comes from.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
        self.needed = True
        self.reason = FIRST_JOIN
        self.needs_prepare = True
        """Whether `on_join_prepare` is due: once per rebalance, not per attempt."""
        self._backoff = backoff
        self._random = random
        self._failures = 0
        self._immediate = 0
        self._retry_at_ms = 0
        self._paced_until_ms = 0
        self._succeeded_ms: int | None = None
        self._asked_in_a_row = 0

    @property
    def retry_at_ms(self) -> int:
        """The time at which a join may start."""
        return max(self._retry_at_ms, self._paced_until_ms)

    def request(self, reason: str) -> None:
        """Ask for a rebalance; the latest reason stands.

        Args:
            reason: for the log and for the coordinator.
        """
        self.needed = True
        self.reason = reason
        # whatever the caller asked for, the group does not wait for it once it rebalances anyway
        self._paced_until_ms = 0

    def ask(self, reason: str, now_ms: int) -> bool:
        """Ask for a rebalance as the caller.

        A caller that asks right after each generation is answered at once only so many times in a row (a
        cooperative consumer gives partitions up in some successive rounds), then after a growing delay.

        Args:
            reason: for the log and for the coordinator.
            now_ms: the time.

        Returns:
            Whether that delay has begun with this one.
        """
        if self.needed:
            self.reason = reason
            return False
        soon = self._succeeded_ms is not None and now_ms - self._succeeded_ms < _SOON_MS
        self._asked_in_a_row = self._asked_in_a_row + 1 if soon else 1
        self.request(reason)
        beyond = self._asked_in_a_row - _IMMEDIATE_ATTEMPTS
        if beyond > 0:
            delay_ms = self._backoff.backoff_ms(beyond - 1, self._random)
            self._paced_until_ms = now_ms + delay_ms
        return beyond == 1

    def prepared(self) -> None:
        """Record that `on_join_prepare` was called, whether or not it raised."""
        self.needs_prepare = False

    def sent(self) -> None:
        """Record that a join with the latest metadata was sent."""
        self.needed = False

    def again_now(self, reason: str, now_ms: int) -> None:
        """Rejoin without delay, unless that was tried too often just before.

        Args:
            reason: for the log and for the coordinator.
            now_ms: the time.
        """
        self._immediate += 1
        if self._immediate > _IMMEDIATE_ATTEMPTS:
            self.again_later(reason, now_ms)
            return
        self.request(reason)
        self._retry_at_ms = now_ms

    def again_later(self, reason: str, now_ms: int) -> None:
        """Rejoin after a backoff that grows with consecutive failures.

        Args:
            reason: for the log and for the coordinator.
            now_ms: the time.
        """
        self.request(reason)
        self._retry_at_ms = now_ms + self._backoff.backoff_ms(self._failures, self._random)
        self._failures += 1

    def expelled(self, reason: str) -> None:
        """Start over after losing the membership: `on_join_prepare` is due again.

        Args:
            reason: for the log and for the coordinator.
        """
        self.request(reason)
        self.needs_prepare = True

    def succeeded(self, now_ms: int) -> None:
        """Record that a generation is complete; resets the backoff."""
        self._succeeded_ms = now_ms
        self._failures = 0
        self._immediate = 0

    def delivered(self) -> None:
        """Record that `on_join_complete` returned: the next join is another rebalance."""
        self.needs_prepare = True
