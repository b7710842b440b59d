from random import Random

from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.member.actions import Send
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.reconciliation import Reconciliation
from groupsdk.member.member import Member
from groupsdk.settings.config import ConsumerMemberConfig
from tests.member.consumer.driving import SETTINGS, T, U, names
from tests.member.driving import NODE


ONE, TWO = {T: frozenset({0})}, {T: frozenset({0, 1})}


def reconciliation() -> tuple[Reconciliation, Member]:
    member = Member(ConsumerMemberConfig(**SETTINGS), Random(0))
    member.coordinator = NODE
    steps = Reconciliation(member)
    steps.subscription = HeartbeatSubscription(frozenset({"t", "u"}))
    return steps, member


def test_a_target_told_twice_is_one_target() -> None:
    steps, _ = reconciliation()
    assert steps.aim(ONE)
    assert not steps.aim(ONE)
    assert not steps.done


def test_a_target_that_comes_back_is_handed_over_again() -> None:
    """What was given up in between may have been acknowledged: the coordinator waits for the newest."""
    steps, _ = reconciliation()
    steps.aim(TWO)
    steps.names_told(names(T))
    steps.next_step()
    steps.taken_up()
    assert steps.done
    steps.aim(ONE)
    revoking = [steps.revoking]
    steps.aim(TWO)
    revoking.append(steps.revoking)
    assert steps.next_step() is not None
    steps.taken_up()
    assert [*revoking, steps.revoking] == [True, True, False]


def test_assignment_is_handed_over_once() -> None:
    steps, _ = reconciliation()
    steps.aim(ONE)
    steps.names_told(names(T))
    handed = steps.next_step()
    assert handed is not None
    assert dict(decode_assignment(handed).partitions) == {"t": (0,)}
    assert steps.next_step() is None
    assert steps.delivered


def test_nothing_is_handed_over_while_no_name_is_known_and_names_are_asked_for_once() -> None:
    steps, _ = reconciliation()
    steps.aim({U: frozenset({5})})
    assert steps.next_step() is None
    (asked,) = steps.ask_names()
    assert isinstance(asked, Send)
    assert steps.ask_names() == []
    assert steps.ask_names_at_ms is None


def test_counts_are_of_partitions() -> None:
    steps, _ = reconciliation()
    steps.aim(TWO)
    steps.names_told(names(T))
    assert steps.counts() == (0, 2)
    steps.next_step()
    steps.taken_up()
    steps.aim({T: frozenset({1}), U: frozenset({5})})
    assert steps.counts() == (1, 1)
