"""Decide whether partitions may be added to a transaction, or are part of it already."""

from dataclasses import dataclass

from groupsdk.broker.coordinator.transactions.metadata import TransactionMetadata
from groupsdk.broker.coordinator.transactions.state import TransactionState
from groupsdk.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class AddRequest:
    """A request of a producer, or of a broker on its behalf, to add or verify partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[tuple[str, int]]
    """The (topic, partition) pairs to add or verify."""
    client_transaction_version: int = 0
    """2 if every end of the producer's transactions raises its epoch (KIP-890), else 0."""


def add_partitions(
    metadata: TransactionMetadata | None,
    pending: TransactionState | None,
    request: AddRequest,
    now_ms: int,
) -> TransactionMetadata | ErrorCode:
    """Decide an AddPartitionsToTxn, an AddOffsetsToTxn, or a write that adds its partitions itself (TV2).

    Returns:
        The metadata to write; NONE if the transaction has all the partitions already; or
        INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    error = _producer_error(metadata, request)
    if metadata is None or error is not ErrorCode.NONE:
        return error
    if pending is not None or metadata.prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.state is TransactionState.ONGOING and request.partitions <= metadata.partitions:
        return ErrorCode.NONE
    return metadata.with_partitions(request.partitions, request.client_transaction_version, now_ms)


def verify_partitions(
    metadata: TransactionMetadata | None, request: AddRequest
) -> dict[tuple[str, int], ErrorCode]:
    """Return for each partition whether it is part of the producer's transaction; changes nothing.

    A transition in progress does not matter here, since the append validates the producer again.
    """
    error = _producer_error(metadata, request)
    if metadata is not None and error is ErrorCode.NONE and metadata.prepared:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata is None or error is not ErrorCode.NONE:
        return dict.fromkeys(request.partitions, error)
    return {
        each: ErrorCode.NONE if each in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in request.partitions
    }


def _producer_error(metadata: TransactionMetadata | None, request: AddRequest) -> ErrorCode:
    if metadata is None or request.producer_id != metadata.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE
