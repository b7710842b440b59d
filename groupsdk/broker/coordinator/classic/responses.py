"""Build the responses to members' requests, for each API version."""

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import metadata_of
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupResponse,
)
from groupsdk.wire.twin import maker


PER_MEMBER_LEAVE_FROM = 3
_NULLABLE_PROTOCOL_NAME = 7

# several are created for every member of every generation
_new_join = maker(JoinGroupResponse)
_new_member = maker(JoinGroupResponseMember)
_new_sync = maker(SyncGroupResponse)

_HEARTBEATS = {code: HeartbeatResponse(error_code=code) for code in ErrorCode}


def heartbeat_answer(error: ErrorCode) -> HeartbeatResponse:
    """Return the response to a Heartbeat with an error code; ErrorCode.NONE: accepted."""
    return _HEARTBEATS[error]


def join_error(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """Build the response to a refused JoinGroup; with MEMBER_ID_REQUIRED it has the assigned member id."""
    return _new_join(
        error_code=error,
        protocol_name=_protocol_name(None, api_version),
        member_id=member_id,
    )


def join_answer(
    group: ClassicGroup,
    member_id: str,
    api_version: int,
    *,
    leader: str | None = None,
    members: bool = False,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Build the response to a JoinGroup when its generation starts; the leader may have to skip assigning (KIP-814)."""
    return _new_join(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=_protocol_name(group.protocol_name, api_version),
        leader=(group.leader_id or "") if leader is None else leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_members(group) if members else (),
    )


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    return _new_sync(error_code=error)


def sync_answer(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """Build the response to a SyncGroup: the member's assignment, and the group's protocol (KIP-559)."""
    return _new_sync(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=assignment,
    )


def leave_answer(
    error: ErrorCode, members: tuple[MemberResponse, ...], api_version: int
) -> LeaveGroupResponse:
    """Build the response to a LeaveGroup; up to version 2 the first member's error becomes the response's."""
    if api_version >= PER_MEMBER_LEAVE_FROM:
        return LeaveGroupResponse(error_code=error, members=members)
    if error is ErrorCode.NONE and members:
        return LeaveGroupResponse(error_code=members[0].error_code)
    return LeaveGroupResponse(error_code=error)


def _members(group: ClassicGroup) -> tuple[JoinGroupResponseMember, ...]:
    name = group.protocol_name
    return tuple(
        [
            _new_member(member.member_id, member.instance_id, metadata_of(member.protocols, name))
            for member in group.members.values()
        ]
    )


def _protocol_name(name: str | None, api_version: int) -> str | None:
    if api_version < _NULLABLE_PROTOCOL_NAME:
        return name or ""
    return name or None
