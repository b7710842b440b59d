"""Test the states and every move between them."""

from itertools import product

import pytest

from groupsdk.member.classic.state import TRANSITIONS, Trigger, next_state
from groupsdk.member.state import MemberState


PAIRS = list(product(MemberState, Trigger))


@pytest.mark.parametrize(("state", "trigger"), PAIRS)
def test_every_pair_of_state_and_trigger_moves_or_is_refused(
    state: MemberState, trigger: Trigger
) -> None:
    if (state, trigger) in TRANSITIONS:
        assert next_state(state, trigger) is TRANSITIONS[state, trigger]
        return
    with pytest.raises(ValueError, match=f"no transition from {state.name}") as raised:
        next_state(state, trigger)
    assert trigger.value in str(raised.value)


def test_the_moves_are_those_of_the_group_protocol() -> None:
    refused = {pair for pair in PAIRS if pair not in TRANSITIONS}
    answered = {
        Trigger.JOIN_ANSWERED: MemberState.PREPARING_REBALANCE,
        Trigger.SYNC_ANSWERED: MemberState.COMPLETING_REBALANCE,
    }
    assert refused == {
        (state, t) for t, only in answered.items() for state in set(MemberState) - {only}
    }


def test_every_state_can_be_reached_and_left() -> None:
    assert set(TRANSITIONS.values()) == set(MemberState)
    assert {state for state, _ in TRANSITIONS} == set(MemberState)


@pytest.mark.parametrize("state", list(MemberState))
def test_a_member_may_be_expelled_and_may_rejoin_from_anywhere(state: MemberState) -> None:
    assert next_state(state, Trigger.RESET) is MemberState.UNJOINED
    assert next_state(state, Trigger.JOIN_SENT) is MemberState.PREPARING_REBALANCE
