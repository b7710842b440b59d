"""Immutable snapshots of consumer groups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from uuid import UUID

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import (
    AWAY_EPOCH,
    ConsumerGroupMember,
    MemberState,
    plain,
)
from groupsdk.broker.coordinator.consumer.registry import ConsumerGroupRegistry, TimerKind
from groupsdk.broker.coordinator.consumer.topics import Partitions
from groupsdk.broker.coordinator.group_status import ConsumerGroupState, GroupStatus


TopicName = Callable[[UUID], str]
"""Returns the name of a topic, or its id if the topic was deleted."""


@dataclass(frozen=True, slots=True)
class ConsumerMemberView:
    """A snapshot of one member of a consumer group. Partitions are by topic name, or by the id of a deleted topic.

    Attributes:
        group_instance_id: its static id (KIP-345); None: a dynamic member.
        rack_id: its rack; None: unknown.
        client_id: the client.id of its requests.
        client_host: its address in Java's format, with its slash.
        is_classic: whether it uses the classic protocol.
        subscribed_topic_regex: its regular expression; None: it subscribes by names only.
        server_assignor: the assignor it requests; None: any.
        rebalance_timeout_ms: how long it may take to revoke partitions.
        epoch: the last epoch sent to it; -2 for a static member that left temporarily.
        state: its reconciliation state.
        assigned: its current partitions.
        pending_revocation: the partitions that it must revoke before it can proceed.
        target: its target assignment.
        waits_for: the members that still hold a part of its target.
        session_until_ms: when it is removed unless it sends a heartbeat; None: no deadline is set.
        rebalance_until_ms: when it is removed unless it completes its pending step; None: it has none.
    """

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    is_classic: bool
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str | None
    server_assignor: str | None
    rebalance_timeout_ms: int
    epoch: int
    state: MemberState
    assigned: Mapping[str, tuple[int, ...]]
    pending_revocation: Mapping[str, tuple[int, ...]]
    target: Mapping[str, tuple[int, ...]]
    waits_for: tuple[str, ...]
    session_until_ms: int | None
    rebalance_until_ms: int | None

    @property
    def joined_ms(self) -> None:
        """The time of joining, which a consumer group's log does not record."""
        return None


@dataclass(frozen=True, slots=True)
class ConsumerGroupView:
    """A snapshot of one consumer group (KIP-848).

    Attributes:
        epoch: the group epoch, which grows with every change of members, subscriptions and topics.
        assignment_epoch: the group epoch of the target assignment.
        assignor: the assignor that computes the next target.
        members: the members by id.
        topics_by_regex: the topics of each resolved regular expression.
    """

    group_id: str
    state: ConsumerGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: Mapping[str, ConsumerMemberView]
    topics_by_regex: Mapping[str, frozenset[str]]

    @property
    def protocol_type(self) -> str:
        return "consumer"


def consumer_group_view(
    group: ConsumerGroup, registry: ConsumerGroupRegistry, assignor: str, name_of: TopicName
) -> ConsumerGroupView:
    return ConsumerGroupView(
        group_id=group.group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=assignor,
        members=MappingProxyType(
            {
                member.member_id: _member_view(group, member, registry, name_of)
                for member in group.members.values()
            }
        ),
        topics_by_regex=MappingProxyType(
            {regex: found.topics for regex, found in group.regexes.items()}
        ),
    )


def consumer_group_status(group: ConsumerGroup, registry: ConsumerGroupRegistry) -> GroupStatus:
    """Return a group's state, and the members with pending steps, with the deadlines in `registry`."""
    waiting = [
        member
        for member in group.members.values()
        if member.epoch == AWAY_EPOCH
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.epoch != group.assignment_epoch)
    ]
    times = [_step_until_ms(registry, group.group_id, each.member_id) for each in waiting]
    return GroupStatus(
        group_id=group.group_id,
        state=group.state,
        generation_id=group.epoch,
        since_ms=None,
        waiting_for=tuple(each.member_id for each in waiting),
        until_ms=min((each for each in times if each is not None), default=None),
    )


def _member_view(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    registry: ConsumerGroupRegistry,
    name_of: TopicName,
) -> ConsumerMemberView:
    def named(partitions: Partitions) -> Mapping[str, tuple[int, ...]]:
        return MappingProxyType(
            {name_of(topic_id): tuple(sorted(partitions[topic_id])) for topic_id in partitions}
        )

    group_id, member_id = group.group_id, member.member_id
    target = group.target(member_id)
    holders = {
        group.holders.get(topic_id, {}).get(index, member_id)
        for topic_id, indexes in target.items()
        for index in indexes
    }
    return ConsumerMemberView(
        member_id=member_id,
        group_instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_classic=member.classic is not None,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.regex or None,
        server_assignor=member.server_assignor,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        epoch=member.epoch,
        state=member.state,
        assigned=named(plain(member.assigned)),
        pending_revocation=named(plain(member.pending)),
        target=named(target),
        waits_for=tuple(sorted(holders - {member_id})),
        session_until_ms=registry.until_ms(TimerKind.SESSION, group_id, member_id),
        rebalance_until_ms=_step_until_ms(registry, group_id, member_id),
    )


def _step_until_ms(registry: ConsumerGroupRegistry, group_id: str, member_id: str) -> int | None:
    """Return when a member is removed unless it revokes, rejoins or syncs."""
    kinds = (TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)
    times = [registry.until_ms(kind, group_id, member_id) for kind in kinds]
    return min((each for each in times if each is not None), default=None)
