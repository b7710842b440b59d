"""Keep what is known of the group coordinator, when to look for it again, and when to say that it is away."""

from random import Random
from typing import Final

from groupsdk.backoff import ExponentialBackoff
from groupsdk.membership.actions import Node


REFUSED_MAX_MS: Final = 30_000
"""The longest wait before refused credentials are tried again."""
WARN_AFTER_MS: Final = 5_000
"""For how long a member wants a coordinator in vain before its log warns of that."""
WARN_EVERY_MS: Final = 30_000
"""How often it warns from then on."""


class Discovery:
    """Where the coordinator is, whether a lookup is under way, and when the next one may start.

    The first loss is followed by a lookup at once; when no answer comes between two losses, the lookups
    after that back off (KIP-580), so that a coordinator that is named but cannot be reached costs no
    busy loop.

    Refused credentials are tried again too, as a password may be changed on either side, but ever more rarely:
    some brokers lock a user out after a number of attempts.
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
        """Note that a lookup is under way."""
        self.looking = True

    def stopped(self) -> None:
        """Note that the lookup was given up; the next one may start as soon as it is wanted."""
        self.looking = False

    def found(self, node: Node) -> None:
        """Note where the coordinator is."""
        self.looking = False
        self.coordinator = node

    def failed(self, now_ms: int, *, refused: bool = False) -> None:
        """Note that a lookup ended without a coordinator.

        Args:
            now_ms: the time.
            refused: whether for credentials that were refused.
        """
        self.looking = False
        self._back_off(now_ms, refused=refused)

    def lost(self, now_ms: int, *, refused: bool = False) -> None:
        """Note that the coordinator is not, or no longer, where it was, or that it refuses our credentials."""
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
        """Note that the coordinator answered as one."""
        self._losses = 0
        self._refusals = 0

    def credentials_changed(self, now_ms: int) -> None:
        """Let the next lookup start at once, since the credentials are others."""
        self._refusals = 0
        self._retry_at_ms = now_ms

    def due(self, now_ms: int) -> bool:
        """Tell whether a lookup may start."""
        return self.coordinator is None and not self.looking and now_ms >= self._retry_at_ms

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


class Outage:
    """For how long the member has wanted a coordinator that nobody named or that never answered.

    A wrong port, a firewall and a cluster that is down all look alike to a client, and pass by themselves or
    never: nothing is raised for them. What the log says has to tell a person that nothing happens, and not
    fill a disk in a night.

    Args:
        setup_timeout_ms: how long a connection may take. A request that waited on one for longer may have been
            parked by a rebalance, which is not an outage; one that is cut off at once may be so for ever.
    """

    def __init__(self, setup_timeout_ms: int) -> None:
        self._setup_timeout_ms = setup_timeout_ms
        self._since_ms: int | None = None
        self._found_ms: int | None = None
        self._warn_at_ms = 0
        self._warned = False

    def begin(self, now_ms: int) -> None:
        """Note that a coordinator is wanted and not known; the first time counts."""
        if self._since_ms is None:
            self._since_ms = now_ms
            self._warn_at_ms = now_ms + WARN_AFTER_MS

    def found(self, now_ms: int) -> None:
        """Note that a broker has named the coordinator, which may be out of reach itself."""
        self._found_ms = now_ms

    def lost(self, now_ms: int, *, connected: bool) -> None:
        """Note that the coordinator, once named, could not be reached or went away."""
        held_ms = 0 if self._found_ms is None else now_ms - self._found_ms
        if connected and held_ms > self._setup_timeout_ms:
            self.end(now_ms)
        self._found_ms = None

    def end(self, now_ms: int) -> int | None:
        """Note that the coordinator answered, or is not wanted any more.

        Returns:
            How long it was away, where that was warned of.
        """
        away_ms = None
        if self._warned and self._since_ms is not None:
            away_ms = now_ms - self._since_ms
        self._since_ms = None
        self._warned = False
        return away_ms

    def warn(self, now_ms: int) -> int | None:
        """Return for how long the coordinator has been away, where a warning of that is due."""
        if self.warn_at_ms is None or now_ms < self._warn_at_ms or self._since_ms is None:
            return None
        self._warned = True
        self._warn_at_ms = now_ms + WARN_EVERY_MS
        return now_ms - self._since_ms

    @property
    def warn_at_ms(self) -> int | None:
        """When the next warning is due; None while the coordinator is known, or not wanted."""
        if self._since_ms is None or self._found_ms is not None:
            return None
        return self._warn_at_ms
