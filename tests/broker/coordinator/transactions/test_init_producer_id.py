"""Tests every row of what InitProducerId does."""

from typing import Any

import pytest

from groupsdk.broker.coordinator.transactions.decisions import (
    Expected,
    Fence,
    Known,
    expectation,
    init_producer_id,
)
from groupsdk.broker.coordinator.transactions.metadata import (
    EXPIRABLE,
    TransactionMetadata,
    TransactionState as S,
)
from groupsdk.broker.coordinator.transactions.producer_ids import (
    MAX_PRODUCER_ID,
    ProducerIdAllocator,
    ProducerIdsExhaustedError,
)
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode as E
from tests.broker.coordinator.transactions.driving import MemoryBlockStore, metadata


RESTING = sorted(EXPIRABLE)


def decide(
    known: TransactionMetadata | None,
    expected: Expected | None = None,
    *,
    timeout_ms: int = 9_000,
    pending: S | None = None,
    failed_fence: bool = False,
    **settings: Any,
) -> TransactionMetadata | Fence | E:
    return init_producer_id(
        "x",
        Known(known, pending, failed_fence),
        expected,
        timeout_ms,
        TransactionConfig(**settings),
        ProducerIdAllocator(MemoryBlockStore(8_000)),
        2_000,
    )


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ((-1, -1), None),
        ((7, 3), Expected(7, 3)),
        ((0, 0), Expected(0, 0)),
        ((-1, 3), E.INVALID_REQUEST),
        ((7, -1), E.INVALID_REQUEST),
    ],
)
def test_both_of_id_and_epoch_or_neither(
    given: tuple[int, int], meant: Expected | E | None
) -> None:
    assert expectation(*given) == meant


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_out_of_bounds(timeout_ms: int) -> None:
    for known in (None, metadata(), metadata(S.EMPTY)):
        assert decide(known, timeout_ms=timeout_ms) is E.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_timeouts_at_the_bounds(timeout_ms: int) -> None:
    created = decide(None, timeout_ms=timeout_ms)
    assert isinstance(created, TransactionMetadata)
    assert created.timeout_ms == timeout_ms


@pytest.mark.parametrize("expected", [None, Expected(5, 9)])
def test_an_unknown_id_is_created_whatever_the_producer_says(expected: Expected | None) -> None:
    created = decide(None, expected)
    assert isinstance(created, TransactionMetadata)
    assert (created.producer_id, created.producer_epoch) == (8_000, 0)
    assert (created.state, created.timeout_ms, created.last_producer_epoch) == (S.EMPTY, 9_000, -1)


