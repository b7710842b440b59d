"""Tests the table of states against the one that is written down for Kafka."""

from itertools import product

import pytest

from groupsdk.broker.transactions.state import (
    EXPIRABLE,
    PREPARED,
    STORED,
    TRANSITIONS,
    TransactionState as S,
    check_transition,
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


@each_case(("source", "target"), [*product(S, S)])
def test_every_pair_is_in_the_table_or_refused(source: S, target: S) -> None:
    if source in EXPECTED[target]:
        check_transition(source, target)
    else:
        with pytest.raises(ValueError, match=f"{source.label} to {target.label}"):
            check_transition(source, target)


@pytest.mark.parametrize("source", S)
def test_a_raised_epoch_allows_to_abort_nothing_and_no_more(source: S) -> None:
    for target in S:
        if source in EXPECTED[target] or (target is S.PREPARE_ABORT and source in RESTING):
            check_transition(source, target, bumps_epoch=True)
        else:
            with pytest.raises(ValueError, match="no transition"):
                check_transition(source, target, bumps_epoch=True)


def test_the_table_is_complete() -> None:
    assert {target: set(sources) for target, sources in TRANSITIONS.items()} == EXPECTED


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
