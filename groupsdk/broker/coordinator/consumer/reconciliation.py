"""Advance one member towards its target: revoke, wait, then assign (Kafka: CurrentAssignmentBuilder)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import (
    MEMBER_TRANSITIONS,
    ConsumerGroupMember,
    Holdings,
    MemberState,
    MemberTrigger,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions


class Goal(NamedTuple):
    """The state that a member must reach."""

    epoch: int
    """The epoch of the target assignment."""
    target: Partitions
    """The member's target assignment."""
    subscribed: frozenset[UUID]
    """The topics that the member subscribes to; it neither gets nor keeps partitions of other topics."""
    subscription_changed: bool
    """Whether the current request changed the subscription."""


def reconciled(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    goal: Goal,
    owned: Mapping[UUID, frozenset[int]] | None,
) -> ConsumerGroupMember:
    """Return the member after one step; the same object if there is nothing to do.

    The `owned` partitions that it reports acknowledge the revocation of all others; None: it reported nothing.
    """
    made = member
    if (member.state is MemberState.STABLE and member.epoch == goal.epoch) or (
        member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending)
    ):
        if goal.subscription_changed:
            made = _trimmed(member, goal, owned)
    else:
        made = _next(group, member, goal, owned)
    return member if made == member else made


def _owns_any(owned: Mapping[UUID, frozenset[int]] | None, holdings: Holdings) -> bool:
    """Return whether a member may still own some partitions: it reports them, or reports nothing."""
    if owned is None:
        return True
    return any(
        not owned.get(topic_id, frozenset()).isdisjoint(epochs)
        for topic_id, epochs in holdings.items()
    )


def _trimmed(
    member: ConsumerGroupMember, goal: Goal, owned: Mapping[UUID, frozenset[int]] | None
) -> ConsumerGroupMember:
    """Revoke the topics that the member no longer subscribes to, in its current epoch.

    They are acknowledged together with earlier revocations: none is free while the member still owns one of those.
    """
    kept = {each: epochs for each, epochs in member.assigned.items() if each in goal.subscribed}
    gone = {each: epochs for each, epochs in member.assigned.items() if each not in goal.subscribed}
    if not gone:
        return member
    pending = _merged(member.pending, gone)
    if not _owns_any(owned, pending):
        return replace(member, assigned=kept, previous_epoch=member.epoch)
    return replace(
        member,
        previous_epoch=member.epoch,
        state=MEMBER_TRANSITIONS[member.state, MemberTrigger.REVOKE],
        assigned=kept,
        pending=pending,
    )


def _merged(first: Holdings, second: Holdings) -> Holdings:
    return {
        topic_id: {**first.get(topic_id, {}), **second.get(topic_id, {})}
        for topic_id in (*first, *(each for each in second if each not in first))
    }


def _next(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    goal: Goal,
    owned: Mapping[UUID, frozenset[int]] | None,
) -> ConsumerGroupMember:
    keep: dict[UUID, dict[int, int]] = {}
    revoke: dict[UUID, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = goal.target.get(topic_id, ()) if topic_id in goal.subscribed else ()
        if len(wanted) == len(epochs) and epochs.keys() == set(wanted):
            keep[topic_id] = dict(epochs)
            continue
        stays = frozenset(wanted)
        for partition, epoch in epochs.items():
            place = keep if partition in stays else revoke
            place.setdefault(topic_id, {})[partition] = epoch
    if revoke and _owns_any(owned, revoke):
        return replace(
            member,
            previous_epoch=member.epoch,
            state=MEMBER_TRANSITIONS[member.state, MemberTrigger.REVOKE],
            assigned=keep,
            pending=revoke,
        )
    waits = False
    for topic_id, partitions in goal.target.items():
        if topic_id not in goal.subscribed:
            continue
        kept = keep.get(topic_id)
        new = partitions if kept is None else [each for each in partitions if each not in kept]
        if not new:
            continue
        free = group.not_held_by_others(member.member_id, topic_id, new)
        waits |= len(free) < len(new)
        if free:
            added = dict.fromkeys(free, goal.epoch)
            keep[topic_id] = added if kept is None else {**kept, **added}
    keep |= {each: dict(sorted(held.items())) for each, held in keep.items() if len(held) > 1}
    trigger = MemberTrigger.WAIT if waits else MemberTrigger.REACH
    return replace(
        member,
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        state=MEMBER_TRANSITIONS[member.state, trigger],
        assigned=keep,
        pending={},
    )
