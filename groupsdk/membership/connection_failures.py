"""Explain why the coordinator cannot be reached: requests lost with a connection, outages, and their log lines."""

import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from groupsdk.errors import GroupSdkError
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.wire.schema import ApiKey


WARN_AFTER_MS: Final = 5_000
"""For how long a member wants a coordinator in vain before its log warns of that."""
WARN_EVERY_MS: Final = 30_000
"""How often it warns from then on."""
_WARN_AT: Final = 3
_MAX_KEYS: Final = 100

# In the order in which a member needs them: an answer to one shows that those before it get through too,
# while the heartbeats and joins around a plan that no broker takes are answered all the time.
_ORDER: Final = (ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)


@dataclass(slots=True)
class _Loss:
    count: int
    text: str
    warn_at: int = _WARN_AT


class ConnectionFailures:
    """The requests that had no answer when their connection was lost, by API.

    Nobody tells a client why a connection was closed: a broker does it to a request that is larger than its
    socket.request.max.bytes. A request that meets with it again and again is the only sign.
    """

    def __init__(self) -> None:
        self._failures: dict[ApiKey, _Loss] = {}
        self._unreachable: str | None = None

    @property
    def trouble(self) -> str | None:
        """What was lost last and has not got through since; None where nothing is.

        Where nobody can be reached, that: requests cannot be to blame for it.
        """
        if self._unreachable is not None:
            return self._unreachable
        return next((loss.text for loss in reversed(self._failures.values())), None)

    def lost(self, error: GroupSdkError, flights: Iterable[InFlightRequest]) -> int:
        """Note what a connection that broke has cost; return the level to log it with."""
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
        """Note that there was no connection, so that nothing was sent."""
        self._unreachable = str(error)

    def answered(self, api: ApiKey) -> None:
        """Note that a request got through."""
        self._unreachable = None
        if api in _ORDER:
            for each in _ORDER[: _ORDER.index(api) + 1]:
                self._failures.pop(each, None)


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


class LogThinner:
    """Log what repeats itself in an outage at the first, second, fourth, eighth time and so on."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}

    def thinned(self, key: Hashable, level: int) -> tuple[int, str]:
        """Return the level to log a line with, and what to put behind it.

        Args:
            key: the same for lines that say the same.
            level: that of the line where it is logged; else it is DEBUG.
        """
        if len(self._counts) >= _MAX_KEYS:
            self._counts.clear()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        shown = level if count & (count - 1) == 0 else logging.DEBUG
        return shown, f" ({count} times by now)" if count > 1 else ""

    def calm(self) -> None:
        """Note that all is well again: what comes next is logged as if for the first time."""
        self._counts.clear()
