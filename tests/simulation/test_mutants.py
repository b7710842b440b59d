"""Prove that the simulation can fail: break the member on purpose, and see that some seed notices.

Each mutant undoes one thing that the member's safety rests on. One that lived would show a hole in the
faults or in the checks.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from groupsdk.member.actions import Action, CompleteJoin
from groupsdk.member.classic.rebalance import Rebalance, Rejoin
from groupsdk.member.coordinator_access import Discovery
from groupsdk.member.heartbeat import HeartbeatTimer
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.member import Member
from groupsdk.member.membership import Answer
from groupsdk.member.possession import Possession
from groupsdk.member.requests import InFlightRequests
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from tests.simulation.checks import NOTICED, check_noticed, play
from tests.support.cases import with_long


SEEDS = 2_500
Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.usefixtures("quiet")
Mutant = Callable[[Patch], None]


def believes_whatever_the_clock_says(patch: Patch) -> None:
    patch.setattr(MemberView, "believes_at", lambda view, _: view.state is MemberState.STABLE)


def believes_beyond_its_session(patch: Patch) -> None:
    def believes(view: MemberView, now_ms: int) -> bool:
        return view.state is MemberState.STABLE and now_ms < view.poll_until_ms

    patch.setattr(MemberView, "believes_at", believes)


def believes_beyond_the_rebalance_timeout(patch: Patch) -> None:
    def until_ms(held: Possession) -> int | None:
        return None if held._proof_ms is None else held._proof_ms + held.session_timeout_ms

    patch.setattr(Possession, "until_ms", property(until_ms))


def counts_validity_from_the_answer(patch: Patch) -> None:
    """A member that was paused with the answer in its buffer thinks it fresh."""
    accepted = HeartbeatTimer.accepted

    def believe(
        timer: HeartbeatTimer, now_ms: int, sent_ms: int, *, rebalancing: bool = False
    ) -> None:
        accepted(timer, now_ms, max(sent_ms, now_ms), rebalancing=rebalancing)

    patch.setattr(HeartbeatTimer, "accepted", believe)


def takes_answers_to_older_calls(patch: Patch) -> None:
    answered = Rebalance.answered

    def answer(rebalance: Rebalance, given: Answer) -> list[Action]:
        call = rebalance._member.call
        if call is not None:
            given = replace(given, call_id=call.call_id)
        return answered(rebalance, given)

    patch.setattr(Rebalance, "answered", answer)


def _polled_again(machine: MembershipMachine) -> list[Action]:
    machine._member.heartbeat.polled(machine._member.now_ms)
    return []


def does_not_leave_when_the_caller_is_stuck(patch: Patch) -> None:
    patch.setattr(MembershipMachine, "_leave_for_poll_timeout", _polled_again)


def keeps_requests_of_the_old_generation(patch: Patch) -> None:
    patch.setattr(InFlightRequests, "abandon", lambda *_: None)
    patch.setattr(Member, "drop_connection", lambda *_: ([], ()))


def sends_no_heartbeats(patch: Patch) -> None:
    enable = HeartbeatTimer.enable

    def enable_session_only(timer: HeartbeatTimer, now_ms: int) -> None:
        enable(timer, now_ms)
        timer.next_ms = None

    patch.setattr(HeartbeatTimer, "enable", enable_session_only)


def sends_no_heartbeats_before_it_is_stable(patch: Patch) -> None:
    beat = MembershipMachine._beat

    def stable_only(machine: MembershipMachine) -> list[Action]:
        if machine._member.state is MemberState.STABLE:
            return beat(machine)
        machine._member.heartbeat.sent(machine._member.now_ms)
        return []

    patch.setattr(MembershipMachine, "_beat", stable_only)


def ignores_that_the_group_rebalances(patch: Patch) -> None:
    rejoining = Rejoin.request

    def request(rejoin: Rejoin, reason: str) -> None:
        if reason != "the group is already rebalancing":
            rejoining(rejoin, reason)

    patch.setattr(Rejoin, "request", request)


def forgets_to_prepare_after_being_expelled(patch: Patch) -> None:
    patch.setattr(Rejoin, "expelled", Rejoin.request)


def prepares_for_every_attempt(patch: Patch) -> None:
    patch.setattr(Rejoin, "prepared", lambda _: None)


def drops_an_assignment_that_was_refused(patch: Patch) -> None:
    failed = Rebalance.call_failed

    def call_failed(rebalance: Rebalance, call_id: int, description: str) -> None:
        failed(rebalance, call_id, description)
        if isinstance(rebalance._member.call, CompleteJoin):
            rebalance._member.call = None

    patch.setattr(Rebalance, "call_failed", call_failed)


def keeps_an_unknown_member_id(patch: Patch) -> None:
    forget = Rebalance.forget_membership

    def keep(rebalance: Rebalance, *, keep_member_id: bool) -> list[Action]:
        return forget(rebalance, keep_member_id=True)

    patch.setattr(Rebalance, "forget_membership", keep)


def stays_in_the_generation_it_was_expelled_from(patch: Patch) -> None:
    def forget(rebalance: Rebalance, *, keep_member_id: bool) -> list[Action]:
        member = rebalance._member
        member.requests.clear()
        member.heartbeat.reset_session(member.now_ms)
        return []

    patch.setattr(Rebalance, "forget_membership", forget)


def waits_for_lost_answers_for_ever(patch: Patch) -> None:
    sum_up = InFlightRequests._sum_up

    def without_deadlines(requests: InFlightRequests) -> None:
        sum_up(requests)
        requests.summary = requests.summary._replace(first=None)

    patch.setattr(InFlightRequests, "_sum_up", without_deadlines)
    patch.setattr(HeartbeatTimer, "reset_session", lambda *_: None)
    enable = HeartbeatTimer.enable

    def enable_without_session(timer: HeartbeatTimer, now_ms: int) -> None:
        enable(timer, now_ms)
        timer.session_until_ms = 2**60

    patch.setattr(HeartbeatTimer, "enable", enable_without_session)


def never_looks_for_a_lost_coordinator(patch: Patch) -> None:
    lost = Discovery.lost

    def lose(discovery: Discovery, now_ms: int, *, refused: bool = False) -> None:
        lost(discovery, now_ms, refused=refused)
        discovery.looking = True

    patch.setattr(Discovery, "lost", lose)


MUTANTS: list[Mutant] = [
    believes_whatever_the_clock_says,
    believes_beyond_its_session,
    believes_beyond_the_rebalance_timeout,
    counts_validity_from_the_answer,
    takes_answers_to_older_calls,
    does_not_leave_when_the_caller_is_stuck,
    keeps_requests_of_the_old_generation,
    sends_no_heartbeats,
    sends_no_heartbeats_before_it_is_stable,
    ignores_that_the_group_rebalances,
    forgets_to_prepare_after_being_expelled,
    prepares_for_every_attempt,
    drops_an_assignment_that_was_refused,
    keeps_an_unknown_member_id,
    stays_in_the_generation_it_was_expelled_from,
    waits_for_lost_answers_for_ever,
    never_looks_for_a_lost_coordinator,
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "mutant",
    with_long(MUTANTS, counts_validity_from_the_answer),
    ids=lambda mutant: mutant.__name__,
)
def test_member_mutant_is_noticed_by_the_simulation(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(play, range(SEEDS), NOTICED[:3])
