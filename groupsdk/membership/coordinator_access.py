"""Finding and losing the group coordinator: the logic and logs that both protocols share."""

import logging
from typing import Final

from groupsdk.errors import AuthenticationError, GroupSdkError
from groupsdk.membership.actions import Action, FindCoordinator, Node, StopLooking
from groupsdk.membership.connection_failures import ConnectionFailures
from groupsdk.membership.deadlines import Deadline
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.membership.member import Member
from groupsdk.wire.schema import ApiKey


WARN_AFTER_MS: Final = 5_000
"""For how long a member wants a coordinator in vain before its log warns of that."""
WARN_EVERY_MS: Final = 30_000
"""How often it warns from then on."""


class CoordinatorAccess:
    """A member's access to its coordinator, with the lookups and log lines that follow from it.

    It decides nothing about the membership: the machine that owns it does.

    Args:
        member: the member whose coordinator it is.
    """

    def __init__(self, member: Member) -> None:
        self.trouble: str | None = None
        """Why the coordinator cannot be found or reached at present, in words."""
        self._member = member
        self._failures = ConnectionFailures()
        self._outage = Outage(member.config.socket_connection_setup_timeout_ms)
        self._reached_before = False
        self._lookup_error: GroupSdkError | None = None

    def found(self, node: Node) -> None:
        """Record where a broker says the coordinator is; it may be unreachable.

        Args:
            node: the coordinator.
        """
        member = self._member
        member.discovery.found(node)
        self._outage.found(member.now_ms)
        # Being found proves little: what made it close the connection may do so again.
        self.trouble = self._failures.trouble
        member.recovered_from(self._lookup_error)
        member.log_thinned(("found", node), logging.INFO, "the group coordinator is %s", node)

    def delayed(self, error: GroupSdkError) -> None:
        """Record that an attempt of a lookup failed; the driver repeats it.

        Args:
            error: why it failed; it becomes `trouble`.
        """
        self.trouble = str(error)

    def failed(self, error: GroupSdkError) -> None:
        """Record that a lookup ended in an error that is not retriable, and keep the error for the caller.

        Args:
            error: the error. After an AuthenticationError the next lookups are ever rarer.
        """
        member = self._member
        self.trouble = str(error)
        self._lookup_error = error
        member.discovery.failed(member.now_ms, refused=isinstance(error, AuthenticationError))
        member.fail(error)

    def lost(
        self, error: GroupSdkError, *, connected: bool = True
    ) -> tuple[list[Action], tuple[InFlightRequest, ...]]:
        """Look up the coordinator again, after an error response or a lost connection.

        Args:
            error: why.
            connected: whether there was a connection to it.

        Returns:
            The actions, and the requests that will get no response.
        """
        member = self._member
        if member.discovery.coordinator is None:
            return [], ()
        actions, flights = member.drop_connection(error)
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
        member.discovery.lost(member.now_ms, refused=isinstance(error, AuthenticationError))
        self._outage.lost(member.now_ms, connected=connected)
        return actions, flights

    def answered(self, api: ApiKey) -> None:
        """Record that a request of the membership succeeded."""
        self._failures.answered(api)
        self.trouble = self._failures.trouble

    def reached(self) -> None:
        """Record that the coordinator responded as the coordinator."""
        self._reached_before = True
        if not self._outage.begun:
            return
        away_ms = self._outage.end(self._member.now_ms)
        if away_ms is not None:
            self._member.log(
                logging.INFO, "the group coordinator answers again, after %d s", away_ms // 1000
            )

    def deadlines(self, *, wanted: bool) -> list[Deadline]:
        """Return when to look up the coordinator, stop the lookup, or warn that it is unreachable.

        Args:
            wanted: whether the member needs a coordinator.
        """
        member, deadlines = self._member, list[Deadline]()
        if not wanted:
            self._outage.end(member.now_ms)
            return [(member.now_ms, self._stop_looking)] if member.discovery.looking else []
        if member.discovery.coordinator is not None:
            return deadlines
        self._outage.begin(member.now_ms)
        if self._outage.warn_at_ms is not None:
            deadlines.append((self._outage.warn_at_ms, self._warn))
        if member.discovery.retry_at_ms is not None:
            deadlines.append((member.discovery.retry_at_ms, self._look_up))
        return deadlines

    def _look_up(self) -> list[Action]:
        self._member.discovery.started()
        return [FindCoordinator()]

    def _stop_looking(self) -> list[Action]:
        self._member.discovery.stopped()
        return [StopLooking()]

    def _warn(self) -> list[Action]:
        """Warn that the coordinator is unreachable: once soon, then at a steady interval."""
        member = self._member
        away_ms = self._outage.warn(member.now_ms)
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


class Outage:
    """How long the member has wanted a coordinator that was not found or never responded.

    A wrong port, a firewall and a cluster that is down all look alike to a client, and may or may not pass by
    themselves, so no error is raised for them. The log has to show that the member waits, without filling a disk
    overnight.

    Args:
        setup_timeout_ms: how long a connection may take. A request that waited on one for longer may have been
            parked by a rebalance, which is not an outage; one that is cut off at once may never succeed.
    """

    def __init__(self, setup_timeout_ms: int) -> None:
        self.begun = False
        """Whether a coordinator was wanted in vain, and no answer has come since."""
        self._setup_timeout_ms = setup_timeout_ms
        self._since_ms: int | None = None
        self._found_ms: int | None = None
        self._warn_at_ms = 0
        self._warned = False

    def begin(self, now_ms: int) -> None:
        """Record that a coordinator is wanted and unknown; only the first call counts."""
        if self._since_ms is None:
            self.begun = True
            self._since_ms = now_ms
            self._warn_at_ms = now_ms + WARN_AFTER_MS

    def found(self, now_ms: int) -> None:
        """Record that a broker has named the coordinator, which may be unreachable."""
        self._found_ms = now_ms

    def lost(self, now_ms: int, *, connected: bool) -> None:
        """Record that the named coordinator could not be reached or was lost.

        Args:
            now_ms: the time.
            connected: whether there was a connection; one that lasted longer than it may take to open ends the
                outage.
        """
        held_ms = 0 if self._found_ms is None else now_ms - self._found_ms
        if connected and held_ms > self._setup_timeout_ms:
            self.end(now_ms)
        self._found_ms = None

    def end(self, now_ms: int) -> int | None:
        """Record that the coordinator responded, or is not wanted any more.

        Returns:
            How long it was unavailable, in milliseconds, if that was warned about; otherwise None.
        """
        away_ms = None
        if self._warned and self._since_ms is not None:
            away_ms = now_ms - self._since_ms
        self._since_ms = None
        self._warned = self.begun = False
        return away_ms

    def warn(self, now_ms: int) -> int | None:
        """Return how long the coordinator has been unavailable, in milliseconds, if a warning is due; otherwise None.

        The next warning is due `WARN_EVERY_MS` later.
        """
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
