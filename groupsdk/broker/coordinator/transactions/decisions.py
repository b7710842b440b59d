"""What a request makes of a transaction: pure functions from its state to the next one, or to an error."""

from dataclasses import dataclass

from groupsdk.broker.coordinator.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionState,
)
from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
from groupsdk.broker.settings.table import TransactionConfig
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

    NONE: the transaction has all the partitions already.
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
        partition: ErrorCode.NONE
        if partition in metadata.partitions
        else ErrorCode.TRANSACTION_ABORTABLE
        for partition in request.partitions
    }


def _producer_error(metadata: TransactionMetadata | None, request: AddRequest) -> ErrorCode:
    if metadata is None or request.producer_id != metadata.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if request.producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class Fence:
    """The abort of a transaction whose producer is fenced."""

    prepared: TransactionMetadata
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
    """Decide an EndTxn; NONE: it has ended so already, and the request is a repetition."""
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

    After a fence is written, the producer must retry: the response is CONCURRENT_TRANSACTIONS. `expected` is what
    the request has of an earlier producer (KIP-360).
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
        next_id = producer_ids.next_id()
        return metadata.initialized(0, last, timeout_ms, now_ms, producer_id=next_id)
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
