"""Write what a member asks of its group coordinator."""

from collections.abc import Mapping, Sequence

from groupsdk.config import MemberConfig
from groupsdk.error_code import ErrorCode
from groupsdk.membership.rejoin import MAX_REASON_LENGTH
from groupsdk.types import Generation, ProtocolMetadata
from groupsdk.wire.messages.describe_groups import DescribeGroupsRequest
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from groupsdk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.messages.offset_fetch import OffsetFetchRequest
from groupsdk.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from groupsdk.wire.schema import ApiKey


MembershipRequest = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | DescribeGroupsRequest
)
"""The requests that a member sends to its group coordinator."""

CoordinatorRequest = (
    OffsetCommitRequest | OffsetFetchRequest | MetadataRequest | DescribeGroupsRequest
)
"""What the caller may ask of the coordinator besides; in the shape of the newest version."""


def payload(request: MembershipRequest | CoordinatorRequest) -> tuple[str, int]:
    """Return what the user put into a request, and its size in bytes; "" and 0 for nothing."""
    match request:
        case JoinGroupRequest():
            return "metadata", sum(len(protocol.metadata) for protocol in request.protocols)
        case SyncGroupRequest():
            return "a plan", sum(len(each.assignment) for each in request.assignments)
        case _:
            return "", 0


def in_words(config: MemberConfig, api: ApiKey, code: int) -> str:
    """Name a request for the error about it, with the setting of ours that the error is about."""
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
    """Ask to be in the next generation; the reason is cut to what Kafka's client sends (KIP-800)."""
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
    """Ask for this member's assignment; the leader hands in everyone's."""
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
    """Say that this member lives."""
    return HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: MemberConfig, member_id: str, reason: str) -> LeaveGroupRequest:
    """Ask to be dropped from the group now instead of after the session timeout.

    Without the instance id, as Kafka's client does: the member id says which process is meant.
    """
    return LeaveGroupRequest(
        group_id=config.group_id,
        members=(MemberIdentity(member_id=member_id, reason=reason[:MAX_REASON_LENGTH]),),
    )
