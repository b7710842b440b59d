"""Break our member of the consumer protocol on purpose, and see that some seed notices.

Each mutant undoes one thing that the member's safety or progress rests on. One that lived would show a hole in
the faults or in the checks.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.member import view
from groupsdk.member.actions import Action
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.member.consumer import membership, replies
from groupsdk.member.consumer.broker_pace import BrokerPacedHeartbeat
from groupsdk.member.consumer.heartbeat_fields import (
    LEAVE_EPOCH,
    LEAVE_TO_COME_BACK_EPOCH,
    HeartbeatFields,
    HeartbeatSubscription,
    PartitionsById,
)
from groupsdk.member.consumer.membership import ConsumerMembership
from groupsdk.member.consumer.reconciliation import Reconciliation, TopicNames
from groupsdk.member.consumer.replies import ConsumerReaction
from groupsdk.member.heartbeat import HeartbeatTimer
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.membership import Reply
from groupsdk.member.possession import Possession
from groupsdk.member.requests import InFlightRequests
from groupsdk.testing.simulation.consumer_member import ConsumerSetup, SpokenProtocol
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.runs import Tally
from groupsdk.testing.simulation.world import InvariantError
from tests.simulation.checks import NOTICED, check_noticed
from tests.simulation.watched_consumers import ConsumerSimulation, random_consumer_run
from tests.support.cases import with_long


SEEDS = 600
Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.usefixtures("quiet")
Mutant = Callable[[Patch], None]


def _with_heartbeats(
    patch: Patch, change: Callable[[int, PartitionsById | None], tuple[int, PartitionsById | None]]
) -> None:
    made = HeartbeatFields.heartbeat

    def heartbeat(
        fields: HeartbeatFields,
        epoch: int,
        subscription: HeartbeatSubscription,
        owned: PartitionsById | None,
        **more: Any,
    ) -> Any:
        if epoch > 0:
            epoch, owned = change(epoch, owned)
        return made(fields, epoch, subscription, owned, **more)

    patch.setattr(HeartbeatFields, "heartbeat", heartbeat)


def forgets_to_acknowledge(patch: Patch) -> None:
    _with_heartbeats(patch, lambda epoch, _: (epoch, None))


def lists_nothing_as_owned(patch: Patch) -> None:
    _with_heartbeats(patch, lambda epoch, _: (epoch, {}))


def heartbeats_in_an_older_epoch(patch: Patch) -> None:
    _with_heartbeats(patch, lambda epoch, owned: (max(epoch - 2, 1), owned))


def believes_beyond_its_session(patch: Patch) -> None:
    def until_ms(held: Possession) -> int | None:
        proof_ms, settled_ms = held._proof_ms, held._settled_ms
        if proof_ms is None or settled_ms is None:
            return None
        return min(proof_ms + 60_000, settled_ms + held._rebalance_timeout_ms)

    patch.setattr(Possession, "until_ms", property(until_ms))


def believes_beyond_the_rebalance_timeout(patch: Patch) -> None:
    def until_ms(held: Possession) -> int | None:
        return None if held._proof_ms is None else held._proof_ms + held.session_timeout_ms

    patch.setattr(Possession, "until_ms", property(until_ms))


def counts_validity_from_the_answer(patch: Patch) -> None:
    accepted = HeartbeatTimer.accepted

    def accept(timer: HeartbeatTimer, now_ms: int, sent_ms: int, **more: Any) -> None:
        accepted(timer, now_ms, now_ms, **more)

    patch.setattr(HeartbeatTimer, "accepted", accept)


def knows_no_revocation_of_what_was_just_handed_over(patch: Patch) -> None:
    """The mistake that the simulation found: only what had been acknowledged counted."""

    def revoking(steps: Reconciliation) -> bool:
        target = steps.target.partitions
        return any(
            not numbers <= target.get(topic_id, frozenset())
            for topic_id, numbers in steps.current.partitions.items()
        )

    patch.setattr(Reconciliation, "revoking", property(revoking))


def keeps_its_partitions_after_being_fenced(patch: Patch) -> None:
    patch.setattr(ConsumerMembership, "_tell_loss", ConsumerMembership._loss_heard)


def lists_only_what_was_acknowledged(patch: Patch) -> None:
    """As Java's client: what the caller is just taking is left out."""
    patch.setattr(Reconciliation, "claimed", property(lambda steps: steps.current.partitions))


