"""Keep what is known of the group coordinator, and when to look for it again."""

from random import Random

from groupsdk.backoff import ExponentialBackoff
from groupsdk.membership.actions import Node


class Discovery:
    """Where the coordinator is, whether a lookup is under way, and when the next one may start.

    The first loss is followed by a lookup at once; when no answer comes between two losses, the lookups
    after that back off (KIP-580), so that a coordinator that is named but cannot be reached costs no
    busy loop.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
        self.coordinator: Node | None = None
        self.looking = False
        self._backoff = backoff
        self._random = random
        self._losses = 0
        self._retry_at_ms = 0

    def started(self) -> None:
        """Note that a lookup is under way."""
        self.looking = True

    def stopped(self) -> None:
        """Note that the lookup was given up; the next one may start as soon as it is wanted."""
        self.looking = False

    def found(self, node: Node) -> None:
        """Note where the coordinator is."""
        self.looking = False
        self.coordinator = node

    def failed(self, now_ms: int) -> None:
        """Note that a lookup ended without a coordinator."""
        self.looking = False
        self._back_off(now_ms)

    def lost(self, now_ms: int) -> None:
        """Note that the coordinator is not, or no longer, where it was."""
        self.coordinator = None
        if self._losses:
            self._back_off(now_ms)
        else:
            self._losses = 1
            self._retry_at_ms = now_ms

    def answered(self) -> None:
        """Note that the coordinator answered as one."""
        self._losses = 0

    def due(self, now_ms: int) -> bool:
        """Tell whether a lookup may start."""
        return self.coordinator is None and not self.looking and now_ms >= self._retry_at_ms

    @property
    def retry_at_ms(self) -> int | None:
        """When a lookup may start; None while one is under way or none is needed."""
        return None if self.looking or self.coordinator is not None else self._retry_at_ms

    def _back_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self._backoff.backoff_ms(self._losses, self._random)
        self._losses += 1
