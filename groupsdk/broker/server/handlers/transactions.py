"""Handle the transaction APIs of producers and tools; most of them are passed to the coordinator."""

from dataclasses import replace
from typing import Any, Final

from groupsdk.broker.coordinator.runtime.contract import MarkerPartitions
from groupsdk.broker.coordinator.transactions.responses import idempotent_producer
from groupsdk.broker.server.call import MAX_FILTERS, Call, allowed, ask, cluster_allowed, gather
from groupsdk.broker.server.error_responses import refuse
from groupsdk.broker.server.pace import Pace, Steps, log_costs
from groupsdk.broker.transaction_markers import MarkerWriter
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import transactions as messages
from groupsdk.wire.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from groupsdk.wire.schema import Response


_MARKER_COSTS: Final = 64
"""The weight of a written marker, in simple elements."""
_MANY_TOPICS: Final = 512
_BATCHED = 4  # from this version on, only brokers send AddPartitionsToTxn
_FORBIDDEN = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def init_producer_id(call: Call, request: messages.InitProducerIdRequest) -> Response | None:
    """Handle InitProducerId; without a transactional id, any node answers it.

    Requires "write" on the transactional id; without one, "idempotent_write" on the cluster, or "write" on any topic.
    """
    node = call.node
    cluster = node.cluster
    transactional_id = request.transactional_id
    if transactional_id is None:
        if not (cluster_allowed(call, "idempotent_write") or _may_write_somewhere(call)):
            return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.version)
        if (request.producer_id < 0) is not (request.producer_epoch < 0):
            return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
        return idempotent_producer(cluster.producer_ids)
    if not allowed(call, "write", "transactional_id", transactional_id):
        return refuse(request, _FORBIDDEN, call.version)
    if not transactional_id:
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    ask(
        call, cluster.transactions.runtime_for(node.node_id, transactional_id), request, call.answer
    )
    return None


def _may_write_somewhere(call: Call) -> bool:
    authorizer = call.node.cluster.authorizer
    return authorizer is None or authorizer.allows_any(
        call.principal, call.connection.peer, "write", "topic"
    )


def add_partitions_to_txn(
    call: Call, request: messages.AddPartitionsToTxnRequest
) -> Response | Steps | None:
    """Handle AddPartitionsToTxn; if a partition is unknown or not writable by the client, none is added.

    In steps. Requires "write" on the transactional id and the topics; from version 4 on, which only brokers send,
    "cluster_action" on the cluster.
    """
    if call.version >= _BATCHED:
        return _batched(call, request)
    transactional_id = request.v3_and_below_transactional_id
    if not allowed(call, "write", "transactional_id", transactional_id):
        return refuse(request, _FORBIDDEN, call.version)
    return _add_partitions(call, request)