def acknowledges_before_the_caller_is_done(patch: Patch) -> None:
    handed_over = ConsumerMembership._hand_over

    def hand_over(member: ConsumerMembership) -> list[Action]:
        actions = handed_over(member)
        if member.reconciliation._handed is not None:
            member.reconciliation.current = member.reconciliation._handed
            member.reconciliation._extra = {}
            member._fields.forget()
            member._pace.hurry(member.member.now_ms)
        return actions

    patch.setattr(ConsumerMembership, "_hand_over", hand_over)


def takes_answers_to_older_calls(patch: Patch) -> None:
    def takes(member: ConsumerMembership, call_id: int) -> bool:
        if member.member.call is None:
            return False
        member.member.call = None
        return True

    patch.setattr(ConsumerMembership, "_takes", takes)


def leaves_with_a_wrong_epoch(patch: Patch) -> None:
    leave = HeartbeatFields.leave
    patch.setattr(
        HeartbeatFields, "leave", lambda fields, epoch: leave(fields, LEAVE_TO_COME_BACK_EPOCH)
    )


def leaves_for_good_where_it_comes_back(patch: Patch) -> None:
    patch.setattr(membership, "LEAVE_TO_COME_BACK_EPOCH", LEAVE_EPOCH)


def says_nothing_when_it_leaves(patch: Patch) -> None:
    patch.setattr(ConsumerMembership, "_leave_epoch", lambda *_: None)


def does_not_leave_when_the_caller_is_stuck(patch: Patch) -> None:
    def polled(machine: MembershipMachine) -> list[Action]:
        machine._member.heartbeat.polled(machine._member.now_ms)
        return []

    patch.setattr(MembershipMachine, "_leave_for_poll_timeout", polled)


def sends_no_heartbeats_but_the_first(patch: Patch) -> None:
    def sent(timer: HeartbeatTimer, _: int) -> None:
        timer.next_ms = None

    patch.setattr(HeartbeatTimer, "sent", sent)


def asks_for_names_once(patch: Patch) -> None:
    patch.setattr(TopicNames, "ask_at_ms", property(lambda names: names._attempts * 10**12))
    patch.setattr(TopicNames, "keep_only", lambda *_: None)


def forgets_nothing_that_may_be_lost(patch: Patch) -> None:
    """After an error or a lost connection it goes on as if all had arrived."""
    patch.setattr(ConsumerMembership, "say_everything", lambda *_: None)
    patch.setattr(ConsumerMembership, "coordinator_lost", lambda *_: [])


def ignores_that_the_subscription_changed(patch: Patch) -> None:
    patch.setattr(ConsumerMembership, "ask_rejoin", lambda *_, **__: None)


def gives_up_when_fenced(patch: Patch) -> None:
    fatal = Reply(ConsumerReaction.FAIL, "")
    patch.setitem(replies.HEARTBEAT_REPLIES, ErrorCode.FENCED_MEMBER_EPOCH, fatal)
    patch.setitem(replies.HEARTBEAT_REPLIES, ErrorCode.UNKNOWN_MEMBER_ID, fatal)


def gives_up_when_its_group_is_gone(patch: Patch) -> None:
    """As Java's client; a member that was away finds its group forgotten, or a classic one."""
    fatal = Reply(ConsumerReaction.FAIL, "")
    patch.setitem(replies.HEARTBEAT_REPLIES, ErrorCode.GROUP_ID_NOT_FOUND, fatal)


