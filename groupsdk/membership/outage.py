"""Explain to the log and to the caller why the coordinator is out of reach, and for how long it has been."""

import logging
from collections.abc import Sequence
from typing import Final

from groupsdk.errors import GroupSdkError
from groupsdk.membership.actions import Action
from groupsdk.membership.connection_failures import ConnectionFailures
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.membership.member import Member
from groupsdk.wire.schema import ApiKey


WARN_AFTER_MS: Final = 5_000
"""For how long a member wants a coordinator in vain before its log warns of that."""
WARN_EVERY_MS: Final = 30_000
"""How often it warns from then on."""


class CoordinatorOutage:
    """What is known about a coordinator that cannot be found or reached: `trouble` for the caller, lines for the log.

    Args:
        member: whose coordinator it is.
    """

    def __init__(self, member: Member) -> None:
        self.trouble: str | None = None
        """Why the coordinator cannot be found or reached at present, in words."""
        self._member = member
        self._failures = ConnectionFailures()
        self._times = _OutageTimes(member.config.socket_connection_setup_timeout_ms)
        self._reached_before = False

    @property
    def warn_at_ms(self) -> int | None:
        """When the next warning is due; None while the coordinator is known, or not wanted."""
        return self._times.warn_at_ms

    def begun(self) -> None:
        """Note that a coordinator is wanted and not known."""
        self._times.begin(self._member.now_ms)

    def unwanted(self) -> None:
        """Note that nobody wants the coordinator any more."""
        self._times.end(self._member.now_ms)

    def lookup_failed(self, error: GroupSdkError) -> None:
        """Note why a lookup, or an attempt at one, failed."""
        self.trouble = str(error)

    def found(self) -> None:
        """Note that a broker has named the coordinator, which may be out of reach itself."""
        self._times.found(self._member.now_ms)
        # Being found proves little: what made it close the connection may do so again.
        self.trouble = self._failures.trouble

    def lost(
        self, error: GroupSdkError, flights: Sequence[InFlightRequest], *, connected: bool
    ) -> None:
        """Note, and log, that the coordinator was given up.

        Args:
            error: why.
            flights: the requests that go unanswered.
            connected: whether there was a connection to it.
        """
        member = self._member
        if connected:
            level = self._failures.lost(error, flights)
            self.trouble = (self._failures.trouble if flights else None) or str(error)
            line = f"lost the group coordinator: {self.trouble}"
        else:
            level = logging.INFO
            self._failures.unreachable(error)
            self.trouble = line = str(error)
        if level >= logging.WARNING:
            member.log(level, "%s", line)  # rare enough as it is
        else:
            member.log_thinned("lost", level, "%s", line)
        self._times.lost(member.now_ms, connected=connected)

    def answered(self, api: ApiKey) -> None:
        """Note that a request got through."""
        if self.trouble is not None:
            self._failures.answered(api)
            self.trouble = self._failures.trouble

    def ended(self) -> None:
        """Note that the coordinator answered as one."""
        self._reached_before = True
        away_ms = self._times.end(self._member.now_ms)
        if away_ms is not None:
            self._member.log(
                logging.INFO, "the group coordinator answers again, after %d s", away_ms // 1000
            )

    def warn(self) -> list[Action]:
        """Warn of a coordinator that is out of reach: once soon, then at a steady interval."""
        member = self._member
        away_ms = self._times.warn(member.now_ms)
        if away_ms is None:
            return []
        hint = ""
        if not self._reached_before:
            hint = f"; check bootstrap.servers ({', '.join(member.config.bootstrap_servers)})"
        member.log(
            logging.WARNING,
            "no group coordinator for %d s: %s; still trying%s",
            away_ms // 1000,
            self.trouble or "no broker has answered",
            hint,
        )
        return []


class _OutageTimes:
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