def _add_partitions(call: Call, request: messages.AddPartitionsToTxnRequest) -> Steps:
    node = call.node
    cluster = node.cluster
    codes: dict[tuple[str, int], ErrorCode] = {}
    pace = Pace()
    for topic in request.v3_and_below_topics:
        if pace.due(1 + len(topic.partitions)):
            yield
        may = allowed(call, "write", "topic", topic.name)
        for partition in topic.partitions:
            if not may:
                codes[topic.name, partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif cluster.leader(topic.name, partition) is None:
                codes[topic.name, partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if codes:
        return messages.AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=tuple(
                messages.AddPartitionsToTxnTopicResult(
                    topic.name,
                    tuple(
                        messages.AddPartitionsToTxnPartitionResult(
                            each, codes.get((topic.name, each), ErrorCode.OPERATION_NOT_ATTEMPTED)
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.v3_and_below_topics
            )
        )
    transactional_id = request.v3_and_below_transactional_id
    ask(
        call, cluster.transactions.runtime_for(node.node_id, transactional_id), request, call.answer
    )
    return None


def _batched(call: Call, request: messages.AddPartitionsToTxnRequest) -> Response | None:
    node = call.node
    if not cluster_allowed(call, "cluster_action"):
        return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.version)
    coordinators = node.cluster.transactions
    parts = [
        (
            coordinators.runtime_for(node.node_id, transaction.transactional_id),
            replace(request, transactions=(transaction,)),
        )
        for transaction in request.transactions
    ]

    def combine(
        answers: list[messages.AddPartitionsToTxnResponse],
    ) -> messages.AddPartitionsToTxnResponse:
        results = tuple(each for answer in answers for each in answer.results_by_transaction)
        return messages.AddPartitionsToTxnResponse(results_by_transaction=results)

    return gather(call, parts, combine)


def transaction_request(
    call: Call, request: messages.AddOffsetsToTxnRequest | messages.EndTxnRequest
) -> Response | None:
    """Handle AddOffsetsToTxn and EndTxn: pass them to the coordinator.

    Requires "write" on the transactional id and, for AddOffsetsToTxn, "read" on the group.
    """
    node = call.node
    transactional_id = request.transactional_id
    if not allowed(call, "write", "transactional_id", transactional_id):
        return refuse(request, _FORBIDDEN, call.version)
    if isinstance(request, messages.AddOffsetsToTxnRequest) and not allowed(
        call, "read", "group", request.group_id
    ):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.version)
    node.cluster.internal_topic("__consumer_offsets")
    ask(
        call,
        node.cluster.transactions.runtime_for(node.node_id, transactional_id),
        request,
        call.answer,
    )
    return None


def describe_transactions(call: Call, request: DescribeTransactionsRequest) -> Response | None:
    """Handle DescribeTransactions, id by id; requires "describe" on the transactional id.

    Topics that the client may not describe are omitted.
    """
    node = call.node
    coordinators = node.cluster.transactions
    refused = tuple(
        TransactionState(_FORBIDDEN, each)
        for each in request.transactional_ids
        if not allowed(call, "describe", "transactional_id", each)
    )
    denied = {each.transactional_id for each in refused}
    parts = [
        (coordinators.runtime_for(node.node_id, each), replace(request, transactional_ids=(each,)))
        for each in request.transactional_ids
        if each not in denied
    ]

    def combine(answers: list[DescribeTransactionsResponse]) -> DescribeTransactionsResponse:
        states = [_visible(call, each) for answer in answers for each in answer.transaction_states]
        call.large = sum(len(each.topics) for each in states) > _MANY_TOPICS
        return DescribeTransactionsResponse(transaction_states=(*refused, *states))

    return gather(call, parts, combine)


def _visible(call: Call, state: TransactionState) -> TransactionState:
    """Remove the topics that the client may not see."""
    return replace(
        state,
        topics=tuple(
            topic for topic in state.topics if allowed(call, "describe", "topic", topic.topic)
        ),
    )


def list_transactions(call: Call, request: ListTransactionsRequest) -> Response | None:
    """List the transactions of all coordinators of this node that the client may describe.

    While one of the coordinators loads, the response is COORDINATOR_LOAD_IN_PROGRESS.
    """
    node = call.node
    if len(request.state_filters) > MAX_FILTERS:
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    parts: list[Any] = []
    for runtime in node.cluster.transactions.led_by(node.node_id):
        if runtime.unavailable() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if runtime.unavailable() is None:
            parts.append((runtime, request))

    def combine(answers: list[ListTransactionsResponse]) -> ListTransactionsResponse:
        states = tuple(
            each
            for answer in answers
            for each in answer.transaction_states
            if allowed(call, "describe", "transactional_id", each.transactional_id)
        )
        unknown = answers[0].unknown_state_filters if answers else ()
        error = next((each.error_code for each in answers if each.error_code), 0)
        return ListTransactionsResponse(
            error_code=error, unknown_state_filters=unknown, transaction_states=states
        )

    return gather(call, parts, combine)


def write_txn_markers(call: Call, request: messages.WriteTxnMarkersRequest) -> Steps:
    """End transactions in partitions, as administrators do to abort hanging ones; results are grouped by producer.

    In steps. The coordinator is not involved. Requires "cluster_action" or "alter" on the cluster.
    """
    may = cluster_allowed(call, "cluster_action") or cluster_allowed(call, "alter")
    answers: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    pace, logs = Pace(), call.node.cluster.logs
    for marker in request.markers:
        topics = answers.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partition_indexes:
                if pace.due(max(_MARKER_COSTS, log_costs(logs, topic.name, partition))):
                    yield
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if may:
                    code = _write_marker(call, marker, topic.name, partition)
                topics.setdefault(topic.name, {})[partition] = code
    return messages.WriteTxnMarkersResponse(
        markers=tuple(
            messages.WritableTxnMarkerResult(
                producer_id,
                tuple(
                    messages.WritableTxnMarkerTopicResult(
                        name,
                        tuple(
                            messages.WritableTxnMarkerPartitionResult(partition, code)
                            for partition, code in partitions.items()
                        ),
                    )
                    for name, partitions in topics.items()
                ),
            )
            for producer_id, topics in answers.items()
            if topics
        )
    )


def _write_marker(
    call: Call, marker: messages.WritableTxnMarker, name: str, partition: int
) -> ErrorCode:
    cluster = call.node.cluster
    leader = cluster.leader(name, partition)
    if leader is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if leader != call.node.node_id:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka cannot write such a batch either
    asked = MarkerPartitions(
        transactional_id="",
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        partitions=((name, partition),),
    )
    return MarkerWriter(cluster).mark(asked, name, partition)
