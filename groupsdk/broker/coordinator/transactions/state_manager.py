"""Manage the transactional ids of a shard: pending transitions, markers, timeouts and expiration."""

import heapq
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    MarkerPartitions,
    Record,
    Result,
)
from groupsdk.broker.coordinator.transactions.decisions import Fence, fence
from groupsdk.broker.coordinator.transactions.log_records import (
    TransactionRecord,
    transaction_record,
)
from groupsdk.broker.coordinator.transactions.metadata import (
    EXPIRABLE,
    LAST_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionState,
)
from groupsdk.broker.coordinator.transactions.producer_ids import (
    ProducerIdAllocator,
    ProducerIdError,
    log_none_left,
)
from groupsdk.broker.coordinator.transactions.transaction import Transaction
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode


logger = logging.getLogger(__name__)

_MOST_RECORD_BYTES: Final = (
    500_000  # the most bytes of overdue work at once; the rest follows in the next batch
)


class Deadlines:
    """Deadlines in milliseconds, at most one for each key; the caller has the clock."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __contains__(self, key: str) -> bool:
        return key in self._at

    def __len__(self) -> int:
        return len(self._at)

    def arm(self, key: str, at_ms: int) -> None:
        """Set the deadline of a key, replacing an earlier one."""
        if self._at.get(key) == at_ms:
            return
        self._at[key] = at_ms
        heapq.heappush(self._heap, (at_ms, key))
        # Dropped and moved deadlines stay in the heap until they are due, unless they are the majority.
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(at, each) for each, at in self._at.items()]
            heapq.heapify(self._heap)

    def drop(self, key: str) -> None:
        """Remove the deadline of a key, if it has one."""
        self._at.pop(key, None)

    def clear(self) -> None:
        self._at.clear()
        self._heap.clear()

    def pop(self, now_ms: int) -> str | None:
        """Remove and return the key whose deadline passed first; None if no deadline has passed."""
        next_ms = self.next_ms
        if next_ms is None or next_ms > now_ms:
            return None
        key = heapq.heappop(self._heap)[1]
        del self._at[key]
        return key

    @property
    def next_ms(self) -> int | None:
        """The earliest deadline; None if there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


@dataclass(frozen=True, slots=True)
class _Staged:
    """A pending transition, with the data that its record does not hold."""

    metadata: TransactionMetadata | None
    fence: Fence | None = None


