"""Tests every row of what EndTxn does in both generations of the protocol, and of fencing."""

from typing import Any

import pytest

from groupsdk.broker.coordinator.transactions.decisions import (
    EndRequest,
    end_transaction,
    fence,
)
from groupsdk.broker.coordinator.transactions.metadata import (
    STORED,
    TransactionMetadata,
    TransactionState as S,
)
from groupsdk.broker.coordinator.transactions.producer_ids import (
    MAX_PRODUCER_ID,
    ProducerIdAllocator,
    ProducerIdsExhaustedError,
)
from groupsdk.error_code import ErrorCode as E
from tests.broker.coordinator.transactions.driving import MemoryBlockStore, metadata


EVERY = sorted(STORED)
FENCED, CONCURRENT, INVALID = E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE
COMMIT, ABORT = S.PREPARE_COMMIT, S.PREPARE_ABORT


def decide(
    known: TransactionMetadata | None,
    *,
    commit: bool,
    version: int,
    producer_id: int = 7,
    epoch: int = 3,
    pending: S | None = None,
) -> TransactionMetadata | E:
    return end_transaction(
        known,
        pending,
        EndRequest(producer_id, epoch, commit, version),
        ProducerIdAllocator(MemoryBlockStore(8_000)),
        2_000,
    )


def outcome(decision: TransactionMetadata | E) -> S | E:
    return decision if isinstance(decision, E) else decision.state


@pytest.mark.parametrize("version", [0, 2])
def test_end_transaction_for_an_unknown_id_is_refused(version: int) -> None:
    answer = decide(None, commit=True, version=version)
    assert answer is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", EVERY)
@pytest.mark.parametrize("commit", [True, False])
def test_end_transaction_without_epoch_bump_checks_producer_id_and_epoch(
    state: S, commit: bool
) -> None:
    for pending in (None, S.COMPLETE_COMMIT):
        known = metadata(state)
        wrong_id = decide(known, commit=commit, version=0, producer_id=8, pending=pending)
        assert wrong_id is E.INVALID_PRODUCER_ID_MAPPING
        for epoch in (2, 4):
            other = decide(known, commit=commit, version=0, epoch=epoch, pending=pending)
            assert other is FENCED
    waiting = decide(metadata(state), commit=commit, version=0, pending=S.COMPLETE_COMMIT)
    assert waiting is CONCURRENT


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.ONGOING, COMMIT, ABORT),
        (S.PREPARE_COMMIT, CONCURRENT, INVALID),
        (S.PREPARE_ABORT, INVALID, CONCURRENT),
        (S.COMPLETE_COMMIT, E.NONE, INVALID),
        (S.COMPLETE_ABORT, INVALID, E.NONE),
        (S.EMPTY, INVALID, INVALID),
    ],
)
def test_every_state_without_a_bump(state: S, commit: S | E, abort: S | E) -> None:
    assert outcome(decide(metadata(state), commit=True, version=0)) is commit
    assert outcome(decide(metadata(state), commit=False, version=0)) is abort


def test_without_a_bump_the_epoch_stays() -> None:
    for epoch in (3, 32_766):
        known = metadata(producer_epoch=epoch, client_transaction_version=2)
        prepared = decide(known, commit=True, version=0, epoch=epoch)
        assert isinstance(prepared, TransactionMetadata)
        assert (prepared.producer_id, prepared.producer_epoch) == (7, epoch)
        assert prepared.next_producer_id == -1
        assert prepared.client_transaction_version == 0


@pytest.mark.parametrize("state", EVERY)
@pytest.mark.parametrize("commit", [True, False])
def test_with_a_bump_what_is_pending_comes_first(state: S, commit: bool) -> None:
    for producer_id, epoch in ((7, 3), (7, 2), (8, 3), (7, 99)):
        waiting = decide(
            metadata(state),
            commit=commit,
            version=2,
            producer_id=producer_id,
            epoch=epoch,
            pending=S.COMPLETE_COMMIT,
        )
        assert waiting is CONCURRENT


@pytest.mark.parametrize("state", EVERY)
@pytest.mark.parametrize("commit", [True, False])
def test_end_transaction_with_epoch_bump_checks_producer_id_and_epoch(
    state: S, commit: bool
) -> None:
    known = metadata(state)
    wrong_id = decide(known, commit=commit, version=2, producer_id=8)
    assert wrong_id is E.INVALID_PRODUCER_ID_MAPPING
    for epoch in (1, 4):
        assert decide(known, commit=commit, version=2, epoch=epoch) is FENCED


@pytest.mark.parametrize(
    ("state", "abort_again", "abort", "commit_again", "commit"),
    [
        (S.EMPTY, FENCED, ABORT, FENCED, INVALID),
        (S.COMPLETE_ABORT, E.NONE, ABORT, INVALID, INVALID),
        (S.COMPLETE_COMMIT, INVALID, ABORT, E.NONE, INVALID),
        (S.PREPARE_COMMIT, INVALID, FENCED, CONCURRENT, FENCED),
        (S.PREPARE_ABORT, CONCURRENT, FENCED, INVALID, FENCED),
        (S.ONGOING, FENCED, ABORT, FENCED, COMMIT),
    ],
)
def test_every_state_with_a_bump(
    state: S, abort_again: S | E, abort: S | E, commit_again: S | E, commit: S | E
) -> None:
    known = metadata(state)
    assert outcome(decide(known, commit=False, version=2, epoch=2)) is abort_again
    assert outcome(decide(known, commit=False, version=2, epoch=3)) is abort
    assert outcome(decide(known, commit=True, version=2, epoch=2)) is commit_again
    assert outcome(decide(known, commit=True, version=2, epoch=3)) is commit


