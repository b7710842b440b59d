"""Answer DescribeCluster, DescribeLogDirs, DescribeProducers and ListPartitionReassignments."""

from typing import Final

from groupsdk.broker.server.access import allowed, cluster_allowed, operations
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from groupsdk.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from groupsdk.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from groupsdk.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


_BROKERS: Final = 1


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the nodes."""
    cluster = call.node.cluster
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            if request.endpoint_type not in {1, 2}
            else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER",
            endpoint_type=_BROKERS,
        )
    listener = call.connection.listener_name
    rack = cluster.config.broker_rack or None
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=tuple(
            DescribeClusterBroker(node.node_id, *node.endpoint(listener), rack)
            for node in cluster.running_nodes
        ),
        cluster_authorized_operations=operations(
            call, "cluster", "kafka-cluster", asked=request.include_cluster_authorized_operations
        ),
    )


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Tell the sizes of the partitions that this node leads."""
    cluster = call.node.cluster
    if not cluster_allowed(call, "describe"):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, each) for topic in request.topics for each in topic.partitions}
    )
    topics = []
    for topic in cluster.catalogue.topics.values():
        partitions = tuple(
            DescribeLogDirsPartition(
                index,
                cluster.logs.get(topic, index).size
                if cluster.logs.exists(topic.name, index)
                else 0,
            )
            for index, state in enumerate(topic.partitions)
            if state.leader == call.node.node_id
            and (wanted is None or (topic.name, index) in wanted)
        )
        if partitions:
            topics.append(DescribeLogDirsTopic(topic.name, partitions))
    result = DescribeLogDirsResult(0, cluster.logs.path, tuple(topics))
    return DescribeLogDirsResponse(results=(result,))


def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Tell which producers wrote to partitions, and where their transactions began."""
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                topic.name,
                tuple(_producers(call, topic.name, each) for each in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _producers(call: Call, name: str, partition: int) -> PartitionResponse:
    node = call.node
    if not allowed(call, "read", "topic", name):
        return PartitionResponse(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        log = node.cluster.led_log(node.node_id, name, partition)
    except GroupSdkError as error:
        code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        return PartitionResponse(partition, code)
    return PartitionResponse(
        partition,
        active_producers=tuple(
            ProducerState(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if entry.txn_first_offset is None else entry.txn_first_offset,
            )
            for producer_id, entry in sorted(log.producers.entries.items())
        ),
    )


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Say that no replica is on its way anywhere: a partition has one, and moving its leader takes no time."""
    if not cluster_allowed(call, "describe"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    return ListPartitionReassignmentsResponse(error_message=None)
