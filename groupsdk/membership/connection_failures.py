"""Track requests lost with a connection until they succeed, and thin out repeated log lines."""

import logging
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from groupsdk.errors import GroupSdkError
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.wire.schema import ApiKey


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
        """Record the requests lost with a connection.

        Args:
            error: why it was lost, for logs and callers.
            flights: the requests that were in flight on it.

        Returns:
            The level to log the loss with: WARNING the more rarely, the longer the same request fails.
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
            for each in _ORDER[: _ORDER.index(api) + 1]:
                self._failures.pop(each, None)


class LogThinner:
    """Log what repeats itself in an outage at the first, second, fourth, eighth time and so on."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}

    def thinned(self, key: Hashable, level: int) -> tuple[int, str]:
        """Return the level for a log line, and the suffix to add to it.

        Args:
            key: equal for lines that say the same.
            level: that of the line where it is logged; else it is DEBUG.
        """
        if len(self._counts) >= _MAX_KEYS:
            self._counts.clear()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        shown = level if count & (count - 1) == 0 else logging.DEBUG
        return shown, f" ({count} times by now)" if count > 1 else ""

    def calm(self) -> None:
        """Record the recovery: the next line is logged as if it were the first."""
        self._counts.clear()