@pytest.mark.parametrize(
    ("state", "abort", "commit"),
    [
        (S.COMPLETE_ABORT, E.NONE, INVALID),
        (S.COMPLETE_COMMIT, INVALID, E.NONE),
        # with another transaction under way, or none any more, the previous id is just a wrong epoch
        (S.ONGOING, FENCED, FENCED),
        (S.EMPTY, FENCED, FENCED),
    ],
)
def test_a_repetition_from_before_a_rotation(state: S, abort: E, commit: E) -> None:
    known = metadata(state, producer_epoch=0, previous_producer_id=6)
    assert decide(known, commit=False, version=2, producer_id=6, epoch=32_766) is abort
    assert decide(known, commit=True, version=2, producer_id=6, epoch=32_766) is commit
    # anything else about it has to be right as well
    for producer_id, epoch, changes in (
        (6, 32_765, {}),
        (5, 32_766, {}),
        (6, 32_766, {"producer_epoch": 1}),
    ):
        other = metadata(state, **{"producer_epoch": 0, "previous_producer_id": 6, **changes})
        answer = decide(other, commit=True, version=2, producer_id=producer_id, epoch=epoch)
        assert answer is E.INVALID_PRODUCER_ID_MAPPING
    never = metadata(state, producer_epoch=0, previous_producer_id=7)
    assert decide(never, commit=True, version=2, epoch=32_766) is FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_the_epoch_kept_for_fencing_is_told_to_nobody(commit: bool) -> None:
    state = S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT
    known = metadata(state, producer_epoch=32_767)
    assert decide(known, commit=commit, version=2, epoch=32_766) is FENCED
    assert decide(known, commit=not commit, version=2, epoch=32_766) is INVALID


@pytest.mark.parametrize("commit", [True, False])
def test_with_a_bump_the_epoch_is_raised(commit: bool) -> None:
    prepared = decide(metadata(), commit=commit, version=2)
    assert isinstance(prepared, TransactionMetadata)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, 4)
    assert (prepared.last_producer_epoch, prepared.next_producer_id) == (3, -1)
    assert (prepared.client_transaction_version, prepared.start_ms) == (2, 900)


@pytest.mark.parametrize("state", [S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_the_last_epoch_claims_the_next_producer_id(state: S) -> None:
    known = metadata(state, producer_epoch=32_766)
    prepared = decide(known, commit=False, version=2, epoch=32_766)
    assert isinstance(prepared, TransactionMetadata)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, 32_767)
    assert (prepared.last_producer_epoch, prepared.next_producer_id) == (32_766, 8_000)
    assert prepared.start_ms == (900 if state is S.ONGOING else 2_000)


def test_without_producer_ids_the_last_epoch_cannot_be_ended() -> None:
    with pytest.raises(ProducerIdsExhaustedError):
        end_transaction(
            metadata(producer_epoch=32_766),
            None,
            EndRequest(7, 32_766, True, 2),
            ProducerIdAllocator(MemoryBlockStore(MAX_PRODUCER_ID)),
            2_000,
        )


@pytest.mark.parametrize(
    ("version", "failed_before", "known", "prepared", "in_memory"),
    [
        # (epoch, last epoch) before, in the record, and in memory should the record fail
        (0, False, (3, 2), (4, -1), (4, -1)),
        (1, False, (3, 2), (4, -1), (4, -1)),
        (1, True, (4, -1), (4, -1), (4, -1)),
        (1, False, (32_766, 2), (32_767, -1), (32_767, -1)),
        (1, True, (32_767, -1), (32_767, -1), (32_767, -1)),
        (2, False, (3, 2), (4, 3), (3, 2)),
        (2, True, (3, 2), (4, 3), (3, 2)),
        (2, False, (32_766, 2), (32_767, 32_766), (32_766, 2)),
    ],
)
def test_fence_of_a_transaction_bumps_its_epoch(
    version: int,
    failed_before: bool,
    known: tuple[int, int],
    prepared: tuple[int, int],
    in_memory: tuple[int, int],
) -> None:
    def epochs(of: TransactionMetadata) -> tuple[Any, ...]:
        return of.producer_id, of.producer_epoch, of.last_producer_epoch

    ongoing = metadata(producer_epoch=known[0], last_producer_epoch=known[1])
    ids = ProducerIdAllocator(MemoryBlockStore(8_000))
    fenced = fence(
        ongoing, ids, failed_before=failed_before, transaction_version=version, now_ms=2_000
    )
    assert fenced.prepared.state is S.PREPARE_ABORT
    assert fenced.in_memory.state is S.ONGOING
    assert epochs(fenced.prepared) == (7, *prepared)
    assert epochs(fenced.in_memory) == (7, *in_memory)
    assert fenced.prepared.client_transaction_version == (2 if version == 2 else 0)
    # whoever is told the epoch after the last one has to have another producer id with it
    rotates = version == 2 and known[0] == 32_766
    assert fenced.prepared.next_producer_id == (8_000 if rotates else -1)
