"""Decide the outcome of an InitProducerId."""

from dataclasses import dataclass

from groupsdk.broker.coordinator.transactions.end_transaction import Fence, fence
from groupsdk.broker.coordinator.transactions.metadata import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
from groupsdk.broker.coordinator.transactions.state import TransactionState
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class Expected:
    """The producer id and epoch with which a producer wants to continue (KIP-360)."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Known:
    """The state of a transactional id in its shard."""

    metadata: TransactionMetadata | None = None
    """None: the id is new."""
    pending: TransactionState | None = None
    """The state to which a transition is in progress; None: none is."""
    failed_fence: bool = False
    """Whether the record of a fence could not be written."""


def expectation(producer_id: int, producer_epoch: int) -> Expected | ErrorCode | None:
    """Return the producer id and epoch of an InitProducerId; None if it has neither, INVALID_REQUEST if only one."""
    if producer_id == NO_PRODUCER_ID and producer_epoch == NO_PRODUCER_EPOCH:
        return None
    if producer_id == NO_PRODUCER_ID or producer_epoch == NO_PRODUCER_EPOCH:
        return ErrorCode.INVALID_REQUEST
    return Expected(producer_id, producer_epoch)


def init_producer_id(
    transactional_id: str,
    known: Known,
    expected: Expected | None,
    timeout_ms: int,
    config: TransactionConfig,
    producer_ids: ProducerIdAllocator,
    now_ms: int,
) -> TransactionMetadata | Fence | ErrorCode:
    """Decide an InitProducerId with a transactional id.

    Args:
        expected: the producer id and epoch in the request (KIP-360); None: it has none.
        timeout_ms: the requested transaction timeout; 1 to transaction.max.timeout.ms.

    Returns:
        The initialized producer to write; or a fence to write, after which the producer must retry (the response
        is CONCURRENT_TRANSACTIONS); or an error.
    """
    if not 0 < timeout_ms <= config.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    metadata = known.metadata
    if metadata is None:
        created = TransactionMetadata(
            transactional_id=transactional_id,
            producer_id=producer_ids.next_id(),
            producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=now_ms,
        )
        return created.initialized(0, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if known.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if expected is not None and not _is_ours(metadata, expected):
        return ErrorCode.PRODUCER_FENCED
    if metadata.prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.state is TransactionState.ONGOING:
        return fence(
            metadata,
            producer_ids,
            failed_before=known.failed_fence,
            transaction_version=config.transaction_version,
            now_ms=now_ms,
        )
    if metadata.epoch_exhausted and (
        expected is None or expected.producer_epoch == metadata.producer_epoch
    ):
        last = metadata.producer_epoch if expected is not None else NO_PRODUCER_EPOCH
        return metadata.rotated(producer_ids.next_id(), last, timeout_ms, now_ms)
    return _next_epoch(metadata, expected, timeout_ms, now_ms)


def _is_ours(metadata: TransactionMetadata, expected: Expected) -> bool:
    if metadata.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    if expected.producer_id == metadata.producer_id:
        return True
    # It may not have received the new id that it got when its epochs were exhausted.
    rotated = expected.producer_id == metadata.previous_producer_id
    return rotated and expected.producer_epoch >= LAST_EPOCH


def _next_epoch(
    metadata: TransactionMetadata, expected: Expected | None, timeout_ms: int, now_ms: int
) -> TransactionMetadata | ErrorCode:
    current = metadata.producer_epoch
    if expected is None:
        return metadata.initialized(current + 1, NO_PRODUCER_EPOCH, timeout_ms, now_ms)
    if current in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        return metadata.initialized(current + 1, current, timeout_ms, now_ms)
    # Kafka fails here if the epoch is exhausted. The lost response was a success, unless it had the
    # epoch reserved for fencing.
    if expected.producer_epoch == metadata.last_producer_epoch and current <= LAST_EPOCH:
        return metadata.initialized(current, metadata.last_producer_epoch, timeout_ms, now_ms)
    return ErrorCode.PRODUCER_FENCED
