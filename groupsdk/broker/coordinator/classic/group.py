"""One classic group: its state, its members, and the counts on which decisions are based."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from groupsdk.broker.coordinator.classic.member import (
    GroupMember,
    Parked,
    PendingMember,
    Protocols,
    choose_protocol,
    largest_metadata,
    metadata_of,
    subscribed_topics,
)
from groupsdk.broker.coordinator.group_status import TRANSITIONS, GroupState, GroupTrigger
from groupsdk.broker.coordinator.runtime.contract import CoordinatorRecord
from groupsdk.broker.coordinator.runtime.deadlines import NEVER, Deadline
from groupsdk.error_code import ErrorCode
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.twin import maker


NO_TIMESTAMP = -1
_MEMBER_BYTES = 64
"""The minimum size of a member in the group's record, in bytes, besides its metadata and assignment."""

_new_member_metadata = maker(MemberMetadata)


class ClassicGroup(Deadline):
    """One group of the classic protocol (Kafka: ClassicGroup); its deadline is the end of its rebalance phase.

    It keeps its own fields consistent and makes no decisions. Fields that most groups do not need (static members,
    pending member ids) are None until used.

    What lasts is the group's last record, which is not kept: `replay` sets the fields from it, and a rebalance changes
    them until the next record. A rebalance is in no record: its members, generation and parked requests are lost when
    the log is loaded again.

    Attributes:
        state_timestamp_ms: when it entered its state; -1: unknown.
        protocol_type: such as "consumer"; None for a group that has only ever had offsets.
        supported: how many members support each protocol.
        metadata_bytes: the sum of each member's largest metadata.
        awaiting_joins: how many members have a parked JoinGroup.
        pending_syncs: the member ids that have not synced in this generation; None: all have, or none is expected.
        pending_joins: assigned member ids that have not joined with it yet (KIP-394), by id; None: none.
        static_members: the member id of each instance id (KIP-345); None: none.
        new_member_added: whether a member joined in the current part of the initial rebalance delay.
        initial_remaining_ms: by how much the initial rebalance delay may still be extended.
        initial_delay_ms: the length of the current part of the initial rebalance delay.
    """

    __slots__ = (
        "_subscribed_topics",
        "_subscriptions",
        "awaiting_joins",
        "generation_id",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "leader_id",
        "members",
        "metadata_bytes",
        "new_member_added",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "supported",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        super().__init__()
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, GroupMember] = {}
        self.static_members: dict[str, str] | None = None
        self.pending_joins: dict[str, PendingMember] | None = None
        self.pending_syncs: set[str] | None = None
        self.supported: dict[str, int] = {}
        self.metadata_bytes = 0
        self.awaiting_joins = 0
        self._subscriptions: frozenset[bytes] | None = None
        self._subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False
        self.initial_remaining_ms = 0
        self.initial_delay_ms = 0

    def replay(self, value: GroupMetadataValue) -> list[GroupMember]:
        """Apply a record of the group, which is then Stable with its members, or Empty. Return the members it removes.

        A current member keeps its fields that are in no record, also a static member with a new member id.
        """
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.generation_id = value.generation
        if [(each.member_id, each.group_instance_id) for each in value.members] == [
            (each.member_id, each.instance_id) for each in self.members.values()
        ]:
            gone = []
            for member, each in zip(self.members.values(), value.members, strict=True):
                self._replay_member(member, each)
        else:
            gone = self._replay_members(value.members)
        self.leader_id = value.leader or next(iter(self.members), None)
        self.move(
            GroupTrigger.MEMBERS_RECORDED if self.members else GroupTrigger.EMPTY_RECORDED,
            value.current_state_timestamp,
        )
        self._keep_subscriptions()
        return gone

    def _replay_members(self, members: Iterable[MemberMetadata]) -> list[GroupMember]:
        """Replace the members by those of a record, keeping known ones. Return the removed ones."""
        known, self.members = self.members, {}
        old_ids, self.static_members = self.static_members or {}, None
        for each in members:
            member = known.pop(each.member_id, None)
            if member is None and each.group_instance_id in old_ids:
                member = known.pop(old_ids[each.group_instance_id], None)
            if member is None:
                member = GroupMember(
                    group=self,
                    member_id=each.member_id,
                    instance_id=None,
                    client_id="",
                    client_host="",
                    rebalance_timeout_ms=0,
                    session_timeout_ms=0,
                    protocols=(),
                )
            if self.pending_syncs is not None and member.member_id in self.pending_syncs:
                self.pending_syncs.discard(member.member_id)
                self.pending_syncs.add(each.member_id)
            self._replay_member(member, each)
            self._put(member)
        for member in known.values():
            self._let_go(member)
            self.discard_pending_sync(member.member_id)
        return list(known.values())

    def _replay_member(self, member: GroupMember, value: MemberMetadata) -> None:
        name = self.protocol_name
        if not _offers(member.protocols, name, value.subscription):
            self.set_protocols(member, ((name or "", value.subscription),))
        member.replay(value)

    def with_assignments(self, assignments: Mapping[str, bytes], now_ms: int) -> GroupMetadataValue:
        """Build the record of the current generation; raise KeyError if a member has no assignment."""
        name = self.protocol_name
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=name,
            leader=self.leader_id,
            current_state_timestamp=now_ms,
            members=tuple(
                [
                    _new_member_metadata(
                        member_id=member.member_id,
                        group_instance_id=member.instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=metadata_of(member.protocols, name),
                        assignment=assignments[member.member_id],
                    )
                    for member in self.members.values()
                ]
            ),
        )

    def with_static_member(self, old_id: str, member: MemberMetadata) -> GroupMetadataValue:
        """Build the record in which a static member has a new member id and keeps its assignment."""
        value = self.with_assignments(
            {each.member_id: each.assignment for each in self.members.values()},
            self.state_timestamp_ms,
        )
        return replace(
            value,
            leader=member.member_id if value.leader == old_id else value.leader,
            members=tuple(
                replace(member, assignment=each.assignment) if each.member_id == old_id else each
                for each in value.members
            ),
        )

    def snapshot(self) -> tuple[Any, ...]:
        """Return what a conversion takes over, in a form that can be compared with a later one."""
        members = [
            (m, m.protocols, m.assignment, m.session_timeout_ms, m.rebalance_timeout_ms)
            for m in self.members.values()
        ]
        return self.state, self.generation_id, members

    def move(self, trigger: GroupTrigger, now_ms: int) -> None:
        """Enter the next state."""
        following = TRANSITIONS.get((self.state, trigger))
        if following is None:
            raise RuntimeError(
                f"group {self.group_id}, generation {self.generation_id}: no transition from"
                f" {self.state.value} when {trigger.value}"
            )
        self.previous_state = self.state
        self.state = following
        self.state_timestamp_ms = now_ms

    @property
    def is_in_initial_rebalance(self) -> bool:
        """Whether the group is in its initial rebalance delay, waiting for its first members (KIP-134)."""
        return (
            self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY
        )

    @property
    def has_all_members_joined(self) -> bool:
        """Whether every member has a parked JoinGroup, and every assigned member id has joined."""
        return self.awaiting_joins == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of its members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether members subscribe to a topic; True for consumers whose subscriptions are unknown."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def begin_generation(self, now_ms: int) -> None:
        """Start the next generation with the current members: CompletingRebalance, or Empty if there are none."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self._keep_subscriptions()
            self.move(GroupTrigger.MEMBERS_JOINED, now_ms)
        else:
            self.protocol_name = None
            self._keep_subscriptions()
            self.move(GroupTrigger.ALL_GONE, now_ms)
        self.pending_syncs = None

    def validate(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID if another member has the instance id (KIP-345), or NONE."""
        if instance_id is not None:
            known = self.static_member_id(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def static_member_id(self, instance_id: str) -> str | None:
        """Return the member id that has an instance id; None if there is none."""
        return self.static_members.get(instance_id) if self.static_members else None

    def is_pending(self, member_id: str) -> bool:
        """Return whether a member id was assigned and has not joined yet (KIP-394)."""
        return self.pending_joins is not None and member_id in self.pending_joins

    def add_pending(self, pending: PendingMember) -> None:
        """Record an assigned member id that has to join."""
        if self.pending_joins is None:
            self.pending_joins = {}
        self.pending_joins[pending.member_id] = pending

    def drop_pending(self, member_id: str) -> PendingMember | None:
        """Remove and return an assigned member id that has not joined; None if it is unknown."""
        if self.pending_joins is None:
            return None
        pending = self.pending_joins.pop(member_id, None)
        if not self.pending_joins:
            self.pending_joins = None
        return pending

    def add(self, member: GroupMember) -> None:
        """Add a member; the first one becomes leader."""
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._put(member)
        self._count(member.protocols, 1)
        if member.join is not None:
            self.awaiting_joins += 1

    def remove(self, member: GroupMember) -> None:
        """Remove a member; if it was the leader, the longest-standing one becomes leader."""
        del self.members[member.member_id]
        self._let_go(member)
        instance_id = member.instance_id
        if instance_id is not None and self.static_member_id(instance_id) == member.member_id:
            static_members = self.static_members or {}
            static_members.pop(instance_id, None)
            self.static_members = static_members or None
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self.discard_pending_sync(member.member_id)

    def _put(self, member: GroupMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            if self.static_members is None:
                self.static_members = {}
            self.static_members[member.instance_id] = member.member_id

    def _let_go(self, member: GroupMember) -> None:
        member.deadline_ms = NEVER
        self._count(member.protocols, -1)
        if member.join is not None:
            self.awaiting_joins -= 1

    def rename(self, member: GroupMember, member_id: str) -> None:
        """Change the member id of a static member, keeping its state."""
        old = member.member_id
        del self.members[old]
        self.members[member_id] = member
        member.member_id = member_id
        if member.instance_id is not None and self.static_members is not None:
            self.static_members[member.instance_id] = member_id
        if self.leader_id == old:
            self.leader_id = member_id
        if self.pending_syncs and old in self.pending_syncs:
            self.pending_syncs.discard(old)
            self.pending_syncs.add(member_id)

    def elect_joined_leader(self) -> bool:
        """Keep the leader, or choose a new one, among the joined members; False if no member has joined."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.join is not None:
            return True
        joined = next((member for member in self.members.values() if member.join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined.member_id
        return True

    def park_join(self, member: GroupMember, parked: Parked) -> Parked | None:
        """Park the JoinGroup of a member. Return the one that it replaces; None if none was parked."""
        old = member.join
        if old is None:
            self.awaiting_joins += 1
        member.join = parked
        return old

    def take_join(self, member: GroupMember) -> Parked | None:
        """Remove and return the parked JoinGroup of a member; None if none is parked. The caller answers it."""
        parked = member.join
        if parked is not None:
            member.join = None
            self.awaiting_joins -= 1
        return parked

    def discard_pending_sync(self, member_id: str) -> bool:
        """Record that a member has synced, or will not. Return True if it was the last one."""
        if self.pending_syncs is None:
            return False
        self.pending_syncs.discard(member_id)
        if self.pending_syncs:
            return False
        self.pending_syncs = None
        return True

    def supports(self, protocol_type: str, names: Sequence[str]) -> bool:
        """Return whether a member with this protocol type and these protocols may join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and names)
        if self.protocol_type != protocol_type:
            return False
        count, supported = len(self.members), self.supported
        for name in names:  # noqa: SIM110 - any() takes twice as long, for every join
            if supported.get(name, 0) == count:
                return True
        return False

    def record_bytes_with(self, member_id: str | None, metadata_bytes: int) -> int:
        """Return the least size of the group's record in bytes, if a known or new member has metadata of this size."""
        old = None if member_id is None else self.members.get(member_id)
        kept = self.metadata_bytes - (0 if old is None else largest_metadata(old.protocols))
        return kept + metadata_bytes + _MEMBER_BYTES * (len(self.members) + (old is None))

    def set_protocols(self, member: GroupMember, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def select_protocol(self) -> str | None:
        """Return the protocol that a generation would have if it started now; None if no protocol is supported by all."""
        return choose_protocol(
            (member.protocols for member in self.members.values()), self.supported
        )

    def select_protocol_with(self, member: GroupMember, protocols: Protocols) -> str | None:
        """Return the protocol that a generation would have if one member offered these protocols."""
        if protocols == member.protocols:
            return self.select_protocol()
        offers = [protocols if each is member else each.protocols for each in self.members.values()]
        return choose_protocol(offers, Counter(name for each in offers for name, _ in each))

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        """For consumers, the topics of the last generation; None: unknown.

        Decoded on first use, which few groups have: one member may subscribe to tens of thousands.
        """
        if self._subscriptions is not None:
            self._subscribed_topics = subscribed_topics(self._subscriptions)
            self._subscriptions = None
        return self._subscribed_topics

    def _keep_subscriptions(self) -> None:
        """Keep the members' metadata for the current protocol, from which `subscribed_topics` follow."""
        name = self.protocol_name
        self._subscribed_topics = self._subscriptions = None
        if self.uses_consumer_protocol and not (self.members and name is None):
            self._subscriptions = frozenset(
                metadata_of(member.protocols, name) for member in self.members.values()
            )

    def _count(self, protocols: Protocols, step: int) -> None:
        self.metadata_bytes += step * largest_metadata(protocols)
        supported = self.supported
        for name, _ in protocols:
            count = supported.get(name, 0) + step
            if count:
                supported[name] = count
            else:
                del supported[name]


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(GroupMetadataKey(group_id), value)


def empty_group(group_id: str, now_ms: int) -> CoordinatorRecord:
    """Return the GroupMetadata record that creates a classic group without members."""
    return group_metadata(group_id, GroupMetadataValue(current_state_timestamp=now_ms))


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """Return the record that removes a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group_id), None)


def _offers(protocols: Protocols, name: str | None, metadata: bytes) -> bool:
    for offered, theirs in protocols:
        if offered == name:
            return theirs == metadata
    return False