@pytest.mark.parametrize("state", [*RESTING, S.ONGOING, S.PREPARE_COMMIT])
def test_init_during_a_pending_transition_is_concurrent(state: S) -> None:
    for expected in (None, Expected(7, 3), Expected(99, 1)):
        # what is pending comes before the check of the producer
        answer = decide(metadata(state), expected, pending=S.COMPLETE_ABORT)
        assert answer is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("state", [*RESTING, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_init_with_the_id_of_another_producer_is_fenced(state: S) -> None:
    assert decide(metadata(state), Expected(99, 3)) is E.PRODUCER_FENCED
    # the previous id counts with a used-up epoch only
    known = metadata(state, previous_producer_id=6)
    assert decide(known, Expected(6, 32_765)) is E.PRODUCER_FENCED


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("expected", [None, Expected(7, 3)])
def test_init_while_markers_are_written_is_concurrent(state: S, expected: Expected | None) -> None:
    assert decide(metadata(state), expected) is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("expected", [None, Expected(7, 3), Expected(7, 1)])
@pytest.mark.parametrize(("version", "last"), [(0, -1), (1, -1), (2, 3)])
def test_an_ongoing_transaction_is_fenced_and_aborted(
    version: int, last: int, expected: Expected | None
) -> None:
    fence = decide(metadata(), expected, transaction_version=version)
    assert isinstance(fence, Fence)
    assert fence.prepared.state is S.PREPARE_ABORT
    assert (fence.prepared.producer_epoch, fence.prepared.last_producer_epoch) == (4, last)
    assert fence.in_memory.producer_epoch == (3 if version == 2 else 4)


def test_a_fence_that_failed_is_not_raised_again() -> None:
    fence = decide(metadata(), failed_fence=True, transaction_version=1)
    assert isinstance(fence, Fence)
    assert fence.prepared.producer_epoch == fence.in_memory.producer_epoch == 3


@pytest.mark.parametrize("state", RESTING)
@pytest.mark.parametrize(
    ("known", "expected", "epoch", "last"),
    [
        # none given: always the next epoch
        ({}, None, 4, -1),
        ({"last_producer_epoch": 2}, None, 4, -1),
        # given is current: the next one, and the given one is remembered
        ({}, Expected(7, 3), 4, 3),
        # no epoch yet: anything given will do
        ({"producer_epoch": -1}, Expected(99, 12), 0, -1),
        ({"producer_epoch": -1}, None, 0, -1),
        # given is the last one: the answer was lost
        ({"last_producer_epoch": 2}, Expected(7, 2), 3, 2),
        (
            {"producer_epoch": 32_766, "last_producer_epoch": 32_765},
            Expected(7, 32_765),
            32_766,
            32_765,
        ),
        # the last one before the bound
        ({"producer_epoch": 32_765}, None, 32_766, -1),
        ({"producer_epoch": 32_765}, Expected(7, 32_765), 32_766, 32_765),
        # the given one is of before a rotation
        (
            {"producer_epoch": 0, "last_producer_epoch": 32_766, "previous_producer_id": 6},
            Expected(6, 32_766),
            0,
            32_766,
        ),
    ],
)
def test_the_epoch_that_a_producer_gets(
    state: S, known: dict[str, Any], expected: Expected | None, epoch: int, last: int
) -> None:
    answer = decide(metadata(state, **known), expected)
    assert isinstance(answer, TransactionMetadata)
    assert (answer.producer_id, answer.producer_epoch) == (7, epoch)
    assert answer.last_producer_epoch == last
    assert (answer.state, answer.timeout_ms, answer.start_ms) == (S.EMPTY, 9_000, -1)
    assert answer.last_update_ms == 2_000


@pytest.mark.parametrize("state", RESTING)
@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, Expected(7, 2)),
        ({}, Expected(7, 4)),
        ({"last_producer_epoch": 2}, Expected(7, 1)),
        ({"producer_epoch": 32_766}, Expected(7, 32_764)),
        # the epoch that is kept for fencing is given to nobody, not even again
        ({"producer_epoch": 32_767, "last_producer_epoch": 32_766}, Expected(7, 32_766)),
        (
            {"producer_epoch": 1, "last_producer_epoch": 0, "previous_producer_id": 6},
            Expected(6, 32_766),
        ),
    ],
)
def test_an_old_epoch_is_fenced(state: S, known: dict[str, Any], expected: Expected) -> None:
    assert decide(metadata(state, **known), expected) is E.PRODUCER_FENCED


@pytest.mark.parametrize("state", RESTING)
@pytest.mark.parametrize("epoch", [32_766, 32_767])
@pytest.mark.parametrize("given", [True, False])
def test_init_with_a_used_up_epoch_takes_another_producer_id(
    state: S, epoch: int, given: bool
) -> None:
    answer = decide(metadata(state, producer_epoch=epoch), Expected(7, epoch) if given else None)
    assert isinstance(answer, TransactionMetadata)
    assert (answer.producer_id, answer.producer_epoch) == (8_000, 0)
    assert answer.last_producer_epoch == (epoch if given else -1)
    assert answer.previous_producer_id == 7


@pytest.mark.parametrize("known", [None, metadata(S.EMPTY, producer_epoch=32_766)])
def test_without_producer_ids_it_fails(known: TransactionMetadata | None) -> None:
    with pytest.raises(ProducerIdsExhaustedError):
        init_producer_id(
            *("x", Known(known), None, 1, TransactionConfig()),
            *(ProducerIdAllocator(MemoryBlockStore(MAX_PRODUCER_ID)), 0),
        )
