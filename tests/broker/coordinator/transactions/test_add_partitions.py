"""Tests every row of what AddPartitionsToTxn does, and of its verification."""

import pytest

from groupsdk.broker.coordinator.transactions.decisions import (
    AddRequest,
    add_partitions,
    verify_partitions,
)
from groupsdk.broker.coordinator.transactions.metadata import (
    STORED,
    TransactionMetadata,
    TransactionState as S,
)
from groupsdk.error_code import ErrorCode as E
from tests.broker.coordinator.transactions.driving import metadata
from tests.support.cases import each_case


KNOWN, NEW = ("t", 0), ("u", 1)
EVERY = sorted(STORED)


def asked(*partitions: tuple[str, int], producer_id: int = 7, epoch: int = 3) -> AddRequest:
    return AddRequest("x", producer_id, epoch, frozenset(partitions), 2)


def test_add_partitions_for_an_unknown_id_is_refused() -> None:
    assert add_partitions(None, None, asked(NEW), 0) is E.INVALID_PRODUCER_ID_MAPPING
    assert verify_partitions(None, asked(NEW)) == {NEW: E.INVALID_PRODUCER_ID_MAPPING}


@each_case("state", EVERY)
@each_case("pending", [None, S.COMPLETE_COMMIT])
@each_case(
    ("request_", "error"),
    [
        (asked(NEW, producer_id=8), E.INVALID_PRODUCER_ID_MAPPING),
        (asked(NEW, producer_id=8, epoch=1), E.INVALID_PRODUCER_ID_MAPPING),
        (asked(NEW, epoch=2), E.PRODUCER_FENCED),
        (asked(NEW, epoch=4), E.PRODUCER_FENCED),
    ],
)
def test_add_partitions_by_another_producer_is_refused(
    state: S, pending: S | None, request_: AddRequest, error: E
) -> None:
    assert add_partitions(metadata(state), pending, request_, 0) is error
    assert verify_partitions(metadata(state), request_) == {NEW: error}


@pytest.mark.parametrize("state", EVERY)
def test_add_partitions_during_a_pending_transition_is_concurrent(state: S) -> None:
    answer = add_partitions(metadata(state), S.COMPLETE_COMMIT, asked(KNOWN), 0)
    assert answer is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_add_partitions_while_markers_are_written_is_concurrent(state: S) -> None:
    assert add_partitions(metadata(state), None, asked(KNOWN), 0) is E.CONCURRENT_TRANSACTIONS
    assert verify_partitions(metadata(state), asked(KNOWN, NEW)) == {
        KNOWN: E.CONCURRENT_TRANSACTIONS,
        NEW: E.CONCURRENT_TRANSACTIONS,
    }


def test_add_of_known_partitions_writes_nothing() -> None:
    assert add_partitions(metadata(), None, asked(KNOWN), 0) is E.NONE
    assert add_partitions(metadata(), None, asked(KNOWN, ("t", 2)), 0) is E.NONE
    assert add_partitions(metadata(), None, asked(), 0) is E.NONE


@pytest.mark.parametrize(
    ("state", "start_ms"),
    [(S.ONGOING, 900), (S.EMPTY, 5_000), (S.COMPLETE_COMMIT, 5_000), (S.COMPLETE_ABORT, 5_000)],
)
def test_new_ones_are_joined_to_those_that_are_there(state: S, start_ms: int) -> None:
    before = metadata(state)
    added = add_partitions(before, None, asked(KNOWN, NEW), 5_000)
    assert isinstance(added, TransactionMetadata)
    assert added.state is S.ONGOING
    assert added.partitions == before.partitions | {KNOWN, NEW}
    assert (added.start_ms, added.last_update_ms) == (start_ms, 5_000)
    assert (added.producer_id, added.producer_epoch) == (7, 3)
    assert added.client_transaction_version == 2


@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_verification_tells_of_each_partition(state: S) -> None:
    there = E.NONE if state is S.ONGOING else E.TRANSACTION_ABORTABLE
    assert verify_partitions(metadata(state), asked(KNOWN, NEW)) == {
        KNOWN: there,
        NEW: E.TRANSACTION_ABORTABLE,
    }
