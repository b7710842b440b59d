"""Build the responses to producers and administrators, for each API version, with errors that it knows."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from groupsdk.broker.coordinator.transactions.log_records import by_topic
from groupsdk.broker.coordinator.transactions.metadata import TransactionMetadata, state_named
from groupsdk.broker.coordinator.transactions.producer_ids import (
    ProducerIdAllocator,
    ProducerIdError,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import transactions as messages
from groupsdk.wire.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicData,
    TransactionListing as ListedTransaction,
    TransactionState as DescribedTransaction,
)
from groupsdk.wire.schema import ApiKey, Request, Response
from groupsdk.wire.twin import maker


_new_result = maker(messages.AddPartitionsToTxnPartitionResult)
_new_topic_result = maker(messages.AddPartitionsToTxnTopicResult)
_BATCHED = 4  # from this version on, brokers batch AddPartitionsToTxn for many transactions


def initialized(metadata: TransactionMetadata) -> messages.InitProducerIdResponse:
    """Build the response to an InitProducerId with the producer's id and epoch."""
    return messages.InitProducerIdResponse(
        producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
    )


def not_initialized(error: ErrorCode, api_version: int) -> messages.InitProducerIdResponse:
    """Build the response to a refused InitProducerId, with an error known to this version of the API."""
    code = for_version(ApiKey.INIT_PRODUCER_ID, api_version, error)
    return messages.InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


def idempotent_producer(producer_ids: ProducerIdAllocator) -> messages.InitProducerIdResponse:
    """Build the response to an InitProducerId without a transactional id; any broker may answer it, nothing is stored."""
    try:
        return messages.InitProducerIdResponse(producer_id=producer_ids.next_id(), producer_epoch=0)
    except ProducerIdError as error:
        return not_initialized(error.error_code, 0)


def ended(metadata: TransactionMetadata) -> messages.EndTxnResponse:
    """Build the response to an EndTxn with the producer id and epoch for the next transaction."""
    return messages.EndTxnResponse(
        producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
    )


def not_ended(error: ErrorCode, api_version: int) -> messages.EndTxnResponse:
    """Build the response to a refused EndTxn, with an error known to this version of the API."""
    return messages.EndTxnResponse(error_code=for_version(ApiKey.END_TXN, api_version, error))


def offsets_added(error: ErrorCode, api_version: int) -> messages.AddOffsetsToTxnResponse:
    """Build the response to an AddOffsetsToTxn, with an error known to this version of the API."""
    code = for_version(ApiKey.ADD_OFFSETS_TO_TXN, api_version, error)
    return messages.AddOffsetsToTxnResponse(error_code=code)


def transactions_of(
    request: messages.AddPartitionsToTxnRequest, api_version: int
) -> tuple[messages.AddPartitionsToTxnTransaction, ...]:
    """Return the transactions of an AddPartitionsToTxn, in the form of version 4 and later."""
    if api_version >= _BATCHED:
        return request.transactions
    return (
        messages.AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        ),
    )


def partitions_of(topics: Iterable[messages.AddPartitionsToTxnTopic]) -> frozenset[tuple[str, int]]:
    """Return the (topic, partition) pairs of a request."""
    return frozenset((topic.name, partition) for topic in topics for partition in topic.partitions)


def partitions_added(
    transaction: messages.AddPartitionsToTxnTransaction,
    outcome: ErrorCode | Mapping[tuple[str, int], ErrorCode],
    api_version: int,
) -> messages.AddPartitionsToTxnResult:
    one = outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
    code = for_version(ApiKey.ADD_PARTITIONS_TO_TXN, api_version, one)
    topics = []
    for topic in transaction.topics:
        results = []
        for partition in topic.partitions:
            if not isinstance(outcome, ErrorCode):
                error = outcome[topic.name, partition]
                code = for_version(ApiKey.ADD_PARTITIONS_TO_TXN, api_version, error)
            results.append(_new_result(partition, code))
        topics.append(_new_topic_result(topic.name, tuple(results)))
    return messages.AddPartitionsToTxnResult(transaction.transactional_id, tuple(topics))


def all_partitions_added(
    results: tuple[messages.AddPartitionsToTxnResult, ...], api_version: int
) -> messages.AddPartitionsToTxnResponse:
    """Build the response to an AddPartitionsToTxn; before version 4 it has exactly one transaction."""
    if api_version >= _BATCHED:
        return messages.AddPartitionsToTxnResponse(results_by_transaction=results)
    return messages.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=results[0].topic_results
    )


