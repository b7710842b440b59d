"""The metadata of one transactional id: its states, every transition between them, and what each makes of it."""

from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any, Final


class TransactionState(IntEnum):
    """The state of a transactional id (Kafka's `TransactionState`); the value is the one in the log."""

    label: str

    def __new__(cls, code: int, label: str) -> "TransactionState":
        """Create a member from its number in the log and its name in Kafka's answers."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.label = label
        return member

    EMPTY = 0, "Empty"
    """No transaction has started since the producer was initialized. Partitions can be added, and the id can
    expire.
    """
    ONGOING = 1, "Ongoing"
    """The transaction has partitions. More can be added; it is aborted once it is older than its timeout."""
    PREPARE_COMMIT = 2, "PrepareCommit"
    """The decision to commit is in the log, and its markers are being written; nothing can change it any more."""
    PREPARE_ABORT = 3, "PrepareAbort"
    """The decision to abort is in the log, and its markers are being written; nothing can change it any more."""
    COMPLETE_COMMIT = 4, "CompleteCommit"
    """The last transaction was committed on all of its partitions; otherwise like EMPTY."""
    COMPLETE_ABORT = 5, "CompleteAbort"
    """The last transaction was aborted on all of its partitions; otherwise like EMPTY."""
    DEAD = 6, "Dead"
    """The id has expired. Never stored: its tombstone is."""
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"
    """The producer's epoch is being raised before an abort. Never stored."""


class TransactionTrigger(Enum):
    """The trigger of a transition; the value is the label in the diagram."""

    INITIALIZED = "InitProducerId"
    PARTITION_ADDED = "a partition is added"
    COMMITTED = "EndTxn commits"
    ABORTED = "EndTxn aborts, or the time is over"
    ABORTED_EMPTY = "EndTxn aborts though nothing was added (TV2)"
    FENCED = "another producer, or the time is over (TV1)"
    MARKERS_WRITTEN = "all markers are written"
    EXPIRED = "not used for too long"


_S, _T = TransactionState, TransactionTrigger
_RESTING: Final = (_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)

TRANSITIONS: Final[dict[tuple[TransactionState, TransactionTrigger], TransactionState]] = {
    **{(each, _T.INITIALIZED): _S.EMPTY for each in _RESTING},
    **{(each, _T.PARTITION_ADDED): _S.ONGOING for each in (*_RESTING, _S.ONGOING)},
    (_S.ONGOING, _T.COMMITTED): _S.PREPARE_COMMIT,
    (_S.ONGOING, _T.ABORTED): _S.PREPARE_ABORT,
    (_S.ONGOING, _T.FENCED): _S.PREPARE_EPOCH_FENCE,
    (_S.PREPARE_EPOCH_FENCE, _T.ABORTED): _S.PREPARE_ABORT,
    **{(each, _T.ABORTED_EMPTY): _S.PREPARE_ABORT for each in _RESTING},
    (_S.PREPARE_COMMIT, _T.MARKERS_WRITTEN): _S.COMPLETE_COMMIT,
    (_S.PREPARE_ABORT, _T.MARKERS_WRITTEN): _S.COMPLETE_ABORT,
    **{(each, _T.EXPIRED): _S.DEAD for each in _RESTING},
}
"""The next state of a transactional id for each state and trigger."""

EXPIRABLE: Final = frozenset(_RESTING)
"""The states without a transaction, in which an id may expire."""

PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The states in which an outcome is decided and its markers are being written."""

STORED: Final = frozenset(TransactionState) - {
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
}
"""The states that a log may hold."""

_BY_LABEL: Final = {state.label: state for state in TransactionState}


def state_named(label: str) -> TransactionState | None:
    """Return the state with this name, as used in ListTransactions filters; None if there is none."""
    return _BY_LABEL.get(label)


def following(state: TransactionState, trigger: TransactionTrigger) -> TransactionState:
    found = TRANSITIONS.get((state, trigger))
    if found is None:
        raise ValueError(f"no transition from {state.label} when {trigger.value}")
    return found


NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
MAX_EPOCH: Final = 2**15 - 1
"""Reserved for fencing: no producer is ever given it."""
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The highest epoch that a producer may have."""
EPOCH_BUMP_VERSION: Final = 2
"""The transaction.version from which on every end of a transaction raises the epoch (KIP-890)."""


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """The state of one transactional id at one moment (Kafka: `TransactionMetadata`); times are in milliseconds.

    Each method that returns one is a transition: it returns the value that takes effect once its record is in the log,
    and raises ValueError if the table of transitions does not allow it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """-1 until the producer was initialized."""
    timeout_ms: int
    """The producer's transaction timeout."""
    state: TransactionState
    last_update_ms: int
    """When it last changed; never goes back."""
    partitions: frozenset[tuple[str, int]] = frozenset()
    """The (topic, partition) pairs of the transaction."""
    start_ms: int = NO_TIMESTAMP
    """When the first partition was added; -1: no transaction since the producer was initialized."""
    client_transaction_version: int = 0
    """The protocol that the producer last used: 2 if every end of a transaction raises the epoch."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before this one, to recognize a repeated request; -1: none. Not in the log (Kafka 4.1)."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last transition. Not in the log (Kafka 4.1)."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id once the markers are written; -1: unchanged. Not in the log (Kafka 4.1)."""

    @property
    def epoch_exhausted(self) -> bool:
        """Whether no producer can be given a higher epoch under this producer id."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        """Whether every end of the producer's transactions raises its epoch (TV2)."""
        return self.client_transaction_version >= EPOCH_BUMP_VERSION

    @property
    def prepared(self) -> bool:
        """Whether an outcome is decided and its markers are not all written."""
        return self.state in PREPARED

    def initialized(
        self,
        producer_epoch: int,
        last_producer_epoch: int,
        timeout_ms: int,
        now_ms: int,
        *,
        producer_id: int | None = None,
    ) -> "TransactionMetadata":
        """Set the producer's epoch (InitProducerId), and a new id where the epochs of the old one are exhausted.

        A repeated request with the last epoch is still accepted; -1: none.
        """
        return self._moved(
            TransactionTrigger.INITIALIZED,
            now_ms,
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
        )

    def with_partitions(
        self,
        partitions: frozenset[tuple[str, int]],
        client_transaction_version: int,
        now_ms: int,
    ) -> "TransactionMetadata":
        """Add partitions to the transaction; the first ones start it."""
        ongoing = self.state is TransactionState.ONGOING
        return self._moved(
            TransactionTrigger.PARTITION_ADDED,
            now_ms,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if ongoing else now_ms,
            client_transaction_version=client_transaction_version,
        )

    def fenced(self) -> "TransactionMetadata":
        """Raise the epoch to fence the producer, in memory only; the transition to PREPARE_ABORT follows."""
        following(self.state, TransactionTrigger.FENCED)
        return replace(
            self,
            producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def prepare(
        self,
        *,
        commit: bool,
        client_transaction_version: int,
        now_ms: int,
        next_producer_id: int = NO_PRODUCER_ID,
    ) -> "TransactionMetadata":
        """Decide the outcome: enter PREPARE_COMMIT or PREPARE_ABORT.

        With `client_transaction_version` 2 the epoch is raised, and the markers carry the raised one. Where the
        epochs of the producer id are exhausted, the next transaction has another one.
        """
        bumps_epoch = client_transaction_version >= EPOCH_BUMP_VERSION
        trigger = TransactionTrigger.COMMITTED if commit else TransactionTrigger.ABORTED
        if bumps_epoch and not commit and self.state is not TransactionState.ONGOING:
            trigger = TransactionTrigger.ABORTED_EMPTY
        changes: dict[str, Any] = {}
        if bumps_epoch:
            changes["producer_epoch"] = min(self.producer_epoch + 1, MAX_EPOCH)
            changes["last_producer_epoch"] = self.producer_epoch
        if self.state is not TransactionState.ONGOING:
            changes["start_ms"] = now_ms
        return self._moved(
            trigger,
            now_ms,
            client_transaction_version=client_transaction_version,
            next_producer_id=next_producer_id,
            **changes,
        )

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """End the transaction, once every partition has its marker."""
        rotates = self.bumps_epoch and self.next_producer_id != NO_PRODUCER_ID
        return self._moved(
            TransactionTrigger.MARKERS_WRITTEN,
            now_ms,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            producer_epoch=0 if rotates else self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    def _moved(
        self,
        trigger: TransactionTrigger,
        now_ms: int,
        **changes: Any,
    ) -> "TransactionMetadata":
        state = following(self.state, trigger)
        # If the clock jumps back, an id must not look older than it is.
        update_ms = max(now_ms, self.last_update_ms)
        return replace(
            self,
            state=state,
            last_update_ms=update_ms,
            previous_producer_id=self.producer_id,
            **changes,
        )
