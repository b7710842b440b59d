"""Tests the table of states against the one that is written down for Kafka."""

from itertools import product

import pytest

from groupsdk.broker.coordinator.transactions.metadata import (
    EXPIRABLE,
    PREPARED,
    STORED,
    TRANSITIONS,
    TransactionState as S,
    TransactionTrigger,
    following,
    state_named,
)
from tests.support.cases import each_case


RESTING = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
EXPECTED = {
    S.EMPTY: RESTING,
    S.ONGOING: {S.ONGOING, *RESTING},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.PREPARE_EPOCH_FENCE},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: RESTING,
    S.PREPARE_EPOCH_FENCE: {S.ONGOING},
}


@each_case(("state", "trigger"), [*product(S, TransactionTrigger)])
def test_every_move_is_in_the_table_or_refused(state: S, trigger: TransactionTrigger) -> None:
    if (state, trigger) in TRANSITIONS:
        assert following(state, trigger) is TRANSITIONS[state, trigger]
    else:
        with pytest.raises(ValueError, match=f"no transition from {state.label} when"):
            following(state, trigger)


def test_transaction_transitions_are_kafkas() -> None:
    raised = TransactionTrigger.ABORTED_EMPTY
    entered: dict[S, set[S]] = {target: set() for target in S}
    for (source, trigger), target in TRANSITIONS.items():
        if trigger is not raised:
            entered[target].add(source)
    assert entered == EXPECTED
    # by producers whose every end raises the epoch
    assert {state: TRANSITIONS.get((state, raised)) for state in S} == {
        state: S.PREPARE_ABORT if state in RESTING else None for state in S
    }


def test_states_have_kafkas_numbers_and_names() -> None:
    assert [(int(state), state.label) for state in S] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]
    assert [state_named(state.label) for state in S] == [*S]
    assert state_named("ongoing") is None


def test_groups_of_states() -> None:
    assert EXPIRABLE == RESTING
    assert {S.PREPARE_COMMIT, S.PREPARE_ABORT} == PREPARED
    assert {*range(6)} == STORED
