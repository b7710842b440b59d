"""The requests of a member in flight, and the types of requests that it may send."""

from typing import Any, Final, NamedTuple

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.types import Generation
from groupsdk.wire.messages.configs import DescribeConfigsRequest
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupsdk.wire.schema import ApiKey, Request


PARKED: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
"""Requests that the coordinator may hold for long.

Kafka reads nothing more from their connection meanwhile, and does not expel the member.
"""

MembershipRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | DescribeGroupsRequest
    | ConsumerGroupHeartbeatRequest
    | DescribeConfigsRequest
)
"""The requests that a member sends to its group coordinator."""

CoordinatorRequest = Request[Any]
"""The requests that the caller may send to the coordinator, in the newest version: all but the membership's own."""


def payload(request: MembershipRequest | CoordinatorRequest) -> tuple[str, int]:
    """Return a name for the user data in a request, and its size in bytes; "" and 0 if there is none."""
    match request:
        case JoinGroupRequest():
            return "metadata", sum(len(protocol.metadata) for protocol in request.protocols)
        case SyncGroupRequest():
            return "a plan", sum(len(each.assignment) for each in request.assignments)
        case _:
            return "", 0


@dataclass(frozen=True, slots=True)
class InFlightRequest:
    """A request that is still unanswered."""

    request_id: int
    api: ApiKey
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
        """Return whether it is the membership's own request of one of these APIs; the caller may send the same APIs."""
        return self.caller_request_id is None and self.api in apis

    @property
    def description(self) -> str:
        """Name the request and what is in it."""
        if not self.payload_bytes:
            return self.api.name
        return f"{self.api.name} with {self.payload} of {self.payload_bytes} bytes"


class InFlightSummary(NamedTuple):
    """The requests in flight, as the guards of a step need them."""

    first: InFlightRequest | None
    """The request that is overdue first, the caller's own among them."""
    apis: frozenset[ApiKey]
    """The APIs of the membership's requests."""


_NOTHING_IN_FLIGHT: Final = InFlightSummary(None, frozenset())


class InFlightRequests:
    """All requests in flight, by id. Ids are never used again."""

    def __init__(self) -> None:
        self.summary = _NOTHING_IN_FLIGHT
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
        """Record a request that is being sent, with name and size of the user data in it, and return its id."""
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
        self._sum_up()
        return self._last_id

    def take(self, request_id: int) -> InFlightRequest | None:
        """Remove and return a request; None if it was abandoned."""
        request = self._in_flight.pop(request_id, None)
        self._sum_up()
        return request

    def abandon(self, *apis: ApiKey) -> None:
        """Forget the membership's requests of these APIs, so that their answers are ignored."""
        gone = [each.request_id for each in self._in_flight.values() if each.is_one_of(*apis)]
        for request_id in gone:
            del self._in_flight[request_id]
        self._sum_up()

    def clear(self) -> tuple[InFlightRequest, ...]:
        """Forget all requests and return them."""
        gone = tuple(self._in_flight.values())
        self._in_flight.clear()
        self.summary = _NOTHING_IN_FLIGHT
        return gone

    def _sum_up(self) -> None:
        first: InFlightRequest | None = None
        apis: set[ApiKey] = set()
        for request in self._in_flight.values():
            if first is None or request.deadline_ms < first.deadline_ms:
                first = request
            if request.caller_request_id is None:
                apis.add(request.api)
        self.summary = InFlightSummary(first, frozenset(apis))
