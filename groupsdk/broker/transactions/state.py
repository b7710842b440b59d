"""Say which states a transactional id has, and every move between them.

Two rules: everything that moves an id from state to state is in `TRANSITIONS`, and a pair that is not in
it is a bug.
"""

from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """Where a transactional id stands (Kafka's `TransactionState`); the value is the one in the log."""

    label: str

    def __new__(cls, code: int, label: str) -> "TransactionState":
        """Create a member from its number in the log and its name in Kafka's answers."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.label = label
        return member

    EMPTY = 0, "Empty"
    """No transaction yet since the producer was initialized.

    action: take partitions; expire once it is old enough.
    transition: a partition is added => ONGOING; aborted though empty (TV2) => PREPARE_ABORT; initialized
    again => EMPTY; expired => DEAD
    """
    ONGOING = 1, "Ongoing"
    """A transaction has partitions.

    action: take more; abort it once it is older than its timeout.
    transition: committed => PREPARE_COMMIT; aborted, timed out, fenced => PREPARE_ABORT
    """
    PREPARE_COMMIT = 2, "PrepareCommit"
    """The outcome is in the log, not yet on every partition.

    action: write markers until every partition has its own; nothing can change the outcome.
    transition: all markers written => COMPLETE_COMMIT
    """
    PREPARE_ABORT = 3, "PrepareAbort"
    """As PREPARE_COMMIT, with the other outcome.

    transition: all markers written => COMPLETE_ABORT
    """
    COMPLETE_COMMIT = 4, "CompleteCommit"
    """The last transaction was committed on all of its partitions; otherwise as EMPTY."""
    COMPLETE_ABORT = 5, "CompleteAbort"
    """The last transaction was aborted on all of its partitions; otherwise as EMPTY."""
    DEAD = 6, "Dead"
    """Expired; never stored: its tombstone is."""
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"
    """The producer's epoch is being raised before an abort; never stored."""


TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.ONGOING: frozenset(
        {
            TransactionState.ONGOING,
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        }
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE}
    ),
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: frozenset(
        {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
    ),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""target -> the states that it may be entered from, for every producer."""

EMPTY_ABORT: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""From where PREPARE_ABORT may be entered besides, by producers whose every end raises the epoch (TV2)."""

EXPIRABLE: Final = TRANSITIONS[TransactionState.DEAD]
"""The states in which nothing is under way, so that an id may be forgotten."""

PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The states that have an outcome and wait for its markers."""

STORED: Final = frozenset(TransactionState) - {
    TransactionState.DEAD,
    TransactionState.PREPARE_EPOCH_FENCE,
}
"""The states that a log may hold."""

_BY_LABEL: Final = {state.label: state for state in TransactionState}


def state_named(label: str) -> TransactionState | None:
    """Return the state of this name, as ListTransactions filters by it; None: there is none."""
    return _BY_LABEL.get(label)


def check_transition(
    source: TransactionState, target: TransactionState, *, bumps_epoch: bool = False
) -> None:
    """Check a move against the table.

    Args:
        source: the state now.
        target: the state to enter.
        bumps_epoch: whether the producer's every end of a transaction raises its epoch (TV2).

    Raises:
        ValueError: the table has no such move; the coordinator has a bug.
    """
    if source in TRANSITIONS[target]:
        return
    if target is TransactionState.PREPARE_ABORT and bumps_epoch and source in EMPTY_ABORT:
        return
    raise ValueError(f"no transition from {source.label} to {target.label}")
