"""One transactional id of a shard: its logged state, and its state that is only in memory."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from groupsdk.broker.coordinator.transactions.metadata import (
    NO_TIMESTAMP,
    TransactionMetadata,
    TransactionState,
)
from groupsdk.error_code import ErrorCode


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


logger = logging.getLogger(__name__)

DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        # A partition that cannot hold transactions has no records of this one.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # No leader is known: the topic was deleted.
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""Results after which a partition needs no marker any more."""

FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Results that mean that a newer producer or coordinator is active, so this one must stop."""

RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Results that are expected to be temporary. Any other is retried as well, with a warning."""


class MarkerRound:
    """The partitions of a prepared transaction that still need a marker (Kafka: `PendingCompleteTxn`)."""

    def __init__(
        self,
        transactional_id: str,
        partitions: frozenset[tuple[str, int]],
        *,
        backoff_ms: int,
        backoff_max_ms: int,
    ) -> None:
        self.given_up = False
        """Whether the round was fenced: it is not followed any more."""
        self._transactional_id = transactional_id
        self._asked = set(partitions)
        self._failed: set[tuple[str, int]] = set()
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._attempts = 0

    @property
    def waiting(self) -> frozenset[tuple[str, int]]:
        """The partitions without a marker."""
        return frozenset(self._asked | self._failed)

    @property
    def done(self) -> bool:
        """Whether every partition has its marker."""
        return not self._asked and not self._failed

    def report(self, outcomes: Mapping[tuple[str, int], ErrorCode]) -> bool:
        """Record the results of requested partitions. Return whether any must be retried, and none is fenced."""
        for partition in sorted(self._asked & outcomes.keys()):
            error = outcomes[partition]
            if error in FENCED:
                logger.warning(
                    "transactional id %s: giving up on its markers: %s-%d answered %s",
                    self._transactional_id,
                    *partition,
                    error.name,
                )
                self.given_up = True
                return False
            self._asked.remove(partition)
            if error in DONE:
                continue
            self._failed.add(partition)
            logger.log(
                self.level(logging.INFO if error in RETRIED else logging.WARNING),
                "transactional id %s: retrying the marker for %s-%d after %s",
                self._transactional_id,
                *partition,
                error.name,
            )
        return bool(self._failed)

    def level(self, level: int) -> int:
        """Return the level at which to log a failure: DEBUG, except for the first attempt and every power of two.

        This way a partition that is unavailable for hours does not fill the log.
        """
        return logging.DEBUG if self._attempts & (self._attempts - 1) else level

    def backoff_ms(self) -> int:
        """Return how long to wait before the next retry, in milliseconds, and count it."""
        wait_ms = min(self._backoff_max_ms, self._backoff_ms << min(self._attempts, 20))
        self._attempts += 1
        return wait_ms

    def retry(self) -> tuple[tuple[str, int], ...]:
        """Mark the failed partitions as requested again, and return them, sorted."""
        partitions = tuple(sorted(self._failed))
        self._asked |= self._failed
        self._failed.clear()
        return partitions
