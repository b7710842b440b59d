"""Finding and losing the group coordinator: when to look it up again, and what to log and to tell of it."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from groupsdk.errors import AuthenticationError, GroupSdkError
from groupsdk.member.actions import Action, FindCoordinator, Node, StopLooking
from groupsdk.member.member import Deadline, Member
from groupsdk.member.requests import InFlightRequest
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.wire.schema import ApiKey


WARN_AFTER_MS: Final = 5_000
"""For how long a member wants a coordinator in vain before its log warns of that."""
WARN_EVERY_MS: Final = 30_000
"""How often it warns from then on."""
REFUSED_MAX_MS: Final = 30_000
"""The longest wait before refused credentials are tried again."""

_WARN_AT: Final = 3

# In the order in which a member needs them: an answer to one shows that those before it get through too,
# while the heartbeats and joins around a plan that no broker takes are answered all the time.
_ORDER: Final = (ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


class CoordinatorAccess:
    """A member's access to its coordinator, with the lookups and log lines that follow from it.

    It decides nothing about the membership: the machine that owns it does."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._discovery = Discovery(member.backoff, member.random)
        self._failures = ConnectionFailures()
        self._outage = Outage(member.config.socket_connection_setup_timeout_ms)
        self._reached_before = False
        self._lookup_error: GroupSdkError | None = None

    def found(self, node: Node) -> None:
        """Record where a broker says the coordinator is; it may be unreachable."""
        member = self._member
        member.coordinator = node
        self._discovery.ended()
        self._outage.found(member.now_ms)
        # Being found proves little: what made it close the connection may do so again.
        member.trouble = self._failures.trouble
        member.recovered_from(self._lookup_error)
        member.log_thinned(("found", node), logging.INFO, "the group coordinator is %s", node)

    def delayed(self, error: GroupSdkError) -> None:
        """Record in `Member.trouble` that an attempt of a lookup failed; the driver repeats it."""
        self._member.trouble = str(error)

    def failed(self, error: GroupSdkError) -> None:
        """Record that a lookup ended in an error that is not retriable, and keep the error for the caller.

        After an AuthenticationError the next lookups are ever rarer.
        """
        member = self._member
        member.trouble = str(error)
        self._lookup_error = error
        self._discovery.failed(member.now_ms, refused=isinstance(error, AuthenticationError))
        member.fail(error)

    def lost(
        self, error: GroupSdkError, *, connected: bool = True
    ) -> tuple[list[Action], tuple[InFlightRequest, ...]]:
        """Look up the coordinator again. Return the requests without a response too."""
        member = self._member
        if member.coordinator is None:
            return [], ()
        actions, flights = member.drop_connection(error)
        if connected:
            level = self._failures.lost(error, flights)
            member.trouble = (self._failures.trouble if flights else None) or str(error)
            line = f"lost the group coordinator: {member.trouble}"
        else:
            level = logging.INFO
            self._failures.unreachable(error)
            member.trouble = line = str(error)
        if level >= logging.WARNING:
            member.log(level, "%s", line)  # rare enough as it is
        else:
            member.log_thinned("lost", level, "%s", line)
        member.coordinator = None
        self._discovery.lost(member.now_ms, refused=isinstance(error, AuthenticationError))
        self._outage.lost(member.now_ms, connected=connected)
        return actions, flights

    def answered(self, api: ApiKey) -> None:
        """Record that a request of the membership succeeded."""
        self._failures.answered(api)
        self._member.trouble = self._failures.trouble

    def reached(self, *, in_group: bool = False) -> None:
        """Record that the coordinator responded; after a request of the membership the next loss costs no backoff."""
        self._reached_before = True
        if in_group:
            self._discovery.answered()
        if not self._outage.begun:
            return
        away_ms = self._outage.end(self._member.now_ms)
        if away_ms is not None:
            self._member.log(
                logging.INFO, "the group coordinator answers again, after %d s", away_ms // 1000
            )

    def deadlines(self, *, wanted: bool) -> list[Deadline]:
        """Return when to look up a coordinator that is wanted, stop the lookup, or warn that it is unreachable."""
        member, deadlines = self._member, list[Deadline]()
        if not wanted:
            self._outage.end(member.now_ms)
            return [(member.now_ms, self._stop_looking)] if self._discovery.looking else []
        if member.coordinator is not None:
            return deadlines
        self._outage.begin(member.now_ms)
        if self._outage.warn_at_ms is not None:
            deadlines.append((self._outage.warn_at_ms, self._warn))
        if self._discovery.retry_at_ms is not None:
            deadlines.append((self._discovery.retry_at_ms, self._look_up))
        return deadlines

    def credentials_changed(self) -> None:
        """Let the next lookup start at once, since the credentials have changed."""
        self._discovery.credentials_changed(self._member.now_ms)

    def _look_up(self) -> list[Action]:
        self._discovery.started()
        return [FindCoordinator()]

    def _stop_looking(self) -> list[Action]:
        self._discovery.ended()
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
            member.trouble or "no broker has answered",
            hint,
        )
        return []


