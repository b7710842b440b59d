"""The requests of a member: build them, keep those in flight, validate the responses that carry no error code."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from groupsdk.config import MemberConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, GroupSdkError, InconsistentGroupProtocolError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.types import NO_GENERATION_ID, Generation, GroupMembers, ProtocolMetadata
from groupsdk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.describe_configs import DescribeConfigsRequest
from groupsdk.wire.messages.describe_groups import DescribeGroupsRequest
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from groupsdk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.messages.offset_fetch import OffsetFetchRequest
from groupsdk.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from groupsdk.wire.schema import ApiKey


MAX_REASON_LENGTH: Final = 255
"""Longer reasons are cut, as Kafka's client does (KIP-800)."""

PARKED: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Requests that the coordinator may hold for long.

Kafka reads nothing more from their connection meanwhile, and does not expel the member.
"""

JOINING: Final = (*PARKED, ApiKey.DESCRIBE_GROUPS)
"""The requests of an attempt to join; the last one finds out why a member was refused."""

_INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL

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

CoordinatorRequest = (
    OffsetCommitRequest | OffsetFetchRequest | MetadataRequest | DescribeGroupsRequest
)
"""What the caller may ask of the coordinator besides; in the shape of the newest version."""


def payload(request: MembershipRequest | CoordinatorRequest) -> tuple[str, int]:
    """Return a name for the user data in a request, and its size in bytes; "" and 0 if there is none."""
    match request:
        case JoinGroupRequest():
            return "metadata", sum(len(protocol.metadata) for protocol in request.protocols)
        case SyncGroupRequest():
            return "a plan", sum(len(each.assignment) for each in request.assignments)
        case _:
            return "", 0


def in_words(config: MemberConfig, api: ApiKey, code: int) -> str:
    """Describe a request for the message of an error about it, with the setting of the member that is at fault.

    Args:
        config: the member's settings.
        api: the API of the request.
        code: the error code of the response.
    """
    asked = f"{api.name} of group {config.group_id!r}"
    if code == ErrorCode.FENCED_INSTANCE_ID:
        return f"{asked} as group.instance.id={config.group_instance_id!r}"
    if code == ErrorCode.INVALID_SESSION_TIMEOUT:
        return f"{asked} with session.timeout.ms={config.session_timeout_ms}"
    return asked


def join_request(
    config: MemberConfig,
    member_id: str,
    protocol_type: str,
    protocols: Sequence[ProtocolMetadata],
    reason: str,
) -> JoinGroupRequest:
    """Build a JoinGroup request; the reason is truncated as in Kafka's client (KIP-800).

    Args:
        config: the member's settings.
        member_id: the member's id; "" in the first join.
        protocol_type: the group's protocol type.
        protocols: the offered protocols with the metadata for each, by preference.
        reason: why the member joins.
    """
    return JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=protocol_type,
        protocols=tuple(
            JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
        ),
        reason=reason[:MAX_REASON_LENGTH],
    )


def sync_request(
    config: MemberConfig, generation: Generation, protocol_type: str, plan: Mapping[str, bytes]
) -> SyncGroupRequest:
    """Build a SyncGroup request; the leader's contains every assignment.

    Args:
        config: the member's settings.
        generation: the new generation.
        protocol_type: the group's protocol type.
        plan: the assignment of each member, encoded, by member id; empty from a follower.
    """
    return SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=protocol_type,
        protocol_name=generation.protocol_name,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in sorted(plan.items())
        ),
    )


def heartbeat_request(config: MemberConfig, generation: Generation) -> HeartbeatRequest:
    """Build a Heartbeat request.

    Args:
        config: the member's settings.
        generation: the member's generation.
    """
    return HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: MemberConfig, member_id: str, reason: str) -> LeaveGroupRequest:
    """Build a LeaveGroup request, which ends the membership now instead of after the session timeout.

    Without the instance id, as Kafka's client does: the member id says which process is meant.

    Args:
        config: the member's settings.
        member_id: the member's id.
        reason: why it leaves; truncated as in Kafka's client (KIP-800).
    """
    return LeaveGroupRequest(
        group_id=config.group_id,
        members=(MemberIdentity(member_id=member_id, reason=reason[:MAX_REASON_LENGTH]),),
    )


def join_response_error(
    response: JoinGroupResponse, protocol_type: str, protocols: Sequence[ProtocolMetadata]
) -> GroupSdkError | None:
    """Return the error in a JoinGroup response without an error code, if any (KIP-559).

    Args:
        response: the response.
        protocol_type: the protocol type that the member joined with.
        protocols: the protocols that it offered.

    Returns:
        InconsistentGroupProtocolError, or DecodeError for a response that contradicts itself; None: the response is
        valid.
    """
    if response.protocol_type is not None and response.protocol_type != protocol_type:
        return InconsistentGroupProtocolError(
            _INCONSISTENT,
            f"joined a group of protocol type {response.protocol_type!r} as {protocol_type!r}",
        )
    if response.protocol_name not in [protocol.name for protocol in protocols]:
        return InconsistentGroupProtocolError(
            _INCONSISTENT, f"the group chose {response.protocol_name!r}, which was not offered"
        )
    if response.generation_id <= NO_GENERATION_ID or not response.member_id:
        return DecodeError(
            "JoinGroupResponse without an error names no generation or member:"
            f" generation {response.generation_id}, member {response.member_id!r}"
        )
    ids = [member.member_id for member in response.members]
    if len(set(ids)) != len(ids):
        return DecodeError("JoinGroupResponse names a member twice")
    if response.leader == response.member_id and response.member_id not in ids:
        return DecodeError(
            f"JoinGroupResponse makes {response.member_id!r} the leader of a group that does not list it"
        )
    return None


def sync_response_error(
    response: SyncGroupResponse, protocol_type: str, generation: Generation
) -> GroupSdkError | None:
    """Return the error in a SyncGroup response without an error code, if any (KIP-559).

    Args:
        response: the response.
        protocol_type: the protocol type that the member joined with.
        generation: the generation that it joined.

    Returns:
        InconsistentGroupProtocolError; None: the response is valid.
    """
    if response.protocol_type is not None and response.protocol_type != protocol_type:
        return InconsistentGroupProtocolError(
            _INCONSISTENT,
            f"synced with a group of protocol type {response.protocol_type!r} as {protocol_type!r}",
        )
    if response.protocol_name is not None and response.protocol_name != generation.protocol_name:
        return InconsistentGroupProtocolError(
            _INCONSISTENT,
            f"joined under protocol {generation.protocol_name!r}, synced under {response.protocol_name!r}",
        )
    return None


def joined_members(response: JoinGroupResponse) -> GroupMembers:
    """Return the group's members from the leader's JoinGroup response, ordered by id.

    Args:
        response: the response; a follower's lists no members.
    """
    members = sorted(response.members, key=lambda member: member.member_id)
    return GroupMembers(
        {member.member_id: member.metadata for member in members},
        {
            member.member_id: member.group_instance_id
            for member in members
            if member.group_instance_id is not None
        },
    )


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


_NOTHING_IN_FLIGHT: Final = InFlightSummary(None, False, False, False, False)


class InFlightRequests:
    """All requests in flight, by id. Ids are never used again."""

    def __init__(self) -> None:
        self.summary = _NOTHING_IN_FLIGHT
        """What the guards of a step ask about the requests in flight; another object after each change."""
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
        self._sum_up()
        return self._last_id

    def take(self, request_id: int) -> InFlightRequest | None:
        """Remove and return a request; None if it was abandoned.

        Args:
            request_id: the id of the `Send`.
        """
        found = self._in_flight.pop(request_id, None)
        self._sum_up()
        return found

    def abandon(self, *apis: ApiKey) -> None:
        """Forget the membership's requests of these APIs, so that their answers are ignored.

        Args:
            apis: one or more APIs.
        """
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

    def has(self, *apis: ApiKey) -> bool:
        """Return whether a request of the membership's, of one of these APIs, is in flight.

        Args:
            apis: one or more APIs.
        """
        return any(each.is_one_of(*apis) for each in self._in_flight.values())

    def _sum_up(self) -> None:
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
        self.summary = InFlightSummary(first, parked, joining, heartbeat, leave)
