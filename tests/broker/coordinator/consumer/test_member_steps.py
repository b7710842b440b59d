"""One step of a member towards its target: what it gives up, waits for, and gets."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from typing_extensions import override

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember, MemberState
from groupsdk.broker.coordinator.consumer.reconciliation import Goal, reconciled
from groupsdk.broker.coordinator.consumer.records import current_assignment, member_metadata


T, U = UUID(int=1), UUID(int=2)
REVOKING = MemberState.UNREVOKED_PARTITIONS
STABLE = MemberState.STABLE


def step(member: ConsumerGroupMember, goal: Goal, **owned: tuple[int, ...]) -> ConsumerGroupMember:
    """Takes a step of a member that is alone in its group, and owns partitions of topics t and u; none: says nothing."""
    group = ConsumerGroup("g")
    group.members["m"] = member
    ids = {"t": T, "u": U}
    reported: Mapping[UUID, frozenset[int]] | None = None
    if owned:
        reported = {ids[name]: frozenset(numbers) for name, numbers in owned.items()}
    return reconciled(group, member, goal, reported)


def member(**fields: Any) -> ConsumerGroupMember:
    """A member in epoch 5, which got all that it has in epoch 4."""
    return ConsumerGroupMember(member_id="m", epoch=5, previous_epoch=4, **fields)


def test_a_topic_given_up_during_a_revocation_is_free_with_the_earlier_partitions() -> None:
    revoking = member(state=REVOKING, assigned={T: {1: 4}, U: {0: 4}}, pending={T: {0: 4}})
    goal = Goal(6, {T: (1,)}, frozenset({T}), subscription_changed=True)
    # it has let go of the topic already, and not of the partition that was taken before
    made = step(revoking, goal, t=(0, 1))
    assert (made.state, made.epoch) == (REVOKING, 5)
    assert made.assigned == {T: {1: 4}}
    assert made.pending == {T: {0: 4}, U: {0: 4}}
    done = step(made, goal, t=(1,))
    assert (done.state, done.epoch, done.pending) == (STABLE, 6, {})


def test_a_member_gets_nothing_of_a_topic_that_it_does_not_read() -> None:
    """The target may be of before its subscription changed."""
    goal = Goal(6, {T: (0,), U: (0,)}, frozenset({T}), subscription_changed=False)
    made = step(member(), goal, t=())
    assert (made.state, made.assigned) == (STABLE, {T: {0: 6}})
    # nor does it keep what it has, in a new epoch
    kept = step(member(assigned={U: {0: 4}}), goal, u=(0,))
    assert (kept.state, kept.pending) == (REVOKING, {U: {0: 4}})


def test_a_member_that_is_stable_in_an_older_epoch_goes_on() -> None:
    goal = Goal(6, {T: (0,)}, frozenset({T}), subscription_changed=False)
    assert step(member(assigned={T: {0: 4}}), goal).epoch == 6
    reached = Goal(5, {T: (0,)}, frozenset({T}), subscription_changed=False)
    at_rest = member(assigned={T: {0: 4}})
    assert step(at_rest, reached) is at_rest


class Unsearched(tuple[int, ...]):
    """Partitions that may be looked through as a whole only: one search for each takes time quadratic in them."""

    __slots__ = ()

    @override
    def __contains__(self, partition: object) -> bool:
        raise AssertionError("a search among all partitions for one of them")


def test_the_target_of_a_wide_topic_is_not_searched_for_each_partition() -> None:
    goal = Goal(6, {T: Unsearched((0, 1, 2))}, frozenset({T}), subscription_changed=False)
    held = {T: {0: 4, 2: 4, 7: 4}}
    revoking = step(member(assigned=held), goal, t=(0, 2, 7))
    assert (revoking.assigned, revoking.pending) == ({T: {0: 4, 2: 4}}, {T: {7: 4}})
    assert step(revoking, goal, t=(0, 2)).assigned == {T: {0: 4, 1: 6, 2: 4}}


def test_a_draft_knows_who_holds_a_partition_after_its_changes() -> None:
    group = ConsumerGroup("g")
    for name, assigned in (("a", {T: {0: 4}}), ("b", {T: {1: 4}}), ("c", {})):
        group.replay(member_metadata("g", ConsumerGroupMember(member_id=name)))
        held = ConsumerGroupMember(member_id=name, epoch=5, assigned=assigned)
        group.replay(current_assignment("g", held))
    draft = group.draft()
    moved = ConsumerGroupMember(member_id="b", epoch=5, assigned={T: {2: 5}})
    draft.replay(current_assignment("g", moved))
    assert draft.not_held_by_others("c", T, (0, 1, 2, 3)) == [1, 3]
    assert draft.not_held_by_others("b", T, (0, 1, 2, 3)) == [1, 2, 3]
    assert group.not_held_by_others("c", T, (0, 1, 2, 3)) == [2, 3]
    assert draft.holders == {T: {0: "a", 2: "b"}}
    assert group.holders == {T: {0: "a", 1: "b"}}