class TransactionStateManager:
    """The transactional ids of one partition of `__transaction_state`.

    A transition is staged with its record, and takes effect when that is replayed; in between the id is pending, and
    accepts no other transition. Fields of a transition that are in no record (see `Transaction`) are kept with the
    staged one, and are lost in a crash, as in Kafka."""

    def __init__(
        self, coordinator_epoch: int, config: TransactionConfig, producer_ids: ProducerIdAllocator
    ) -> None:
        self._coordinator_epoch = coordinator_epoch
        self._producer_ids = producer_ids
        self._config = config
        self._transactions: dict[str, Transaction] = {}
        self._staged: dict[str, list[_Staged]] = {}
        self._started_ms: int | None = None
        self._timeouts = Deadlines()
        self._expiries = Deadlines()
        self._retries = Deadlines()

    def __iter__(self) -> Iterator[Transaction]:
        """Iterate over all transactional ids."""
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        """Return a transactional id, for the shard only to change; None if it is unknown."""
        return self._transactions.get(transactional_id)

    def metadata(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the current metadata of a transactional id; None if it is unknown."""
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else transaction.metadata

    def pending(self, transactional_id: str) -> TransactionState | None:
        """Return the state to which a transition of a transactional id is in progress; None if none is."""
        staged = self._staged.get(transactional_id)
        if staged:
            last = staged[-1].metadata
            return TransactionState.DEAD if last is None else last.state
        transaction = self._transactions.get(transactional_id)
        return None if transaction is None else transaction.pending

    def stage(self, metadata: TransactionMetadata, fence: Fence | None = None) -> TransactionRecord:
        """Stage a transition. Return its record, whose replay makes it take effect."""
        self._staged.setdefault(metadata.transactional_id, []).append(_Staged(metadata, fence))
        return transaction_record(metadata, self._config.transaction_version)

    def stage_prepared(
        self, metadata: TransactionMetadata, now_ms: int, fence: Fence | None = None
    ) -> Result:
        """Stage an outcome. Return its record and the markers to write; without partitions it is completed at once."""
        record = self.stage(metadata, fence)
        if not metadata.partitions:
            return Result(records=(record, self.stage(metadata.completed(now_ms))))
        return Result(records=(record,), markers=(self._marker(metadata, metadata.partitions),))

    def replay(self, record: TransactionRecord) -> None:
        """Apply one record, while loading or right after it was appended; nothing else changes durable state."""
        transactional_id, metadata = record.transactional_id, record.metadata
        if metadata is None:
            self._transactions.pop(transactional_id, None)
            return
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            self._transactions[transactional_id] = Transaction(metadata)
        else:
            transaction.replay(metadata)

    def written(self, records: Iterable[Record]) -> None:
        """Continue after records were appended and replayed: set deadlines, request markers, apply unlogged state."""
        for transactional_id in _ids(records):
            staged = self._staged.pop(transactional_id, ())
            self._retries.drop(transactional_id)
            transaction = self._transactions.get(transactional_id)
            if transaction is None:
                self._timeouts.drop(transactional_id)
                self._expiries.drop(transactional_id)
                continue
            for each in staged:
                if each.metadata is not None:
                    transaction.moved(each.metadata)
            metadata = transaction.metadata
            if metadata.state is TransactionState.EMPTY:
                logger.info(
                    "transactional id %s: initialized with producer id %d, epoch %d",
                    transactional_id,
                    metadata.producer_id,
                    metadata.producer_epoch,
                )
            self._entered(transaction)

    def append_failed(self, records: Iterable[Record], error: ErrorCode, now_ms: int) -> None:
        """Drop the staged transitions of a batch that could not be appended; mandatory ones are scheduled again."""
        for transactional_id in _ids(records):
            staged = self._staged.pop(transactional_id, None)
            if staged is not None:
                self._take_back(transactional_id, staged[0], error, now_ms)

    def start(self, now_ms: int) -> Result:
        """Start the timers, and resume the transactions whose outcome was decided."""
        self._started_ms = now_ms
        results = []
        for transaction in self._transactions.values():
            self._entered(transaction)
            metadata = transaction.metadata
            if not metadata.prepared:
                continue
            logger.info(
                "transactional id %s: resuming %s on %d partitions",
                metadata.transactional_id,
                metadata.state.label,
                len(metadata.partitions),
            )
            results.append(self._pushed(transaction, metadata.partitions, now_ms))
        return _joined(results)

    def stop(self) -> None:
        """Drop all state and deadlines."""
        self._started_ms = None
        self._transactions.clear()
        self._staged.clear()
        for deadlines in (self._timeouts, self._expiries, self._retries):
            deadlines.clear()

    def markers_written(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        outcomes: Mapping[tuple[str, int], ErrorCode],
        now_ms: int,
    ) -> Result:
        """Record the results of markers. Return the completion of the transaction after the last one.

        Results for an unknown id, an outdated producer epoch or a fenced round are ignored.
        """
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.round is None or transaction.round.given_up:
            return NOTHING
        metadata = transaction.metadata
        if (producer_id, producer_epoch) != (metadata.producer_id, metadata.producer_epoch):
            return NOTHING
        if transactional_id in self._staged:
            return NOTHING
        following = transaction.round
        if following.report(outcomes):
            self._retry_later(transaction, now_ms)
        if following.given_up:
            self._retries.drop(transactional_id)
        elif following.done:
            return self._pushed(transaction, (), now_ms)
        return NOTHING

    def advance(self, now_ms: int) -> Result:
        """Retry markers, abort transactions open for too long, and expire unused ids.

        Stops after about 500 kB of records; the remaining deadlines stay due.
        """
        results: list[Result] = []
        size = 0
        while size < _MOST_RECORD_BYTES:
            if (transactional_id := self._retries.pop(now_ms)) is not None:
                due = self._retried(self._transactions[transactional_id], now_ms)
            elif (transactional_id := self._timeouts.pop(now_ms)) is not None:
                due = self._timed_out(self._transactions[transactional_id], now_ms)
            elif (transactional_id := self._expiries.pop(now_ms)) is not None:
                due = self._expired(self._transactions[transactional_id], now_ms)
            else:
                break
            results.append(due)
            size += sum(
                len(key) + len(value or b"")
                for record in due.records
                for key, value in record.encoded()
            )
        return _joined(results)

    @property
    def deadline_ms(self) -> int | None:
        """When to call `advance` next; None if nothing is scheduled."""
        times = (each.next_ms for each in (self._retries, self._timeouts, self._expiries))
        return min((each for each in times if each is not None), default=None)

    def _entered(self, transaction: Transaction) -> None:
        """Set the deadlines that the state of an id needs."""
        metadata = transaction.metadata
        if metadata.prepared:
            transaction.await_markers(
                backoff_ms=self._config.marker_retry_backoff_ms,
                backoff_max_ms=self._config.marker_retry_backoff_max_ms,
            )
        if metadata.state is TransactionState.ONGOING:
            self._timeouts.arm(metadata.transactional_id, self._timeout_ms(metadata, 0))
        else:
            self._timeouts.drop(metadata.transactional_id)
        # An active id is only checked once per expiration time: see `_expired`.
        if metadata.transactional_id not in self._expiries:
            self._expiries.arm(metadata.transactional_id, self._expiry_ms(metadata, 0))

    def _timeout_ms(self, metadata: TransactionMetadata, after_ms: int) -> int:
        interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        due_ms = metadata.start_ms + metadata.timeout_ms + 1
        return self._tick_ms(max(due_ms, after_ms + 1), interval_ms)

    def _expiry_ms(self, metadata: TransactionMetadata, after_ms: int) -> int:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        due_ms = metadata.last_update_ms + self._config.transactional_id_expiration_ms
        return self._tick_ms(max(due_ms, after_ms + 1), interval_ms)

    def _tick_ms(self, due_ms: int, interval_ms: int) -> int:
        """Return when Kafka's periodic task would first notice a deadline."""
        started_ms = self._started_ms or 0
        ticks = max(1, -(-(due_ms - started_ms) // interval_ms))
        return started_ms + ticks * interval_ms

    def _marker(
        self, metadata: TransactionMetadata, partitions: Iterable[tuple[str, int]]
    ) -> MarkerPartitions:
        return MarkerPartitions(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            committed=metadata.state is TransactionState.PREPARE_COMMIT,
            coordinator_epoch=self._coordinator_epoch,
            partitions=tuple(sorted(partitions)),
        )

    def _pushed(
        self, transaction: Transaction, partitions: Collection[tuple[str, int]], now_ms: int
    ) -> Result:
        """Request markers; if none are needed any more, complete the transaction."""
        metadata = transaction.metadata
        if partitions:
            return Result(markers=(self._marker(metadata, partitions),))
        try:
            completed = self._with_next_id(metadata).completed(now_ms)
        except ProducerIdError as error:
            log_none_left(metadata.transactional_id, error)
            self._retry_later(transaction, now_ms)
            return NOTHING
        return Result(records=(self.stage(completed),))

    def _with_next_id(self, metadata: TransactionMetadata) -> TransactionMetadata:
        """Allocate the next producer id again if a crash lost it: no producer may continue with the old one.

        The one that was lost may have been told to the producer, which then gets INVALID_PRODUCER_ID_MAPPING.
        """
        lost = metadata.bumps_epoch and metadata.producer_epoch > LAST_EPOCH
        if not lost or metadata.next_producer_id != NO_PRODUCER_ID:
            return metadata
        return replace(metadata, next_producer_id=self._producer_ids.next_id())

    def _retried(self, transaction: Transaction, now_ms: int) -> Result:
        if transaction.round is None or transaction.metadata.transactional_id in self._staged:
            return NOTHING
        partitions = transaction.round.retry()
        if not partitions and not transaction.round.done:
            return NOTHING
        return self._pushed(transaction, partitions, now_ms)

    def _retry_later(self, transaction: Transaction, now_ms: int) -> None:
        if transaction.round is not None:
            transactional_id = transaction.metadata.transactional_id
            if transactional_id not in self._retries:
                self._retries.arm(transactional_id, now_ms + transaction.round.backoff_ms())

    def _timed_out(self, transaction: Transaction, now_ms: int) -> Result:
        metadata = transaction.metadata
        if self.pending(metadata.transactional_id) is not None:
            return NOTHING
        logger.info(
            "transactional id %s: aborting the transaction of producer id %d, epoch %d: open for more than %d ms",
            metadata.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            metadata.timeout_ms,
        )
        try:
            abort = fence(
                metadata,
                self._producer_ids,
                failed_before=transaction.failed_fence,
                transaction_version=self._config.transaction_version,
                now_ms=now_ms,
            )
        except ProducerIdError as error:
            log_none_left(metadata.transactional_id, error)
            self._timeouts.arm(metadata.transactional_id, self._timeout_ms(metadata, now_ms))
            return NOTHING
        return self.stage_prepared(abort.prepared, now_ms, abort)

    def _expired(self, transaction: Transaction, now_ms: int) -> Result:
        metadata = transaction.metadata
        transactional_id = metadata.transactional_id
        old_ms = now_ms - self._config.transactional_id_expiration_ms
        expirable = metadata.state in EXPIRABLE and self.pending(transactional_id) is None
        if not expirable or metadata.last_update_ms > old_ms:
            self._expiries.arm(transactional_id, self._expiry_ms(metadata, now_ms))
            return NOTHING
        logger.info(
            "transactional id %s: expired: unused for longer than transactional.id.expiration.ms",
            transactional_id,
        )
        self._staged[transactional_id] = [_Staged(None)]
        return Result(records=(TransactionRecord(transactional_id, None),))

    def _take_back(
        self, transactional_id: str, staged: _Staged, error: ErrorCode, now_ms: int
    ) -> None:
        transaction = self._transactions.get(transactional_id)
        following = None if transaction is None else transaction.round
        level = logging.WARNING if following is None else following.level(logging.WARNING)
        logger.log(
            level,
            "transactional id %s: writing its record failed: %s",
            transactional_id,
            error.name,
        )
        if transaction is None:
            return
        if staged.fence is not None:
            transaction.fence_failed(staged.fence.in_memory)
        metadata = transaction.metadata
        if metadata.prepared:
            self._retry_later(transaction, now_ms)
        ongoing = metadata.state is TransactionState.ONGOING
        if ongoing and transactional_id not in self._timeouts:
            self._timeouts.arm(transactional_id, self._timeout_ms(metadata, now_ms))
        if transactional_id not in self._expiries:
            self._expiries.arm(transactional_id, self._expiry_ms(metadata, now_ms))


def _ids(records: Iterable[Record]) -> Iterable[str]:
    """Return the transactional ids of records, each once."""
    return dict.fromkeys(
        record.transactional_id for record in records if isinstance(record, TransactionRecord)
    )


def _joined(results: list[Result]) -> Result:
    return Result(
        records=tuple(record for result in results for record in result.records),
        markers=tuple(marker for result in results for marker in result.markers),
    )
