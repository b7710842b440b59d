"""The state of a partition's producers: their last batches and open transactions.

An idempotent producer numbers its records; the partition keeps the last five batches of each, so that a batch
sent twice is stored once (Kafka: ProducerStateManager, ProducerAppendInfo).
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from groupsdk.broker.log.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from groupsdk.broker.log.indexes import AbortedTxn
from groupsdk.limits import MAX_INT32
from groupsdk.wire.records.batch import BatchHeader
from groupsdk.wire.records.control import Marker


BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1


class Origin(Enum):
    """The origin of an append, which decides what is validated (Kafka: AppendOrigin)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """A coordinator's own records and markers: sequence numbers are not checked."""
    REPLAY = "replay"
    """Batches that are in the log already: nothing is refused (Kafka: REPLICATION)."""


class BatchMetadata(NamedTuple):
    """One of the last batches of a producer."""

    last_sequence: int
    """The sequence number of the last record; -1: none."""
    last_offset: int
    """The offset of the last record."""
    offset_delta: int
    """The last offset minus the first."""
    timestamp: int
    """The latest timestamp of the records, in milliseconds."""

    @property
    def first_sequence(self) -> int:
        """The sequence number of the batch's first record; after 2^31 - 1 numbers continue at 0."""
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 or self.last_sequence < 0 else first + MAX_INT32 + 1

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTxn(NamedTuple):
    """A transaction ended by a marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    aborted: bool
    """Whether it was aborted instead of committed."""


class ProducerEntry:
    """The state of one producer; its expiration counts from the timestamp of its last batch or marker.

    `coordinator_epoch` is that of its last marker; -1: none yet.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        txn_first_offset: int | None = None,
        batches: tuple[BatchMetadata, ...] = (),
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        self.batches = batches

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 if none is known in this epoch."""
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        """The offset of the last record; -1 if none is known in this epoch."""
        return self.batches[-1].last_offset if self.batches else -1

    def copy(self) -> "ProducerEntry":
        return ProducerEntry(
            self.producer_id,
            self.epoch,
            self.coordinator_epoch,
            self.last_timestamp,
            self.txn_first_offset,
            self.batches,
        )

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the stored batch with the same epoch and first and last sequence number; None if there is none."""
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None