def waits_for_lost_answers_for_ever(patch: Patch) -> None:
    sum_up = InFlightRequests._sum_up

    def without_deadlines(requests: InFlightRequests) -> None:
        sum_up(requests)
        requests.summary = requests.summary._replace(first=None)

    patch.setattr(InFlightRequests, "_sum_up", without_deadlines)
    never = property(lambda _: None, lambda *_: None)
    patch.setattr(BrokerPacedHeartbeat, "session_until_ms", never, raising=False)


def holds_what_has_lapsed(patch: Patch) -> None:
    """Without the law of possession: what the caller has when a join is answered is its own again."""
    patch.setattr(Possession, "lapsed", lambda *_: False)
    patch.setattr(ClassicMembership, "call_deadlines", lambda _: [])
    patch.setattr(view, "has_lapsed", lambda *_: False)


MUTANTS: list[Mutant] = [
    forgets_to_acknowledge,
    lists_nothing_as_owned,
    heartbeats_in_an_older_epoch,
    believes_beyond_its_session,
    believes_beyond_the_rebalance_timeout,
    counts_validity_from_the_answer,
    knows_no_revocation_of_what_was_just_handed_over,
    keeps_its_partitions_after_being_fenced,
    lists_only_what_was_acknowledged,
    acknowledges_before_the_caller_is_done,
    takes_answers_to_older_calls,
    leaves_with_a_wrong_epoch,
    leaves_for_good_where_it_comes_back,
    says_nothing_when_it_leaves,
    does_not_leave_when_the_caller_is_stuck,
    sends_no_heartbeats_but_the_first,
    asks_for_names_once,
    forgets_nothing_that_may_be_lost,
    ignores_that_the_subscription_changed,
    gives_up_when_fenced,
    gives_up_when_its_group_is_gone,
    waits_for_lost_answers_for_ever,
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mutant",
    with_long(
        MUTANTS,
        gives_up_when_its_group_is_gone,
        knows_no_revocation_of_what_was_just_handed_over,
        counts_validity_from_the_answer,
        keeps_its_partitions_after_being_fenced,
        asks_for_names_once,
        forgets_nothing_that_may_be_lost,
        ignores_that_the_subscription_changed,
    ),
    ids=lambda mutant: mutant.__name__,
)
def test_consumer_mutant_is_noticed_by_the_simulation(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(_play, range(SEEDS), NOTICED)


def _play(seeds: Sequence[int], tally: Tally) -> Iterator[AssertionError]:
    """Yield also what the machine itself asserts."""
    for tally.runs, seed in enumerate(seeds, 1):
        try:
            random_consumer_run(seed)
        except AssertionError as violation:
            yield violation


def stalls(duration_ms: int) -> None:
    """Let a static cooperative member stall, and others go on without it: what it joined with last names no partitions."""
    world = ConsumerSimulation(1)
    setup = ConsumerSetup(("work",), SpokenProtocol.COOPERATIVE)
    limits: dict[str, Any] = {"rebalance_timeout_ms": 3_000, "max_poll_interval_ms": 60_000}
    world.add(CallerBehavior(tick_ms=100), setup, group_instance_id="a", **limits)
    member = world.add(CallerBehavior(tick_ms=100), setup, group_instance_id="b", **limits)
    world.run(6_000)
    assert member.believes()
    member.stall(duration_ms)
    world.add(CallerBehavior(tick_ms=100), setup, group_instance_id="c", **limits)
    world.run(8_000)


@pytest.mark.parametrize("duration_ms", [3_150, 3_200])
def test_a_join_that_is_answered_after_possession_lapsed_is_noticed(
    duration_ms: int, monkeypatch: Patch
) -> None:
    """The stalled member joins again before its next heartbeat, which would refuse it."""
    stalls(duration_ms)
    holds_what_has_lapsed(monkeypatch)
    with pytest.raises(InvariantError, match="invariant 4: p0 and p1 both believe in"):
        stalls(duration_ms)
