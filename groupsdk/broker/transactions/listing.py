"""Answer who asks what transactions there are (KIP-664)."""

from collections.abc import Iterable

from groupsdk.broker.transactions.log_records import by_topic
from groupsdk.broker.transactions.metadata import TransactionMetadata
from groupsdk.broker.transactions.state import state_named
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.describe_transactions import (
    TopicData,
    TransactionState as DescribedTransaction,
)
from groupsdk.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState as ListedTransaction,
)


def describe(transactional_id: str, metadata: TransactionMetadata | None) -> DescribedTransaction:
    """Show one transactional id.

    Args:
        transactional_id: as it was asked for.
        metadata: what is known of it; None: nothing.
    """
    if not transactional_id:
        return DescribedTransaction(
            error_code=ErrorCode.INVALID_REQUEST, transactional_id=transactional_id
        )
    if metadata is None:
        return DescribedTransaction(
            error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(TopicData(*each) for each in by_topic(metadata.partitions)),
    )


def list_transactions(
    request: ListTransactionsRequest, known: Iterable[TransactionMetadata], now_ms: int
) -> ListTransactionsResponse:
    """List the transactional ids that pass all filters of a request.

    A filter of durations looks at the time since the last transaction began, whether or not it is still
    open; an id that never had one passes, as in Kafka. Patterns of ids (version 2) are refused with
    UNSUPPORTED_VERSION: Kafka takes them in RE2's syntax, which runs in linear time, as Python's does not.
    """
    if request.transactional_id_pattern:
        return ListTransactionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    named = {label: state_named(label) for label in request.state_filters}
    states = {state for state in named.values() if state is not None}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter

    def passes(metadata: TransactionMetadata) -> bool:
        if producer_ids and metadata.producer_id not in producer_ids:
            return False
        if named and metadata.state not in states:
            return False
        return duration_ms < 0 or now_ms - metadata.start_ms > duration_ms

    return ListTransactionsResponse(
        unknown_state_filters=tuple(label for label, state in named.items() if state is None),
        transaction_states=tuple(
            ListedTransaction(each.transactional_id, each.producer_id, each.state.label)
            for each in known
            if passes(each)
        ),
    )
