"""Tests the moves of one transactional id."""

from dataclasses import replace

import pytest

from groupsdk.broker.coordinator.transactions.metadata import (
    LAST_EPOCH,
    MAX_EPOCH,
    TransactionState as S,
)
from tests.broker.coordinator.transactions.driving import metadata


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_first_partition_begins_the_transaction(state: S) -> None:
    began = metadata(state).with_partitions(frozenset({("t", 1)}), 2, 5_000)
    assert (began.state, began.start_ms, began.last_update_ms) == (S.ONGOING, 5_000, 5_000)
    assert began.partitions == {("t", 1)}
    assert began.client_transaction_version == 2
    more = began.with_partitions(frozenset({("u", 0)}), 2, 6_000)
    assert (more.start_ms, more.last_update_ms) == (5_000, 6_000)
    assert more.partitions == {("t", 1), ("u", 0)}


def test_initializing_clears_what_was() -> None:
    done = metadata(S.COMPLETE_COMMIT, client_transaction_version=2)
    again = done.initialized(4, 3, 9_000, 2_000)
    assert again == metadata(
        S.EMPTY,
        producer_epoch=4,
        last_producer_epoch=3,
        timeout_ms=9_000,
        last_update_ms=2_000,
        client_transaction_version=2,
        previous_producer_id=7,
    )


def test_a_rotation_remembers_the_producer_before() -> None:
    done = metadata(S.COMPLETE_ABORT, producer_epoch=LAST_EPOCH)
    rotated = done.initialized(0, LAST_EPOCH, 9_000, 2_000, producer_id=8)
    assert (rotated.producer_id, rotated.producer_epoch) == (8, 0)
    assert (rotated.previous_producer_id, rotated.last_producer_epoch) == (7, LAST_EPOCH)
    assert (rotated.state, rotated.start_ms, rotated.timeout_ms) == (S.EMPTY, -1, 9_000)


@pytest.mark.parametrize("commit", [True, False])
def test_a_plain_end_keeps_the_epoch(commit: bool) -> None:
    ongoing = metadata(last_producer_epoch=2, client_transaction_version=2)
    prepared = ongoing.prepare(commit=commit, client_transaction_version=0, now_ms=2_000)
    assert prepared.state is (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)
    assert (prepared.producer_epoch, prepared.last_producer_epoch) == (3, 2)
    assert prepared.client_transaction_version == 0
    assert prepared.partitions == ongoing.partitions
    completed = prepared.completed(3_000)
    assert completed.state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)
    assert (completed.producer_id, completed.producer_epoch) == (7, 3)
    assert completed.partitions == frozenset()
    assert (completed.start_ms, completed.last_update_ms) == (900, 3_000)


def test_an_end_that_bumps_raises_the_epoch_before_the_markers() -> None:
    prepared = metadata().prepare(commit=True, client_transaction_version=2, now_ms=2_000)
    assert (prepared.producer_epoch, prepared.last_producer_epoch) == (4, 3)
    completed = prepared.completed(3_000)
    assert (completed.producer_id, completed.producer_epoch) == (7, 4)
    assert completed.last_producer_epoch == 3


def test_the_last_epoch_leads_to_the_next_producer_id() -> None:
    ongoing = metadata(producer_epoch=LAST_EPOCH)
    prepared = ongoing.prepare(
        commit=True, client_transaction_version=2, now_ms=2_000, next_producer_id=8
    )
    assert (prepared.producer_id, prepared.producer_epoch) == (7, MAX_EPOCH)
    assert prepared.next_producer_id == 8
    completed = prepared.completed(3_000)
    assert (completed.producer_id, completed.producer_epoch) == (8, 0)
    assert (completed.previous_producer_id, completed.last_producer_epoch) == (7, LAST_EPOCH)
    assert completed.next_producer_id == -1


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_aborting_nothing_begins_now(state: S) -> None:
    resting = metadata(state)
    prepared = resting.prepare(commit=False, client_transaction_version=2, now_ms=2_000)
    assert (prepared.state, prepared.start_ms) == (S.PREPARE_ABORT, 2_000)
    with pytest.raises(ValueError, match="no transition"):
        resting.prepare(commit=False, client_transaction_version=0, now_ms=2_000)
    with pytest.raises(ValueError, match="no transition"):
        resting.prepare(commit=True, client_transaction_version=2, now_ms=2_000)


def test_a_fence_raises_the_epoch_and_forgets_the_last_one() -> None:
    ongoing = metadata(last_producer_epoch=2)
    assert ongoing.fenced() == replace(ongoing, producer_epoch=4, last_producer_epoch=-1)
    assert metadata(producer_epoch=MAX_EPOCH).fenced().producer_epoch == MAX_EPOCH
    with pytest.raises(ValueError, match="no transition"):
        metadata(S.EMPTY).fenced()


def test_time_never_goes_back() -> None:
    assert metadata(last_update_ms=5_000).with_partitions(frozenset(), 0, 10).last_update_ms == (
        5_000
    )


@pytest.mark.parametrize(
    ("epoch", "exhausted"), [(-1, False), (32_765, False), (32_766, True), (32_767, True)]
)
def test_the_highest_epoch_is_kept_for_fencing(epoch: int, exhausted: bool) -> None:
    assert metadata(producer_epoch=epoch).epoch_exhausted is exhausted


def test_transition_from_a_wrong_state_raises_value_error() -> None:
    with pytest.raises(ValueError, match="from Ongoing when InitProducerId"):
        metadata().initialized(4, -1, 1, 1)
    with pytest.raises(ValueError, match="from PrepareCommit when a partition is added"):
        metadata(S.PREPARE_COMMIT).with_partitions(frozenset(), 0, 1)
    with pytest.raises(ValueError, match="from Ongoing when all markers are written"):
        metadata().completed(1)
