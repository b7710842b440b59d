"""Decide the outcome of an EndTxn, and fence producers that are no longer valid."""

from dataclasses import dataclass

from groupsdk.broker.coordinator.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
from groupsdk.broker.coordinator.transactions.state import TransactionState
from groupsdk.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class Fence:
    """The abort of a transaction whose producer is fenced."""

    prepared: TransactionMetadata
    """The metadata to write."""
    in_memory: TransactionMetadata
    """The metadata that applies even if the record cannot be written."""


@dataclass(frozen=True, slots=True)
class EndRequest:
    """An EndTxn request of a producer."""

    producer_id: int
    producer_epoch: int
    committed: bool
    """Whether to commit; False: abort."""
    client_transaction_version: int
    """2 for EndTxn version 5 and later, else 0."""


def end_transaction(
    metadata: TransactionMetadata | None,
    pending: TransactionState | None,
    request: EndRequest,
    producer_ids: ProducerIdAllocator,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    """Decide an EndTxn.

    Returns:
        The prepared transaction to write; NONE if it has ended already, and the request is a repetition; or
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE.
    """
    if metadata is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.client_transaction_version >= EPOCH_BUMP_VERSION:
        return _end_with_bump(metadata, pending, request, producer_ids, now_ms)
    return _end_without_bump(metadata, pending, request, now_ms)


def fence(
    metadata: TransactionMetadata,
    producer_ids: ProducerIdAllocator,
    *,
    failed_before: bool,
    transaction_version: int,
    now_ms: int,
) -> Fence:
    """Abort an ongoing transaction and fence its producer.

    Args:
        metadata: the state of the transactional id, which must be ONGOING.
        failed_before: whether the record of an earlier fence could not be written; that one raised the epoch
            already, to a value that no producer was given.
        transaction_version: the coordinator's own: with 2 the abort itself raises the epoch.
    """
    if transaction_version >= EPOCH_BUMP_VERSION:
        return Fence(
            _prepared_with_bump(metadata, producer_ids, commit=False, now_ms=now_ms), metadata
        )
    in_memory = metadata if failed_before else metadata.fenced()
    prepared = in_memory.prepare(commit=False, client_transaction_version=0, now_ms=now_ms)
    return Fence(prepared, in_memory)


def _end_without_bump(
    metadata: TransactionMetadata,
    pending: TransactionState | None,
    request: EndRequest,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    if request.producer_id != metadata.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.state is TransactionState.ONGOING:
        return metadata.prepare(
            commit=request.committed, client_transaction_version=0, now_ms=now_ms
        )
    return _repeated(metadata.state, committed=request.committed)


def _end_with_bump(
    metadata: TransactionMetadata,
    pending: TransactionState | None,
    request: EndRequest,
    producer_ids: ProducerIdAllocator,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    if pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    # After the last epoch comes a new producer id, but a repeated request still has the previous one.
    rotated = (
        request.producer_id == metadata.previous_producer_id != metadata.producer_id
        and request.producer_epoch == LAST_EPOCH
        and metadata.producer_epoch == 0
    )
    repeated = rotated or request.producer_epoch == metadata.producer_epoch - 1
    if request.producer_id != metadata.producer_id and not rotated:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    current = request.producer_epoch == metadata.producer_epoch
    if not _epoch_is_right(metadata, current=current, repeated=repeated):
        return ErrorCode.PRODUCER_FENCED
    if metadata.prepared or repeated:
        answer = _repeated(metadata.state, committed=request.committed)
        # The response would have the epoch reserved for fencing, which a fence without a bump has left.
        kept = answer is ErrorCode.NONE and metadata.producer_epoch > LAST_EPOCH
        return ErrorCode.PRODUCER_FENCED if kept else answer
    if request.committed and metadata.state is not TransactionState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    return _prepared_with_bump(metadata, producer_ids, commit=request.committed, now_ms=now_ms)


def _prepared_with_bump(
    metadata: TransactionMetadata,
    producer_ids: ProducerIdAllocator,
    *,
    commit: bool,
    now_ms: int,
) -> TransactionMetadata:
    # A fence needs the next id, too: its producer may repeat its EndTxn and get the bumped epoch.
    # (Kafka 4.1 returns the epoch that it reserves for fencing instead; 4.3 does it as here.)
    next_id = producer_ids.next_id() if metadata.epoch_exhausted else NO_PRODUCER_ID
    return metadata.prepare(
        commit=commit,
        client_transaction_version=EPOCH_BUMP_VERSION,
        now_ms=now_ms,
        next_producer_id=next_id,
    )


def _epoch_is_right(metadata: TransactionMetadata, *, current: bool, repeated: bool) -> bool:
    if metadata.state in (TransactionState.ONGOING, TransactionState.EMPTY):
        return current
    if metadata.prepared:
        return repeated
    return repeated or current


def _repeated(state: TransactionState, *, committed: bool) -> ErrorCode:
    """Answer a request that changes nothing: it may have come before."""
    if state is (
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
    ):
        return ErrorCode.NONE
    if state is (TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE
