"""Tests how the markers of one transaction are followed."""

import logging

import pytest

from groupsdk.broker.coordinator.transactions.transaction import DONE, FENCED, MarkerRound
from groupsdk.error_code import ErrorCode as E
from tests.support.cases import each_case


A, B, C = ("t", 0), ("t", 1), ("u", 0)


def following(*partitions: tuple[str, int]) -> MarkerRound:
    return MarkerRound("x", frozenset(partitions), backoff_ms=50, backoff_max_ms=300)


def test_marker_round_ends_when_every_partition_has_its_marker() -> None:
    markers = following(A, B)
    assert markers.waiting == {A, B}
    assert not markers.report({A: E.NONE})
    assert (markers.waiting, markers.done) == (frozenset({B}), False)
    assert not markers.report({B: E.NONE})
    assert (markers.waiting, markers.done) == (frozenset(), True)
    assert following().done


@each_case("error", E)
def test_marker_outcome_is_done_or_retried_by_its_error(
    error: E, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    markers = following(A, B)
    with caplog.at_level(logging.INFO):
        again = markers.report({A: error})
    if error in (E.NONE, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION, E.of(5)):
        assert (again, markers.waiting, markers.given_up) == (False, frozenset({B}), False)
    elif error in (E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED):
        assert (again, markers.waiting, markers.given_up) == (False, frozenset({A, B}), True)
        assert caplog.records[0].levelname == "WARNING"
    else:
        assert (again, markers.waiting, markers.given_up) == (True, frozenset({A, B}), False)
        expected = {3, 6, 7, 13, 19, 20, 56}
        assert caplog.records[0].levelname == ("INFO" if error in expected else "WARNING")
        assert caplog.messages == [
            f"transactional id x: retrying the marker for t-0 after {error.name}"
        ]
        assert markers.retry() == (A,)


def test_the_outcomes_that_end_it() -> None:
    assert {0, 5, 35, 43} == DONE
    assert {47, 52} == FENCED


def test_failed_ones_are_asked_for_again_and_only_those() -> None:
    markers = following(A, B, C)
    assert markers.report({A: E.NONE, B: E.NOT_LEADER_OR_FOLLOWER})
    assert markers.retry() == (B,)
    assert markers.retry() == ()
    assert markers.waiting == {B, C}
    assert markers.report({C: E.REQUEST_TIMED_OUT})
    assert not markers.done
    assert markers.report({B: E.NONE})  # C is still to be tried again
    assert markers.retry() == (C,)
    assert not markers.report({C: E.NONE})
    assert markers.done


def test_report_for_a_partition_that_was_not_asked_for_is_ignored() -> None:
    markers = following(A)
    assert not markers.report({B: E.NOT_LEADER_OR_FOLLOWER})
    assert markers.report({A: E.NOT_LEADER_OR_FOLLOWER})
    # it failed, and is not asked for at the moment: a late answer to an earlier question
    assert markers.report({A: E.NONE})
    assert markers.waiting == {A}


def test_the_log_is_not_filled() -> None:
    markers = following(A)
    loud = []
    for attempt in range(70):
        if markers.level(logging.INFO) == logging.INFO:
            loud.append(attempt)
        else:
            assert markers.level(logging.WARNING) == logging.DEBUG
        markers.backoff_ms()
    assert loud == [0, 1, 2, 4, 8, 16, 32, 64]


def test_the_wait_doubles_up_to_its_limit() -> None:
    markers = following(A)
    assert [markers.backoff_ms() for _ in range(5)] == [50, 100, 200, 300, 300]
    for _ in range(100):
        assert markers.backoff_ms() == 300
