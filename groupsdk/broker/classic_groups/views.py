"""Immutable snapshots of classic groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from groupsdk.broker.classic_groups.group import ClassicGroup
from groupsdk.broker.classic_groups.member import GroupMember
from groupsdk.broker.group_status import GroupState, GroupStatus
from groupsdk.broker.runtime.deadlines import NEVER


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of a group.

    Attributes:
        protocols: its metadata by the protocols that it offers, in its order of preference.
        waits_for: "join" or "sync" while such a request of it is parked, None otherwise.
        session_until_ms: when it is expelled unless it is heard of; None: not as long as it waits.
        joined_ms: when it came to the group, a static member for the last time; None: before the broker started.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes
    is_leader: bool
    waits_for: str | None
    session_until_ms: int | None
    joined_ms: int | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group.

    Attributes:
        protocol_type: "consumer", for example; None for a group that only ever had offsets.
        protocol_name: the protocol of this generation; None without one.
        members: by their ids.
        pending_members: ids that were handed out and have not come back.
        state_since_ms: since when it is in its state; None if its record does not say.
    """

    group_id: str
    state: GroupState
    protocol_type: str | None
    protocol_name: str | None
    generation_id: int
    leader_id: str | None
    members: Mapping[str, MemberView]
    pending_members: tuple[str, ...]
    state_since_ms: int | None


def group_view(group: ClassicGroup) -> GroupView:
    """Return a snapshot of a group."""
    return GroupView(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        generation_id=group.generation_id,
        leader_id=group.leader_id,
        members=MappingProxyType(
            {each.member_id: _member_view(group, each) for each in group.members.values()}
        ),
        pending_members=tuple(group.pending_joins or ()),
        state_since_ms=_since(group),
    )


def group_status(group: ClassicGroup) -> GroupStatus:
    """Return the status of a group."""
    waiting: tuple[str, ...] = ()
    if group.state is GroupState.PREPARING_REBALANCE:
        absent = [each.member_id for each in group.members.values() if each.join is None]
        waiting = (*absent, *(group.pending_joins or ()))
    elif group.pending_syncs:
        waiting = tuple(each for each in group.members if each in group.pending_syncs)
    return GroupStatus(
        group_id=group.group_id,
        state=group.state,
        generation_id=group.generation_id,
        since_ms=_since(group),
        waiting_for=waiting,
        until_ms=None if group.deadline_ms == NEVER else group.deadline_ms,
    )


def _member_view(group: ClassicGroup, member: GroupMember) -> MemberView:
    waits_for = "join" if member.join is not None else "sync" if member.sync is not None else None
    return MemberView(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=MappingProxyType(dict(member.protocols)),
        assignment=member.assignment,
        is_leader=member.member_id == group.leader_id,
        waits_for=waits_for,
        session_until_ms=None if member.deadline_ms == NEVER else member.deadline_ms,
        joined_ms=member.joined_ms,
    )


def _since(group: ClassicGroup) -> int | None:
    return None if group.state_timestamp_ms < 0 else group.state_timestamp_ms