def refused(request: Request[Any], error: ErrorCode, api_version: int) -> Response:
    """Build an error response to any request to a transaction coordinator, with the error as this version knows it."""
    match request:
        case messages.InitProducerIdRequest():
            return not_initialized(error, api_version)
        case messages.EndTxnRequest():
            return not_ended(error, api_version)
        case messages.AddOffsetsToTxnRequest():
            return offsets_added(error, api_version)
        case messages.AddPartitionsToTxnRequest():
            results = tuple(
                partitions_added(each, error, api_version)
                for each in transactions_of(request, api_version)
            )
            return all_partitions_added(results, api_version)
        case DescribeTransactionsRequest():
            return DescribeTransactionsResponse(
                transaction_states=tuple(
                    DescribedTransaction(error_code=error, transactional_id=each)
                    for each in request.transactional_ids
                )
            )
        case ListTransactionsRequest():
            return ListTransactionsResponse(error_code=error)
        case _:
            raise TypeError(
                f"{type(request).__name__} is not a request for a transaction coordinator"
            )


def failed(response: Response, error: ErrorCode) -> Response:
    """Convert a response into the one to send if its records could not be written.

    One that is an error stays as it is, except for CONCURRENT_TRANSACTIONS of an InitProducerId, which promises that
    a fence is written.
    """
    match response:
        case messages.InitProducerIdResponse():
            return not_initialized(error, 0)
        case messages.EndTxnResponse():
            return messages.EndTxnResponse(error_code=error)
        case messages.AddOffsetsToTxnResponse():
            return messages.AddOffsetsToTxnResponse(error_code=error)
        case messages.AddPartitionsToTxnResponse():
            return replace(
                response,
                results_by_transaction=tuple(
                    replace(each, topic_results=_failed(each.topic_results, error))
                    for each in response.results_by_transaction
                ),
                results_by_topic_v3_and_below=_failed(
                    response.results_by_topic_v3_and_below, error
                ),
            )
        case _:
            return response


def _failed(
    topics: tuple[messages.AddPartitionsToTxnTopicResult, ...], error: ErrorCode
) -> tuple[messages.AddPartitionsToTxnTopicResult, ...]:
    return tuple(
        messages.AddPartitionsToTxnTopicResult(
            topic.name,
            tuple(
                messages.AddPartitionsToTxnPartitionResult(
                    each.partition_index, each.partition_error_code or error
                )
                for each in topic.results_by_partition
            ),
        )
        for topic in topics
    )


def describe(transactional_id: str, metadata: TransactionMetadata | None) -> DescribedTransaction:
    """Build the DescribeTransactions result of one transactional id (KIP-664); "" is answered INVALID_REQUEST."""
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


def _compiled(expression: str) -> Any:
    """Compile an expression of RE2's syntax, which matches in linear time; None if RE2 rejects it."""
    import re2  # rarely used

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error:
        return None


def list_transactions(
    request: ListTransactionsRequest, known: Iterable[TransactionMetadata], now_ms: int
) -> ListTransactionsResponse:
    """Build the response to a ListTransactions: the transactional ids that pass all filters (KIP-664).

    A duration filter compares the time since the last transaction began, whether or not it is still open; an id that
    never had one passes, as in Kafka. A pattern of ids (version 2) is in RE2's syntax and matches the whole id."""
    pattern = None
    if request.transactional_id_pattern:
        pattern = _compiled(request.transactional_id_pattern)
        if pattern is None:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    named = {label: state_named(label) for label in request.state_filters}
    states = {state for state in named.values() if state is not None}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter

    def passes(metadata: TransactionMetadata) -> bool:
        if producer_ids and metadata.producer_id not in producer_ids:
            return False
        if named and metadata.state not in states:
            return False
        if pattern is not None and not pattern.fullmatch(metadata.transactional_id):
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


_FENCED_SINCE: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.END_TXN: 2,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
}
"""The first version of each API whose clients know PRODUCER_FENCED."""

_UNREACHABLE: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Why a transaction could not be looked at, where nothing is wrong with it."""

LAST_PRODUCE_WITHOUT_ABORTABLE: Final = 10
LAST_PRODUCE_WITHOUT_BUMP: Final = 11


def for_version(api: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """Map PRODUCER_FENCED to INVALID_PRODUCER_EPOCH for versions that lack it; return other errors unchanged."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE.get(api, 0):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """Map the coordinator's error for a partition to the one sent in response to a Produce of this version."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version <= LAST_PRODUCE_WITHOUT_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    adds = version > LAST_PRODUCE_WITHOUT_BUMP
    if error in _UNREACHABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        # Old producers treat this one as retriable.
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error