class ProducerState:
    """The producers of one partition and its open transactions.

    Changes are prepared in an `Update`, which validates them, and take effect with `commit`, once the batches are
    in the log.
    """

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        # first offset to producer id, in ascending order, since each transaction starts at a higher offset
        self._open: dict[int, int] = {}

    @property
    def entries(self) -> Mapping[int, ProducerEntry]:
        """The producers by their id; read-only for callers."""
        return self._entries

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if none is open."""
        return next(iter(self._open)) if self._open else None

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the stored batch that this one duplicates; None if it is not among its producer's last five."""
        entry = self._entries.get(header.producer_id)
        return None if entry is None else entry.duplicate_of(header)

    def load(self, entry: ProducerEntry) -> None:
        """Add a producer from a snapshot, which the state then owns."""
        self._entries[entry.producer_id] = entry
        if entry.txn_first_offset is not None:
            self._open[entry.txn_first_offset] = entry.producer_id
            self._open = dict(sorted(self._open.items()))

    def clear(self) -> None:
        self._entries = {}
        self._open = {}

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers silent for so long, without an open transaction. Return how many were removed."""
        gone = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.txn_first_offset is None and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self._entries[producer_id]
        return len(gone)

    def commit(self, update: "Update") -> list[AbortedTxn]:
        """Apply a prepared update. Return the transactions that it aborts, for the transaction index."""
        self._entries.update(update.entries)
        for producer_id, first_offset in update.started:
            self._open[first_offset] = producer_id
        aborted = []
        for completed in update.completed:
            self._open.pop(completed.first_offset, None)
            if completed.aborted:
                stable = next(iter(self._open), completed.last_offset + 1)
                aborted.append(AbortedTxn(*completed[:3], stable))
        return aborted


class Update:
    """Validates batches to append against the state of their producers.

    Args:
        first_sequence_zero: require an unknown producer to start with sequence number 0 (transactions of version 2).
    """

    def __init__(
        self, state: ProducerState, origin: Origin, *, first_sequence_zero: bool = False
    ) -> None:
        self._state = state
        self._origin = origin
        self._first_sequence_zero = first_sequence_zero
        self.entries: dict[int, ProducerEntry] = {}
        self.started: list[tuple[int, int]] = []
        self.completed: list[CompletedTxn] = []

    def add(self, header: BatchHeader, base_offset: int) -> None:
        """Add a batch of records, or raise the LogError against it; the base offset in its header is ignored."""
        entry = self._entry(header.producer_id)
        epoch, sequence = header.producer_epoch, header.base_sequence
        self._check_epoch(entry, epoch, base_offset)
        if self._origin is Origin.CLIENT:
            self._check_sequence(entry, epoch, sequence, base_offset)
        transactional = header.is_transactional
        if entry.txn_first_offset is not None and not transactional:
            if self._origin is not Origin.REPLAY:
                raise InvalidTxnStateError(
                    f"producer {entry.producer_id} has a transaction open since offset"
                    f" {entry.txn_first_offset}, but the batch for offset {base_offset} is not transactional"
                )
        elif transactional and entry.txn_first_offset is None:
            entry.txn_first_offset = base_offset
            self.started.append((entry.producer_id, base_offset))
        delta = header.last_offset_delta
        batch = BatchMetadata(
            header.last_sequence, base_offset + delta, delta, header.max_timestamp
        )
        if epoch == entry.epoch:
            entry.batches = (*entry.batches[1 - BATCHES_KEPT :], batch)
        else:
            entry.epoch = epoch
            entry.batches = (batch,)
        entry.last_timestamp = header.max_timestamp

    def end(self, marker: Marker, offset: int) -> None:
        """Add the marker that ends a producer's transaction; without an open one it only sets the epochs."""
        entry = self._entry(marker.producer_id)
        self._check_epoch(entry, marker.producer_epoch, offset)
        if marker.coordinator_epoch < entry.coordinator_epoch and self._origin is not Origin.REPLAY:
            raise TransactionCoordinatorFencedError(
                f"the marker of producer {marker.producer_id} has the coordinator epoch"
                f" {marker.coordinator_epoch}, older than {entry.coordinator_epoch}"
            )
        if entry.txn_first_offset is not None:
            completed = CompletedTxn(
                marker.producer_id, entry.txn_first_offset, offset, not marker.committed
            )
            self.completed.append(completed)
        if marker.producer_epoch != entry.epoch:
            entry.epoch = marker.producer_epoch
            entry.batches = ()
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.txn_first_offset = None
        entry.last_timestamp = marker.timestamp

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            known = self._state.entries.get(producer_id)
            entry = ProducerEntry(producer_id) if known is None else known.copy()
            self.entries[producer_id] = entry
        return entry

    def _check_epoch(self, entry: ProducerEntry, epoch: int, offset: int) -> None:
        if epoch < entry.epoch and self._origin is not Origin.REPLAY:
            raise InvalidProducerEpochError(
                f"the batch of producer {entry.producer_id} for offset {offset} has the epoch {epoch},"
                f" older than {entry.epoch}"
            )

    def _check_sequence(self, entry: ProducerEntry, epoch: int, sequence: int, offset: int) -> None:
        if entry.epoch == NO_EPOCH:
            if self._first_sequence_zero and sequence != 0:
                raise OutOfOrderSequenceError(
                    f"the first batch of the unknown producer {entry.producer_id}, for offset {offset}, must"
                    f" have the sequence number 0, not {sequence}"
                )
            return
        if epoch != entry.epoch or entry.last_sequence < 0:
            expected = 0  # a new epoch, or one with nothing but markers so far
        else:
            expected = entry.last_sequence + 1 & MAX_INT32
        if sequence != expected:
            raise OutOfOrderSequenceError(
                f"the batch of producer {entry.producer_id}, epoch {epoch}, for offset {offset} must have"
                f" the sequence number {expected}, not {sequence}"
            )
