"""The states of a transactional id, and every transition between them.

`TRANSITIONS` has every transition; any other one is a bug.
"""

from enum import Enum, IntEnum
from typing import Final


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
