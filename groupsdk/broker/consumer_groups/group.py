"""One consumer group: what its records say, and nothing else; it changes by `replay` alone."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple
from uuid import UUID

from groupsdk.broker.consumer_groups.member import (
    LEFT_EPOCH,
    NOTHING_HELD,
    ConsumerGroupMember,
    Holdings,
    MemberState,
    partitions_of,
    read_holdings,
    read_state,
)
from groupsdk.broker.consumer_groups.topics import Partitions
from groupsdk.broker.group_status import ConsumerGroupState
from groupsdk.broker.runtime.contract import CoordinatorRecord
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from groupsdk.wire.coordinator_records.declaration import CoordinatorValue


FIRST_EPOCH: Final = 1
"""The group epoch and the assignment epoch of a group of which there is no record yet (KAFKA-20268)."""

GroupKey = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
"""The keys of a consumer group's records: types 3 to 8 and 16."""


GroupRecord = CoordinatorRecord
"""One record of a consumer group, decoded."""


class ResolvedRegex(NamedTuple):
    """The topics that an expression stands for."""

    topics: frozenset[str]
    version: int
    """Of the cluster's metadata, when it was resolved."""
    timestamp_ms: int


class ConsumerGroup:
    """Hold the state that a group's records make up (Kafka: `ConsumerGroup`).

    For reading by everyone, changed by `replay` alone. `replay` takes the decoded records of this one group, in
    the order of the log.

    Attributes:
        epoch: the group epoch.
        metadata_hash: the hash of the topics that the group subscribes to.
        assignment_epoch: the epoch of the target assignment; -1 once its record is deleted.
        assignment_timestamp_ms: when the target was computed; 0 if not known.
        members: by member id.
        static_members: member id by instance id.
        targets: the target of each member.
        regexes: the expressions that are resolved.
    """

    __slots__ = (
        "_holders",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "regexes",
        "static_members",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        """Create a group of which there is no record yet."""
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        # made when it is first asked for: a group of one member, as most are in a broker with many, needs none
        self._holders: dict[UUID, dict[int, str]] | None = None

    def copy(self) -> "ConsumerGroup":
        """Return a group that can replay further records while this one stays as it is."""
        made = ConsumerGroup(self.group_id)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(made, name, dict(value) if isinstance(value, dict) else value)
        if len(self.members) > 1:
            # made here and then kept up to date, rather than anew in each copy
            made._holders = {topic_id: dict(held) for topic_id, held in self.holders.items()}
        else:
            made._holders = None
        return made

    # -- what it is

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group is."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(each.is_reconciled_to(self.assignment_epoch) for each in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def target(self, member_id: str) -> Partitions:
        """Return the target of a member."""
        return self.targets.get(member_id, {})

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        """Return the member that holds an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    @property
    def holders(self) -> Mapping[UUID, Mapping[int, str]]:
        """Which member has each partition assigned, or must still give it up."""
        if self._holders is None:
            self._holders = {}
            for member in self.members.values():
                for holdings in (member.assigned, member.pending):
                    self._hold(member.member_id, holdings)
        return self._holders

    def is_held_by_another(self, member_id: str, topic_id: UUID, partition: int) -> bool:
        """Return whether another member has a partition, or must still give it up."""
        if len(self.members) == 1 and member_id in self.members:
            return False
        holder = self.holders.get(topic_id, {}).get(partition)
        return holder is not None and holder != member_id

    def subscribed_topics(self) -> frozenset[str]:
        """Return the topics that members subscribe to, by name or by a resolved expression."""
        names: set[str] = set()
        # most members of a group subscribe to the same
        for topic_names, regex in {(m.topic_names, m.regex) for m in self.members.values()}:
            resolved = self.regexes.get(regex) if regex else None
            names |= topic_names if resolved is None else topic_names | resolved.topics
        return frozenset(names)

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the topics that one member subscribes to, by name or by a resolved expression."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    # -- how it changes

    def replay(self, record: GroupRecord) -> None:
        """Apply one record of the group.

        Raises:
            ValueError: a tombstone removes what other records still need; the log is not one that a coordinator
                wrote.
        """
        key, value = record
        match key:
            case ConsumerGroupMemberMetadataKey():
                assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
                self._replay_member(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey():
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._replay_assignment(key.member_id, value)
            case ConsumerGroupTargetAssignmentMemberKey():
                if value is None:
                    self.targets.pop(key.member_id, None)
                else:
                    assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
                    self.targets[key.member_id] = partitions_of(value.topic_partitions)
            case ConsumerGroupMetadataKey():
                self._replay_group(value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self._replay_target_metadata(value)
            case ConsumerGroupRegularExpressionKey():
                if value is None:
                    self.regexes.pop(key.regular_expression, None)
                else:
                    assert isinstance(value, ConsumerGroupRegularExpressionValue)
                    topics = frozenset(value.topics)
                    resolved = ResolvedRegex(topics, value.version, value.timestamp)
                    self.regexes[key.regular_expression] = resolved
            case _:
                pass  # type 4, which the metadata hash took the place of

    def _replay_group(self, value: CoordinatorValue | None) -> None:
        if value is None:
            if self.members or self.targets or self.assignment_epoch != LEFT_EPOCH:
                raise ValueError(f"group {self.group_id}: deleted with members or a target left")
            return
        assert isinstance(value, ConsumerGroupMetadataValue)
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def _replay_target_metadata(self, value: CoordinatorValue | None) -> None:
        if value is None:
            self.assignment_epoch, self.assignment_timestamp_ms = LEFT_EPOCH, 0
            return
        assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
        self.assignment_epoch = value.assignment_epoch
        self.assignment_timestamp_ms = value.assignment_timestamp

    def _replay_member(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                if member.epoch != LEFT_EPOCH or member_id in self.targets:
                    text = f"member {member_id} removed with an epoch or a target left"
                    raise ValueError(f"group {self.group_id}: {text}")
                self._remove(member)
            return
        if member is None:
            # Kafka's own: a member without a record 8 has left, as far as the log says
            member = ConsumerGroupMember(member_id=member_id)
        elif member.instance_id is not None:
            self._forget_instance(member)
        member = self.members[member_id] = replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=_one_set(tuple(value.subscribed_topic_names)),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _replay_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member = self.members.get(member_id)
        if member is None:
            if value is None:
                return
            member = ConsumerGroupMember(member_id=member_id)
        self._release(member)
        if value is None:
            self.members[member_id] = replace(
                member,
                epoch=LEFT_EPOCH,
                previous_epoch=LEFT_EPOCH,
                state=MemberState.STABLE,
                assigned=NOTHING_HELD,
                pending=NOTHING_HELD,
            )
            return
        epoch = value.member_epoch
        member = self.members[member_id] = replace(
            member,
            epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=read_state(value.state),
            assigned=read_holdings(value.assigned_partitions, epoch),
            pending=read_holdings(value.partitions_pending_revocation, epoch),
        )
        for holdings in (member.assigned, member.pending):
            self._hold(member_id, holdings)

    def _hold(self, member_id: str, holdings: Holdings) -> None:
        if self._holders is None:
            return
        for topic_id, epochs in holdings.items():
            held = self._holders.setdefault(topic_id, {})
            for partition in epochs:
                held[partition] = member_id

    def _release(self, member: ConsumerGroupMember) -> None:
        if self._holders is None:
            return
        for holdings in (member.assigned, member.pending):
            for topic_id, epochs in holdings.items():
                held = self._holders.get(topic_id, {})
                for partition in epochs:
                    if held.get(partition) == member.member_id:
                        del held[partition]
                if not held:
                    self._holders.pop(topic_id, None)

    def _remove(self, member: ConsumerGroupMember) -> None:
        self._release(member)
        self._forget_instance(member)
        del self.members[member.member_id]
        if len(self.members) <= 1:
            self._holders = None

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]


@lru_cache(1024)
def _one_set(names: tuple[str, ...]) -> frozenset[str]:
    """Return the same set for the same names: most members of a broker subscribe to the same few."""
    return frozenset(names)
