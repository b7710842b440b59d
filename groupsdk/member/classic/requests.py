"""The requests of a member of the classic protocol: build them, validate the responses that carry no error code."""

from collections.abc import Mapping, Sequence
from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, GroupSdkError, InconsistentGroupProtocolError
from groupsdk.member.requests import PARKED
from groupsdk.settings.config import MemberConfig
from groupsdk.types import NO_GENERATION_ID, Generation, GroupMembers, ProtocolMetadata
from groupsdk.wire.messages import groups as messages
from groupsdk.wire.schema import ApiKey


MAX_REASON_LENGTH: Final = 255
"""Longer reasons are cut, as Kafka's client does (KIP-800)."""

JOINING: Final = frozenset({*PARKED, ApiKey.DESCRIBE_GROUPS})
"""The requests of an attempt to join; the last one finds out why a member was refused."""

_INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def in_words(config: MemberConfig, api: ApiKey, code: int) -> str:
    """Describe a request for the message of an error about it, with the setting of the member that is at fault."""
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
) -> messages.JoinGroupRequest:
    """Build a JoinGroup request; the reason is truncated as in Kafka's client (KIP-800)."""
    return messages.JoinGroupRequest(
        group_id=config.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=protocol_type,
        protocols=tuple(
            messages.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in protocols
        ),
        reason=reason[:MAX_REASON_LENGTH],
    )


def sync_request(
    config: MemberConfig, generation: Generation, protocol_type: str, plan: Mapping[str, bytes]
) -> messages.SyncGroupRequest:
    """Build a SyncGroup request; the leader's contains every assignment, a follower's none."""
    return messages.SyncGroupRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
        protocol_type=protocol_type,
        protocol_name=generation.protocol_name,
        assignments=tuple(
            messages.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in sorted(plan.items())
        ),
    )


def heartbeat_request(config: MemberConfig, generation: Generation) -> messages.HeartbeatRequest:
    return messages.HeartbeatRequest(
        group_id=config.group_id,
        generation_id=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=config.group_instance_id,
    )


def leave_request(config: MemberConfig, member_id: str, reason: str) -> messages.LeaveGroupRequest:
    """Build a LeaveGroup request; its reason is truncated as in Kafka's client (KIP-800).

    Without the instance id, as Kafka's client does: the member id says which process is meant.
    """
    return messages.LeaveGroupRequest(
        group_id=config.group_id,
        members=(messages.MemberIdentity(member_id=member_id, reason=reason[:MAX_REASON_LENGTH]),),
    )


def join_response_error(
    response: messages.JoinGroupResponse, protocol_type: str, protocols: Sequence[ProtocolMetadata]
) -> GroupSdkError | None:
    """Return the error, if any, of a JoinGroup response that contradicts itself or the member (KIP-559)."""
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
    response: messages.SyncGroupResponse, protocol_type: str, generation: Generation
) -> GroupSdkError | None:
    """Return InconsistentGroupProtocolError for a SyncGroup response of another protocol (KIP-559)."""
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


def joined_members(response: messages.JoinGroupResponse) -> GroupMembers:
    """Return the group's members from the leader's JoinGroup response, ordered by id."""
    members = sorted(response.members, key=lambda member: member.member_id)
    return GroupMembers(
        {member.member_id: member.metadata for member in members},
        {
            member.member_id: member.group_instance_id
            for member in members
            if member.group_instance_id is not None
        },
    )
