"""Check the coordinator's answers that carry no error, and take what is in them."""

from collections.abc import Sequence

from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, GroupSdkError, InconsistentGroupProtocolError
from groupsdk.types import NO_GENERATION_ID, Generation, GroupMembers, ProtocolMetadata
from groupsdk.wire.messages.join_group import JoinGroupResponse
from groupsdk.wire.messages.sync_group import SyncGroupResponse


_INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def wrong_join(
    response: JoinGroupResponse, protocol_type: str, protocols: Sequence[ProtocolMetadata]
) -> GroupSdkError | None:
    """Return what is wrong with a successful join, if anything (KIP-559)."""
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
            f"JoinGroupResponse makes {response.member_id!r} the leader of a group without it"
        )
    return None


def wrong_sync(
    response: SyncGroupResponse, protocol_type: str, generation: Generation
) -> GroupSdkError | None:
    """Return what is wrong with a successful sync, if anything (KIP-559)."""
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
    """Return the group's members as the leader gets them, in the order of their ids."""
    members = sorted(response.members, key=lambda member: member.member_id)
    return GroupMembers(
        {member.member_id: member.metadata for member in members},
        {
            member.member_id: member.group_instance_id
            for member in members
            if member.group_instance_id is not None
        },
    )
