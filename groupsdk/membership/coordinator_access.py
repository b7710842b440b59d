"""Find and lose the group coordinator: what the machines of all protocols do about it, and what they log."""

import logging

from groupsdk.errors import AuthenticationError, GroupSdkError
from groupsdk.membership.actions import FindCoordinator, Node, StopLooking
from groupsdk.membership.connection_failures import ConnectionFailures, Outage
from groupsdk.membership.context import MemberContext
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.wire.schema import ApiKey


class CoordinatorAccess:
    """Where a member stands with its coordinator, and the lookups and log lines that follow from it.

    It decides nothing about the membership: the machine that owns it does.
    """

    def __init__(self, context: MemberContext) -> None:
        self.trouble: str | None = None
        """Why the coordinator cannot be found or reached at present, in words."""
        self._context = context
        self._losses = ConnectionFailures()
        self._outage = Outage(context.config.socket_connection_setup_timeout_ms)
        self._reached_before = False
        self._lookup_error: GroupSdkError | None = None

    def found(self, node: Node) -> None:
        """Take where the coordinator is."""
        context = self._context
        context.discovery.found(node)
        self._outage.found(context.now_ms)
        # Being found proves little: what made it close the connection may do so again.
        self.trouble = self._losses.trouble
        context.recovered_from(self._lookup_error)
        context.log_thinned(("found", node), logging.INFO, "the group coordinator is %s", node)

    def delayed(self, error: GroupSdkError) -> None:
        """Take note that an attempt of a lookup failed."""
        self.trouble = str(error)

    def failed(self, error: GroupSdkError) -> None:
        """Take note that a lookup ended in an error, and tell the caller."""
        context = self._context
        self.trouble = str(error)
        self._lookup_error = error
        refused = isinstance(error, AuthenticationError)
        context.discovery.failed(context.now_ms, refused=refused)
        context.fail(error)

    def lost(self, error: GroupSdkError, *, connected: bool = True) -> tuple[InFlightRequest, ...]:
        """Look for the coordinator again, because of what was or was not answered.

        Returns:
            The requests that will have no answer.
        """
        context = self._context
        if context.discovery.coordinator is None:
            return ()
        flights = context.drop_connection(error)
        if connected:
            level = self._losses.lost(error, flights)
            self.trouble = (self._losses.trouble if flights else None) or str(error)
        else:
            level = logging.INFO
            self._losses.unreachable(error)
            self.trouble = str(error)
        self._log_loss(
            level, f"{'lost the group coordinator: ' if connected else ''}{self.trouble}"
        )
        refused = isinstance(error, AuthenticationError)
        context.discovery.lost(context.now_ms, refused=refused)
        self._outage.lost(context.now_ms, connected=connected)
        return flights

    def answered(self, api: ApiKey) -> None:
        """Take note that a request of the membership got through."""
        self._losses.answered(api)
        self.trouble = self._losses.trouble

    def reached(self) -> None:
        """Take note that the coordinator answered as one."""
        self._reached_before = True
        away_ms = self._outage.end(self._context.now_ms)
        if away_ms is not None:
            self._context.log(
                logging.INFO, "the group coordinator answers again, after %d s", away_ms // 1000
            )

    def advance(self, *, wanted: bool) -> None:
        """Start or stop looking, and warn of an outage: once soon, then at a steady interval."""
        context = self._context
        if context.discovery.looking and not wanted:
            context.discovery.stopped()
            context.actions.append(StopLooking())
        self._watch_outage(wanted=wanted)
        if wanted and context.discovery.due(context.now_ms):
            context.discovery.started()
            context.actions.append(FindCoordinator())

    def times_ms(self, *, wanted: bool) -> tuple[int | None, ...]:
        """Return when `advance` has something to do."""
        if not wanted:
            return ()
        return self._context.discovery.retry_at_ms, self._outage.warn_at_ms

    def _watch_outage(self, *, wanted: bool) -> None:
        context = self._context
        if not wanted:
            self._outage.end(context.now_ms)
            return
        if context.discovery.coordinator is None:
            self._outage.begin(context.now_ms)
        away_ms = self._outage.warn(context.now_ms)
        if away_ms is None:
            return
        hint = ""
        if not self._reached_before:
            hint = f"; check bootstrap.servers ({', '.join(context.config.bootstrap_servers)})"
        context.log(
            logging.WARNING,
            "no group coordinator for %d s: %s; still trying%s",
            away_ms // 1000,
            self.trouble or "no broker has answered",
            hint,
        )

    def _log_loss(self, level: int, text: str) -> None:
        if level >= logging.WARNING:
            self._context.log(level, "%s", text)  # rare enough as it is
        else:
            self._context.log_thinned("lost", level, "%s", text)
