"""Handle DescribeCluster, DescribeQuorum, DescribeLogDirs and DescribeProducers."""

from collections.abc import Generator
from typing import Final

from groupsdk.broker.catalogue import Topic
from groupsdk.broker.log_manager import LogManager
from groupsdk.broker.server.call import Call, Pace, Steps, allowed, cluster_allowed, operations
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
from groupsdk.wire.messages.describe_quorum import (
    DescribeQuorumListener,
    DescribeQuorumNode,
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    ReplicaState,
)


_BROKERS: Final = 1
_TELLS_NODES: Final = 2
_OPENING: Final = 64
"""The weight of opening a log, in elements."""
METADATA_TOPIC: Final = "__cluster_metadata"


def describe_cluster(call: Call, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """List the running nodes and the controller, and stopped nodes on request (KIP-1073).

    Endpoint types other than brokers are refused.
    """
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
            DescribeClusterBroker(
                node.node_id, *node.endpoint(listener), rack, is_fenced=not node.running
            )
            for node in cluster.registered_nodes.values()
            if node.running or request.include_fenced_brokers
        ),
        cluster_authorized_operations=operations(
            call, "cluster", "kafka-cluster", asked=request.include_cluster_authorized_operations
        ),
    )


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> Steps:
    """Return the size in bytes of the partitions that this node leads, in steps; requires "describe" on the cluster."""
    cluster = call.node.cluster
    if not cluster_allowed(call, "describe"):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    pace = Pace()
    wanted: set[tuple[str, int]] = set()
    for asked in request.topics or ():
        for index in asked.partitions:
            if pace.due():
                yield
            wanted.add((asked.topic, index))
    topics = []
    for topic in tuple(cluster.catalogue.topics.values()):
        partitions = []
        for index, state in enumerate(topic.partitions):
            if pace.due():
                call.large = True
                yield
            is_asked = request.topics is None or (topic.name, index) in wanted
            if is_asked and state.leader == call.node.node_id:
                described = yield from _log_dir_partition(cluster.logs, topic, index, pace)
                partitions.append(described)
        if partitions:
            topics.append(DescribeLogDirsTopic(topic.name, tuple(partitions)))
    result = DescribeLogDirsResult(0, cluster.logs.path, tuple(topics), *cluster.logs.disk_space())
    return DescribeLogDirsResponse(results=(result,))


def _log_dir_partition(
    logs: LogManager, topic: Topic, index: int, pace: Pace
) -> Generator[None, None, DescribeLogDirsPartition]:
    if not logs.exists(topic.name, index):
        return DescribeLogDirsPartition(index, 0)
    if not logs.is_open(topic.name, index) and pace.due(_OPENING):
        yield
    return DescribeLogDirsPartition(index, logs.get(topic, index).size)


def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """List the producers of partitions, and where their open transactions start (KIP-664); requires "read" on the topic."""
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


def describe_quorum(call: Call, request: DescribeQuorumRequest) -> Steps:
    """Describe the controller as the only voter of the metadata quorum, and the other nodes as observers.

    The metadata is in the catalogue that all nodes share, so no node lags; its offset is the number of changes
    of topics and settings since the broker was created. Requires "describe" on the cluster.
    """
    if not cluster_allowed(call, "describe"):
        return DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    cluster = call.node.cluster
    tells_nodes = call.version >= _TELLS_NODES and any(
        topic.topic_name == METADATA_TOPIC and any(p.partition_index == 0 for p in topic.partitions)
        for topic in request.topics
    )
    pace = Pace()
    topics = []
    for topic in request.topics:
        partitions = []
        if pace.due():
            yield
        for each in topic.partitions:
            if pace.due():
                yield
            partitions.append(_quorum(call, topic.topic_name, each.partition_index))
        topics.append(DescribeQuorumTopicResponse(topic.topic_name, tuple(partitions)))
    return DescribeQuorumResponse(
        topics=tuple(topics),
        nodes=tuple(
            DescribeQuorumNode(
                node.node_id,
                (
                    DescribeQuorumListener(
                        call.connection.listener_name,
                        *node.endpoint(call.connection.listener_name),
                    ),
                ),
            )
            for node in cluster.running_nodes
            if tells_nodes and node.node_id == cluster.controller_id
        ),
    )


def _quorum(call: Call, topic: str, partition: int) -> DescribeQuorumPartitionResponse:
    if (topic, partition) != (METADATA_TOPIC, 0):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeQuorumPartitionResponse(partition, code, code.text)
    cluster = call.node.cluster
    now_ms = cluster.now_ms()
    states = {
        node.node_id: ReplicaState(
            node.node_id,
            log_end_offset=cluster.catalogue.changes,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
        for node in cluster.running_nodes
    }
    leader = states.pop(cluster.controller_id)
    return DescribeQuorumPartitionResponse(
        partition_index=partition,
        leader_id=leader.replica_id,
        leader_epoch=1,
        high_watermark=leader.log_end_offset,
        current_voters=(leader,),
        observers=tuple(states.values()),
    )
