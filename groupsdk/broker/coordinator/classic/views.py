"""Immutable snapshots of classic groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember
from groupsdk.broker.coordinator.group_status import GroupState, GroupStatus
from groupsdk.broker.coordinator.runtime.deadlines import NEVER
from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolDecoder,
    ConsumerProtocolSubscription,
    is_subscription,
)


@dataclass(frozen=True, slots=True)
class MemberView:
    """A snapshot of one member of a classic group.

    Attributes:
        group_instance_id: its static id (KIP-345); None: a dynamic member.
        client_id: the client.id of its requests.
        client_host: its address in Java's format, with its slash.
        session_timeout_ms: how long it may go without a heartbeat.
        rebalance_timeout_ms: how long a rebalance waits for it.
        protocols: its metadata by the protocols that it offers, in order of preference.
        assignment: its assignment in this generation; empty if it has none.
        is_leader: whether it leads the group.
        waits_for: "join" or "sync" while such a request of it is parked, None otherwise.
        session_until_ms: when its session ends, in milliseconds; None: no deadline is set.
        joined_ms: when it joined the group, for a static member the last time; None: before the broker started.
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

    @property
    def subscription(self) -> ConsumerProtocolSubscription | None:
        """What a consumer joined with: topics, the partitions that it owned, its rack. None for a member of another kind."""
        for metadata in self.protocols.values():
            if is_subscription(metadata):
                return ConsumerProtocolDecoder().subscription(metadata)
        return None

    @property
    def assigned(self) -> Mapping[str, tuple[int, ...]]:
        """A consumer's partitions by topic; empty for a member of another kind, or without an assignment."""
        if not self.assignment or self.subscription is None:
            return {}
        try:
            found = ConsumerProtocolDecoder().assignment(self.assignment)
        except DecodeError:
            return {}
        return {topic: tuple(parts) for topic, parts in found.assigned_partitions.items()}


@dataclass(frozen=True, slots=True)
class GroupView:
    """A snapshot of one classic group.

    Attributes:
        protocol_type: such as "consumer"; None for a group that has only ever had offsets.
        protocol_name: the protocol of this generation; None if it has none.
        leader_id: the leader's member id; None without members.
        members: the members by id.
        pending_members: assigned member ids that have not joined yet (KIP-394).
        state_since_ms: when it entered its state, in milliseconds since 1970; None: unknown.
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
    return GroupView(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        generation_id=group.generation_id,
        leader_id=group.leader_id,
        members=MappingProxyType(
            {member.member_id: _member_view(group, member) for member in group.members.values()}
        ),
        pending_members=tuple(group.pending_joins or ()),
        state_since_ms=_since(group),
    )


def group_status(group: ClassicGroup) -> GroupStatus:
    """Return the status of a classic group, with the members that its rebalance waits for."""
    waiting: tuple[str, ...] = ()
    if group.state is GroupState.PREPARING_REBALANCE:
        absent = [member.member_id for member in group.members.values() if member.join is None]
        waiting = (*absent, *(group.pending_joins or ()))
    elif group.pending_syncs:
        waiting = tuple(member for member in group.members if member in group.pending_syncs)
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
