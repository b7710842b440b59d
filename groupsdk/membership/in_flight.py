"""The requests in flight: when each was sent, under which generation, and its deadline."""

from typing import Final, NamedTuple

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.types import Generation
from groupsdk.wire.schema import ApiKey


PARKED: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Requests that the coordinator may hold for long.

Kafka reads nothing more from their connection meanwhile, and does not expel the member.
"""

JOINING: Final = (*PARKED, ApiKey.DESCRIBE_GROUPS)
"""The requests of an attempt to join; the last one finds out why a member was refused."""


@dataclass(frozen=True, slots=True)
class InFlightRequest:
    """A request that is still unanswered."""

    request_id: int
    """The id of the `Send`."""
    api: ApiKey
    """The API of the request."""
    sent_ms: int
    """When it was sent."""
    deadline_ms: int
    """When it counts as unanswered."""
    generation: Generation
    """The generation at the time of sending: an error about an older one is ignored."""
    payload: str = ""
    """A name for the user data in it, for messages: "metadata" or "a plan"; "" for none."""
    payload_bytes: int = 0
    """The size of the user data, in bytes."""
    caller_request_id: int | None = None
    """The caller's id of its own request; None: one of the membership's."""

    def is_one_of(self, *apis: ApiKey) -> bool:
        """Return whether it is the membership's own request of one of these APIs; the caller may send the same APIs.

        Args:
            apis: one or more APIs.
        """
        return self.caller_request_id is None and self.api in apis

    @property
    def description(self) -> str:
        """Name the request and what is in it."""
        if not self.payload_bytes:
            return self.api.name
        return f"{self.api.name} with {self.payload} of {self.payload_bytes} bytes"


class InFlightSummary(NamedTuple):
    """A summary of the requests in flight for the guards of a step; only `first` includes the caller's requests."""

    first: InFlightRequest | None
    """The request that is overdue first, the callers' among them."""
    parked: bool
    """Whether the coordinator may hold a JoinGroup or SyncGroup."""
    joining: bool
    """Whether an attempt to join is under way."""
    heartbeat: bool
    """Whether a heartbeat is in flight."""
    leave: bool
    """Whether a LeaveGroup is in flight."""


class InFlightRequests:
    """All requests in flight, by id. Ids are never used again."""

    def __init__(self) -> None:
        self._in_flight: dict[int, InFlightRequest] = {}
        self._last_id = 0

    def add(
        self,
        api: ApiKey,
        generation: Generation,
        now_ms: int,
        timeout_ms: int,
        payload: tuple[str, int] = ("", 0),
        caller_request_id: int | None = None,
    ) -> int:
        """Record a request that is being sent, and return its id.

        Args:
            api: the API of the request.
            generation: the generation it is sent under.
            now_ms: the time.
            timeout_ms: how long a response may take, in milliseconds.
            payload: a name for the user data in it, and its size in bytes.
            caller_request_id: the caller's id of its own request; None: one of the membership's.
        """
        self._last_id += 1
        what, size = payload
        self._in_flight[self._last_id] = InFlightRequest(
            request_id=self._last_id,
            api=api,
            sent_ms=now_ms,
            deadline_ms=now_ms + timeout_ms,
            generation=generation,
            payload=what,
            payload_bytes=size,
            caller_request_id=caller_request_id,
        )
        return self._last_id

    def take(self, request_id: int) -> InFlightRequest | None:
        """Remove and return a request; None if it was abandoned.

        Args:
            request_id: the id of the `Send`.
        """
        return self._in_flight.pop(request_id, None)

    def abandon(self, *apis: ApiKey) -> None:
        """Forget the membership's requests of these APIs, so that their answers are ignored.

        Args:
            apis: one or more APIs.
        """
        gone = [each.request_id for each in self._in_flight.values() if each.is_one_of(*apis)]
        for request_id in gone:
            del self._in_flight[request_id]

    def clear(self) -> tuple[InFlightRequest, ...]:
        """Forget all requests and return them."""
        gone = tuple(self._in_flight.values())
        self._in_flight.clear()
        return gone

    def has(self, *apis: ApiKey) -> bool:
        """Return whether a request of the membership's, of one of these APIs, is in flight.

        Args:
            apis: one or more APIs.
        """
        return any(each.is_one_of(*apis) for each in self._in_flight.values())

    def summary(self) -> InFlightSummary:
        """Return the summary for the guards of a step, computed in one pass."""
        first: InFlightRequest | None = None
        parked = joining = heartbeat = leave = False
        for request in self._in_flight.values():
            if first is None or request.deadline_ms < first.deadline_ms:
                first = request
            if request.caller_request_id is not None:
                continue
            api = request.api
            heartbeat = heartbeat or api is ApiKey.HEARTBEAT
            leave = leave or api is ApiKey.LEAVE_GROUP
            parked = parked or api in PARKED
            joining = joining or api in JOINING
        return InFlightSummary(first, parked, joining, heartbeat, leave)
