"""Keep the coordinator's address, and decide when to look it up again."""

from random import Random
from typing import Final

from groupsdk.backoff import ExponentialBackoff
from groupsdk.membership.actions import Node


REFUSED_MAX_MS: Final = 30_000
"""The longest wait before refused credentials are tried again."""


class Discovery:
    """The coordinator's address, whether a lookup is in progress, and when the next one may start.

    The first loss is followed by a lookup at once; when no answer comes between two losses, the lookups
    after that back off (KIP-580), so that a coordinator that is named but cannot be reached costs no
    busy loop.

    Refused credentials are tried again too, as a password may be changed on either side, but ever more rarely:
    some brokers lock a user out after a number of attempts.

    Args:
        backoff: between lookups after losses; its bounds also shape the longer one after refused credentials.
        random: where jitter comes from.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
        self.coordinator: Node | None = None
        self.looking = False
        self._backoff = backoff
        self._random = random
        self._refused_backoff = ExponentialBackoff(
            backoff.initial_ms, max(REFUSED_MAX_MS, backoff.max_ms), jitter=backoff.jitter
        )
        self._losses = 0
        self._refusals = 0
        self._retry_at_ms = 0

    def started(self) -> None:
        """Record that a lookup has started."""
        self.looking = True

    def stopped(self) -> None:
        """Record that the lookup was cancelled; the next one may start at once."""
        self.looking = False

    def found(self, node: Node) -> None:
        """Record where the coordinator is; ends the lookup.

        Args:
            node: the coordinator.
        """
        self.looking = False
        self.coordinator = node

    def failed(self, now_ms: int, *, refused: bool = False) -> None:
        """Record that a lookup ended without a coordinator.

        Args:
            now_ms: the time.
            refused: whether for credentials that were refused.
        """
        self.looking = False
        self._back_off(now_ms, refused=refused)

    def lost(self, now_ms: int, *, refused: bool = False) -> None:
        """Record that the coordinator has moved or was lost, and when to look it up again.

        Args:
            now_ms: the time.
            refused: whether the broker refused the credentials; the first time the next lookup is immediate, as a new
                token may be accepted.
        """
        self.coordinator = None
        if refused and self._refusals:
            self._back_off(now_ms, refused=True)
        elif refused:  # a new token may do
            self._refusals = 1
            self._retry_at_ms = now_ms
        elif self._losses:
            self._back_off(now_ms)
        else:
            self._losses = 1
            self._retry_at_ms = now_ms

    def answered(self) -> None:
        """Record that the coordinator responded as the coordinator."""
        self._losses = 0
        self._refusals = 0

    def credentials_changed(self, now_ms: int) -> None:
        """Allow the next lookup at once, since the credentials have changed."""
        self._refusals = 0
        self._retry_at_ms = now_ms

    @property
    def retry_at_ms(self) -> int | None:
        """When a lookup may start; None while one is under way or none is needed."""
        return None if self.looking or self.coordinator is not None else self._retry_at_ms

    def _back_off(self, now_ms: int, *, refused: bool = False) -> None:
        if refused:
            delay_ms = self._refused_backoff.backoff_ms(self._refusals, self._random)
            self._retry_at_ms = now_ms + delay_ms
            self._refusals += 1
            return
        self._retry_at_ms = now_ms + self._backoff.backoff_ms(self._losses, self._random)
        self._losses += 1
