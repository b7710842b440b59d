"""Coordinate the transactions of one partition of `__transaction_state`, as a state machine without I/O."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    CoordinatorShard,
    ProducerStamp,
    Record,
    Reply,
    RequestContext,
    Result,
    answered,
    append_error,
)
from groupsdk.broker.coordinator.transactions import decisions, responses
from groupsdk.broker.coordinator.transactions.log_records import TransactionRecord, decode
from groupsdk.broker.coordinator.transactions.metadata import EPOCH_BUMP_VERSION
from groupsdk.broker.coordinator.transactions.producer_ids import (
    ProducerIdAllocator,
    ProducerIdError,
    log_none_left,
)
from groupsdk.broker.coordinator.transactions.responses import (
    describe,
    list_transactions,
)
from groupsdk.broker.coordinator.transactions.state_manager import TransactionStateManager
from groupsdk.broker.coordinator.transactions.transaction import TransactionView
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode
from groupsdk.lazy_imports import override
from groupsdk.wire.coordinator_records.partitioner import partition_for
from groupsdk.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.schema import Request


logger = logging.getLogger(__name__)

OFFSETS_TOPIC: Final = "__consumer_offsets"
_BUMPING_END: Final = 5  # from this version on, the response to EndTxn has the bumped epoch
_BUMPING_ADD: Final = 4


@dataclass(frozen=True, slots=True)
class Added:
    """The outcome of `TransactionCoordinatorShard.add_partitions`."""

    error: ErrorCode
    """NONE: the partitions are part of the transaction once `result` is applied."""
    result: Result
    """The records to write; empty if nothing changes."""


class TransactionCoordinatorShard(CoordinatorShard):
    """The transactional ids of one partition (Kafka: `TransactionCoordinator`). Not thread-safe: one thread calls it.

    A transaction's outcome is in the log before its producer is told, and its markers are written afterwards; requests
    in between are answered CONCURRENT_TRANSACTIONS. The server writes the markers of each `Result.markers` and reports
    the results by `markers_written`.

    Args:
        coordinator_epoch: the leader epoch of the partition, higher at every start; markers with a lower one are
            refused.
    """

    def __init__(
        self, coordinator_epoch: int, config: TransactionConfig, producer_ids: ProducerIdAllocator
    ) -> None:
        self._config = config
        self._producer_ids = producer_ids
        self._state_manager = TransactionStateManager(coordinator_epoch, config, producer_ids)
        self._refusal: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @override
    def decode(self, records: Sequence[Pair]) -> Iterable[TransactionRecord]:
        return decode(records)

    @override
    def replay(self, record: TransactionRecord, producer: ProducerStamp | None = None) -> None:
        """Apply one record; the producer is ignored, as the log has no transactional batches."""
        self._state_manager.replay(record)

    @override
    def written(self, result: Result, now_ms: int) -> Result:
        """Continue after the records of a result were appended and replayed."""
        self._state_manager.written(result.records)
        return NOTHING

    @override
    def replay_marker(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Ignore a marker: `__transaction_state` has no transactional batches."""

    @override
    def loaded(self, now_ms: int) -> Result:
        """Start serving: resume the transactions whose outcome was decided."""
        self._refusal = None
        return self._state_manager.start(now_ms)

    @override
    def append_failed(self, result: Result, error: ErrorCode, now_ms: int) -> Result:
        """Continue after the records of a result could not be written; mandatory steps are retried later."""
        self._state_manager.append_failed(result.records, error, now_ms)
        code = append_error(error)
        return Result(
            replies=tuple(
                Reply(reply.token, responses.failed(reply.response, code))
                for reply in result.replies
            )
        )

    @override
    def unload(self, error: ErrorCode, now_ms: int) -> Result:
        """Drop all state, and answer later requests with this error; no request is ever parked here."""
        self._refusal = error
        self._state_manager.stop()
        return NOTHING

    @override
    def advance(self, now_ms: int) -> Result:
        """Retry markers, abort transactions open for too long, and expire unused ids."""
        return self._state_manager.advance(now_ms)

    @property
    @override
    def deadline_ms(self) -> int | None:
        """When to call `advance` next; None if nothing is scheduled."""
        return self._state_manager.deadline_ms

    @override
    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        """Handle a request of a client or a broker.

        The server authorizes it, checks that its partitions exist, and merges the responses of its shards to
        ListTransactions and DescribeTransactions.
        """
        version = context.api_version
        if self._refusal is not None:
            return answered(context, responses.refused(request, self._refusal, version))
        match request:
            case InitProducerIdRequest():
                return self._init_producer_id(request, context, now_ms)
            case EndTxnRequest():
                return self._end_transaction(request, context, now_ms)
            case AddPartitionsToTxnRequest():
                return self._add_partitions(request, context, now_ms)
            case AddOffsetsToTxnRequest():
                return self._add_offsets(request, context, now_ms)
            case DescribeTransactionsRequest():
                states = (
                    describe(each, None if known is None else known.shown)
                    for each in request.transactional_ids
                    for known in (self._state_manager.get(each),)
                )
                return answered(context, DescribeTransactionsResponse(0, tuple(states)))
            case ListTransactionsRequest():
                listed = (each.metadata for each in self._state_manager)
                return answered(context, list_transactions(request, listed, now_ms))
            case _:
                raise TypeError(
                    f"{type(request).__name__} is not a request for a transaction coordinator"
                )

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[tuple[str, int]],
        *,
        now_ms: int,
    ) -> Added:
        """Add partitions that a Produce or TxnOffsetCommit is about to write to (TV2)."""
        if self._refusal is not None:
            return Added(self._refusal, NOTHING)
        request = decisions.AddRequest(
            transactional_id, producer_id, producer_epoch, partitions, EPOCH_BUMP_VERSION
        )
        records: list[Record] = []
        error = self._added(request, records, now_ms)
        return Added(error, Result(records=tuple(records)))

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[tuple[str, int]],
    ) -> dict[tuple[str, int], ErrorCode]:
        if self._refusal is not None:
            return dict.fromkeys(partitions, self._refusal)
        request = decisions.AddRequest(transactional_id, producer_id, producer_epoch, partitions)
        return self._verified(request)

    def markers_written(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        outcomes: Mapping[tuple[str, int], ErrorCode],
        now_ms: int,
    ) -> Result:
        """Record the results of markers for some or all partitions of one `MarkerPartitions`.

        Every requested partition must be reported once: as NETWORK_EXCEPTION if its leader cannot be reached, as
        LEADER_NOT_AVAILABLE if its topic was deleted. `advance` requests failed markers again.
        """
        return self._state_manager.markers_written(
            transactional_id, producer_id, producer_epoch, outcomes, now_ms
        )

    @property
    def transactions(self) -> tuple[TransactionView, ...]:
        """Snapshots of all transactional ids, in no particular order."""
        return tuple(each.view() for each in self._state_manager)

    def transaction(self, transactional_id: str) -> TransactionView | None:
        """Return a snapshot of one transactional id; None if it is unknown."""
        transaction = self._state_manager.get(transactional_id)
        return None if transaction is None else transaction.view()

    def _init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext, now_ms: int
    ) -> Result:
        def refuse(error: ErrorCode) -> Result:
            return answered(context, responses.not_initialized(error, context.api_version))

        expected = decisions.expectation(request.producer_id, request.producer_epoch)
        if isinstance(expected, ErrorCode):
            return refuse(expected)
        transactional_id = request.transactional_id
        if transactional_id is None:
            return answered(context, responses.idempotent_producer(self._producer_ids))
        if not transactional_id:
            return refuse(ErrorCode.INVALID_REQUEST)
        transaction = self._state_manager.get(transactional_id)
        known = (
            decisions.Known()
            if transaction is None
            else decisions.Known(
                transaction.metadata,
                self._state_manager.pending(transactional_id),
                transaction.failed_fence,
            )
        )
        try:
            decision = decisions.init_producer_id(
                transactional_id=transactional_id,
                known=known,
                expected=expected,
                timeout_ms=request.transaction_timeout_ms,
                config=self._config,
                producer_ids=self._producer_ids,
                now_ms=now_ms,
            )
        except ProducerIdError as error:
            log_none_left(transactional_id, error)
            return refuse(error.error_code)
        if isinstance(decision, ErrorCode):
            return refuse(decision)
        if isinstance(decision, decisions.Fence):
            logger.info(
                "transactional id %s: a new producer fences the one with a transaction",
                transactional_id,
            )
            staged = self._state_manager.stage_prepared(decision.prepared, now_ms, decision)
            again = responses.not_initialized(
                ErrorCode.CONCURRENT_TRANSACTIONS, context.api_version
            )
            return staged._replace(replies=(Reply(context.token, again),))
        record = self._state_manager.stage(decision)
        return Result((record,), (Reply(context.token, responses.initialized(decision)),))

    def _end_transaction(
        self, request: EndTxnRequest, context: RequestContext, now_ms: int
    ) -> Result:
        transactional_id, version = request.transactional_id, context.api_version
        if not transactional_id:
            return answered(context, responses.not_ended(ErrorCode.INVALID_REQUEST, version))
        metadata = self._state_manager.metadata(transactional_id)
        try:
            decision = decisions.end_transaction(
                metadata,
                self._state_manager.pending(transactional_id),
                decisions.EndRequest(
                    request.producer_id,
                    request.producer_epoch,
                    request.committed,
                    EPOCH_BUMP_VERSION if version >= _BUMPING_END else 0,
                ),
                self._producer_ids,
                now_ms,
            )
        except ProducerIdError as error:
            log_none_left(transactional_id, error)
            return answered(context, responses.not_ended(error.error_code, version))
        if isinstance(decision, ErrorCode):
            if decision is ErrorCode.NONE and metadata is not None:
                return answered(context, responses.ended(metadata))
            return answered(context, responses.not_ended(decision, version))
        staged = self._state_manager.stage_prepared(decision, now_ms)
        reply = Reply(context.token, responses.ended(decision.completed(now_ms)))
        return staged._replace(replies=(reply,))

    def _add_partitions(
        self, request: AddPartitionsToTxnRequest, context: RequestContext, now_ms: int
    ) -> Result:
        version = context.api_version
        client_version = EPOCH_BUMP_VERSION if version >= _BUMPING_ADD else 0
        records: list[Record] = []
        results = []
        for each in responses.transactions_of(request, version):
            wanted = decisions.AddRequest(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                responses.partitions_of(each.topics),
                client_version,
            )
            outcome = (
                self._verified(wanted) if each.verify_only else self._added(wanted, records, now_ms)
            )
            results.append(responses.partitions_added(each, outcome, version))
        response = responses.all_partitions_added(tuple(results), version)
        return Result(tuple(records), (Reply(context.token, response),))

    def _add_offsets(
        self, request: AddOffsetsToTxnRequest, context: RequestContext, now_ms: int
    ) -> Result:
        partition = partition_for(request.group_id, self._config.offsets_topic_num_partitions)
        wanted = decisions.AddRequest(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({(OFFSETS_TOPIC, partition)}),
        )
        records: list[Record] = []
        error = self._added(wanted, records, now_ms)
        response = responses.offsets_added(error, context.api_version)
        return Result(tuple(records), (Reply(context.token, response),))

    def _verified(self, request: decisions.AddRequest) -> dict[tuple[str, int], ErrorCode]:
        if not request.transactional_id:
            return dict.fromkeys(request.partitions, ErrorCode.INVALID_REQUEST)
        return decisions.verify_partitions(
            self._state_manager.metadata(request.transactional_id), request
        )

    def _added(
        self, request: decisions.AddRequest, records: list[Record], now_ms: int
    ) -> ErrorCode:
        transactional_id = request.transactional_id
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        decision = decisions.add_partitions(
            self._state_manager.metadata(transactional_id),
            self._state_manager.pending(transactional_id),
            request,
            now_ms,
        )
        if isinstance(decision, ErrorCode):
            return decision
        records.append(self._state_manager.stage(decision))
        return ErrorCode.NONE
