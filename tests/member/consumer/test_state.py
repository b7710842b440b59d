import pytest

from groupsdk.member.consumer.state import (
    HEARTBEATING,
    IN_GROUP,
    OUT_UNTIL_HEARD,
    TRANSITIONS,
    ConsumerMemberState,
    ConsumerTrigger,
    in_classic_terms,
    next_state,
)
from groupsdk.member.state import MemberState


S = ConsumerMemberState

JAVAS = {
    S.JOINING: {S.FENCED, S.UNSUBSCRIBED, S.STALE},
    S.RECONCILING: {S.STABLE, S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.ACKNOWLEDGING: {S.RECONCILING},
    S.STABLE: {S.JOINING, S.ACKNOWLEDGING, S.RECONCILING},
    S.FENCED: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.PREPARE_LEAVING, S.LEAVING},
    S.PREPARE_LEAVING: {S.JOINING, S.STABLE, S.RECONCILING, S.ACKNOWLEDGING, S.UNSUBSCRIBED},
    S.LEAVING: {S.PREPARE_LEAVING},
    S.UNSUBSCRIBED: {S.PREPARE_LEAVING, S.LEAVING, S.FENCED},
    S.STALE: {S.LEAVING},
}
"""The previous states of each state in Kafka's `MemberState`; FATAL may follow any but FENCED and STALE."""

OURS = {
    (
        S.ACKNOWLEDGING,
        S.ACKNOWLEDGING,
    ),  # a newer target: the acknowledgement of the older goes out first
    (S.STALE, S.UNSUBSCRIBED),  # the caller unsubscribes before it has heard of its loss
}


def test_every_move_is_one_of_javas() -> None:
    for (state, trigger), following in TRANSITIONS.items():
        if following is S.FATAL:
            assert state not in (S.FENCED, S.STALE)
        elif (state, following) not in OURS:
            assert state in JAVAS[following], f"{state} --{trigger}--> {following}"


def test_every_state_can_be_reached_and_every_trigger_is_used() -> None:
    assert {S.UNSUBSCRIBED, *TRANSITIONS.values()} == set(S)
    assert {trigger for _, trigger in TRANSITIONS} == set(ConsumerTrigger)


def test_unknown_transition_of_a_consumer_member_raises() -> None:
    with pytest.raises(ValueError, match="no transition from FATAL on 'fenced'"):
        next_state(S.FATAL, ConsumerTrigger.FENCED)


def test_a_member_with_an_epoch_is_stable_in_classic_terms() -> None:
    for state in S:
        stable = in_classic_terms(state) is MemberState.STABLE
        assert stable == (state in IN_GROUP)
    assert not OUT_UNTIL_HEARD & HEARTBEATING