class Outage:
    """How long the member has wanted a coordinator that was not found or never responded.

    A wrong port, a firewall and a cluster that is down all look alike to a client, and may or may not pass by
    themselves, so no error is raised for them. The log has to show that the member waits, without filling a disk
    overnight. A request that waited on a connection for longer than one may take to open may have been parked by a
    rebalance, which is not an outage; one that is cut off at once may never succeed.
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

        A connection that lasted longer than it may take to open ends the outage.
        """
        held_ms = 0 if self._found_ms is None else now_ms - self._found_ms
        if connected and held_ms > self._setup_timeout_ms:
            self.end(now_ms)
        self._found_ms = None

    def end(self, now_ms: int) -> int | None:
        """Record that the coordinator responded, or is not wanted.

        Return how many ms it was away, if there was a warning.
        """
        away_ms = None
        if self._warned and self._since_ms is not None:
            away_ms = now_ms - self._since_ms
        self._since_ms = None
        self._warned = self.begun = False
        return away_ms

    def warn(self, now_ms: int) -> int | None:
        """Return how long the coordinator has been away, in milliseconds, if a warning is due.

        The next follows later.
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


@dataclass(slots=True)
class _Loss:
    count: int
    text: str
    warn_at: int = _WARN_AT


class ConnectionFailures:
    """The requests that were unanswered when their connection was lost, by API.

    A broker closes a connection without giving a reason, for example for a request larger than its
    socket.request.max.bytes. A request that is lost again and again is the only sign.
    """

    def __init__(self) -> None:
        self._failures: dict[ApiKey, _Loss] = {}
        self._unreachable: str | None = None

    @property
    def trouble(self) -> str | None:
        """The last lost request that has not succeeded since; None if there is none.

        If no broker can be reached, the error of that: requests cannot be the cause.
        """
        if self._unreachable is not None:
            return self._unreachable
        return next((loss.text for loss in reversed(self._failures.values())), None)

    def lost(self, error: GroupSdkError, flights: Iterable[InFlightRequest]) -> int:
        """Record the requests lost with a connection. Return the level to log it with.

        That is WARNING the more rarely, the longer the same request fails.
        """
        level = logging.INFO
        self._unreachable = None
        for flight in flights:
            if flight.api not in _ORDER:
                continue
            loss = self._failures.pop(flight.api, None) or _Loss(0, "")
            loss.count += 1
            loss.text = str(error)
            if flight.api is ApiKey.HEARTBEAT:
                pass  # nothing in it can be to blame
            elif loss.count > 1:
                loss.text += f"; {flight.description} was lost {loss.count} times in a row"
            elif flight.payload_bytes:
                loss.text += f"; {flight.description} was lost"
            self._failures[flight.api] = loss
            if loss.count >= loss.warn_at:
                # seldomer and seldomer, since it may go on for days
                loss.warn_at *= 2
                level = logging.WARNING
        return level

    def unreachable(self, error: GroupSdkError) -> None:
        """Record that no connection could be opened, so that nothing was sent."""
        self._unreachable = str(error)

    def answered(self, api: ApiKey) -> None:
        """Record that a request succeeded; earlier failures of it, and of smaller requests, no longer count."""
        self._unreachable = None
        if self._failures and api in _ORDER:
            for step in _ORDER[: _ORDER.index(api) + 1]:
                self._failures.pop(step, None)


class Discovery:
    """Whether a lookup of the coordinator is in progress, and when the next one may start.

    The first loss is followed by a lookup at once; when no answer comes between two losses, the lookups
    after that back off (KIP-580), so that a coordinator that is named but cannot be reached costs no
    busy loop.

    Refused credentials are tried again too, as a password may be changed on either side, but ever more rarely:
    some brokers lock a user out after a number of attempts.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
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

    def ended(self) -> None:
        """Record that the lookup was cancelled, or ended with a coordinator; the next one may start at once."""
        self.looking = False

    def failed(self, now_ms: int, *, refused: bool = False) -> None:
        """Record that a lookup ended without a coordinator, perhaps for credentials that were refused."""
        self.looking = False
        self._back_off(now_ms, refused=refused)

    def lost(self, now_ms: int, *, refused: bool = False) -> None:
        """Record that the coordinator has moved or was lost, and when to look it up again.

        The first time that credentials are refused, that is at once, as a new token may be accepted.
        """
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
        """When a lookup may start, where one is needed; None while one is under way."""
        return None if self.looking else self._retry_at_ms

    def _back_off(self, now_ms: int, *, refused: bool = False) -> None:
        if refused:
            delay_ms = self._refused_backoff.backoff_ms(self._refusals, self._random)
            self._retry_at_ms = now_ms + delay_ms
            self._refusals += 1
            return
        self._retry_at_ms = now_ms + self._backoff.backoff_ms(self._losses, self._random)
        self._losses += 1
