"""One transactional id of a shard: its logged state, and its state that is only in memory."""

from dataclasses import dataclass, replace

from groupsdk.broker.coordinator.transactions.marker_round import MarkerRound
from groupsdk.broker.coordinator.transactions.metadata import NO_TIMESTAMP, TransactionMetadata
from groupsdk.broker.coordinator.transactions.state import TransactionState


@dataclass(frozen=True, slots=True)
class TransactionView:
    """A snapshot of a transactional id; times are in milliseconds since 1970."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    """The epoch whose repeated request is still accepted; -1: none."""
    state: TransactionState
    pending_state: TransactionState | None
    """The state after all markers are written; until then requests are answered CONCURRENT_TRANSACTIONS. None:
    no markers are being written.
    """
    timeout_ms: int
    """The producer's transaction timeout."""
    start_ms: int | None
    """When its current or last transaction began; None: none since the producer was initialized."""
    last_update_ms: int
    """When it last changed."""
    partitions: tuple[tuple[str, int], ...]
    """The partitions of the transaction, sorted."""
    waiting_for_markers: tuple[tuple[str, int], ...]
    """The partitions that have no marker yet, sorted."""
    client_transaction_version: int
    """2 if every end of the producer's transactions raises its epoch, else 0."""


class Transaction:
    """One transactional id; only the shard changes it.

    Only `logged` is durable, and only `replay` changes it. The other fields are in no record, and are lost in a crash.

    Attributes:
        logged: the metadata of its last record in the log.
        in_memory: the metadata that applies instead while the coordinator runs: with the epochs and producer ids that
            no record has, or with the raised epoch of a fence whose record could not be written; None: `logged`
            applies.
        pending: the state that it enters once all markers are written; None: none are being written.
        failed_fence: whether the record of a fence could not be written.
        round: the markers that are being written; None: none are.
    """

    __slots__ = ("failed_fence", "in_memory", "logged", "pending", "round")

    def __init__(self, logged: TransactionMetadata) -> None:
        self.logged = logged
        self.in_memory: TransactionMetadata | None = None
        self.pending: TransactionState | None = None
        self.failed_fence = False
        self.round: MarkerRound | None = None

    @property
    def metadata(self) -> TransactionMetadata:
        """The current metadata."""
        return self.logged if self.in_memory is None else self.in_memory

    def replay(self, logged: TransactionMetadata) -> None:
        """Apply a record of the log, dropping the state in memory."""
        self.logged = logged
        self.in_memory = None

    def moved(self, metadata: TransactionMetadata) -> None:
        """Apply the part of a transition that its record, now replayed, does not have."""
        self.in_memory = None if metadata == self.logged else metadata
        self.pending = None
        self.round = None
        if not metadata.prepared:
            self.failed_fence = False

    def await_markers(self, *, backoff_ms: int, backoff_max_ms: int) -> None:
        """Start tracking the markers of the decided outcome."""
        committed = self.metadata.state is TransactionState.PREPARE_COMMIT
        complete = (
            TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        )
        self.pending = complete
        self.round = MarkerRound(
            self.metadata.transactional_id,
            self.metadata.partitions,
            backoff_ms=backoff_ms,
            backoff_max_ms=backoff_max_ms,
        )

    def fence_failed(self, in_memory: TransactionMetadata) -> None:
        """Record that a fence could not be written; its raised epoch applies nevertheless."""
        self.in_memory = in_memory
        self.failed_fence = True

    @property
    def shown(self) -> TransactionMetadata:
        """The current metadata, without the partitions that already have their marker."""
        if self.round is None:
            return self.metadata
        return replace(self.metadata, partitions=self.round.waiting)

    def view(self) -> TransactionView:
        """Return a snapshot."""
        metadata = self.metadata
        return TransactionView(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            last_producer_epoch=metadata.last_producer_epoch,
            state=metadata.state,
            pending_state=self.pending,
            timeout_ms=metadata.timeout_ms,
            start_ms=None if metadata.start_ms == NO_TIMESTAMP else metadata.start_ms,
            last_update_ms=metadata.last_update_ms,
            partitions=tuple(sorted(metadata.partitions)),
            waiting_for_markers=tuple(sorted(self.round.waiting)) if self.round else (),
            client_transaction_version=metadata.client_transaction_version,
        )
