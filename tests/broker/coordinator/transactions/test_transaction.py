"""Tests one transactional id, and how it is shown."""

from groupsdk.broker.coordinator.transactions.metadata import TransactionState as S
from groupsdk.broker.coordinator.transactions.transaction import Transaction, TransactionView
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.transactions.driving import metadata


def test_a_view_shows_everything() -> None:
    assert Transaction(metadata(last_producer_epoch=2)).view() == TransactionView(
        transactional_id="x",
        producer_id=7,
        producer_epoch=3,
        last_producer_epoch=2,
        state=S.ONGOING,
        pending_state=None,
        timeout_ms=60_000,
        start_ms=900,
        last_update_ms=1_000,
        partitions=(("t", 0), ("t", 2)),
        waiting_for_markers=(),
        client_transaction_version=0,
    )
    assert Transaction(metadata(S.EMPTY)).view().start_ms is None


def test_awaiting_markers_blocks_and_moving_frees() -> None:
    for prepared, complete in (
        (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
        (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    ):
        transaction = Transaction(metadata(prepared))
        transaction.await_markers(backoff_ms=50, backoff_max_ms=100)
        assert transaction.pending is complete
        assert transaction.view().waiting_for_markers == (("t", 0), ("t", 2))
        assert transaction.round is not None
        transaction.round.report({("t", 0): ErrorCode.NONE})
        assert transaction.view().waiting_for_markers == (("t", 2),)
        assert transaction.shown.partitions == {("t", 2)}
        assert transaction.metadata.partitions == {("t", 0), ("t", 2)}
        transaction.moved(metadata(complete))
        assert transaction.view().pending_state is None
        assert transaction.view().waiting_for_markers == ()
        assert transaction.shown == metadata(complete)


def test_a_failed_fence_is_remembered_until_the_transaction_is_over() -> None:
    transaction = Transaction(metadata())
    transaction.fence_failed(metadata(producer_epoch=4))
    assert (transaction.metadata.producer_epoch, transaction.failed_fence) == (4, True)
    transaction.moved(metadata(S.PREPARE_ABORT))
    assert transaction.failed_fence
    transaction.moved(metadata(S.COMPLETE_ABORT))
    assert not transaction.failed_fence
