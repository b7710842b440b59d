"""One step of a member towards its target: what it gives up, waits for, and gets."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember, MemberState
from groupsdk.broker.coordinator.consumer.reconciliation import Goal, reconciled


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
