"""Handle FindCoordinator, DescribeCluster, DescribeLogDirs and DescribeProducers."""

from collections.abc import Generator
from typing import Final

from groupsdk.broker.catalogue import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from groupsdk.broker.log_manager import LogManager
from groupsdk.broker.server.call import Call, allowed, cluster_allowed, operations
from groupsdk.broker.server.pace import OPENING_COSTS, Pace, Steps, log_costs
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages import cluster as messages
from groupsdk.wire.messages.metadata import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from groupsdk.wire.messages.transactions import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


_BROKERS: Final = 1


def describe_cluster(
    call: Call, request: messages.DescribeClusterRequest
) -> messages.DescribeClusterResponse:
    """List the running nodes and the controller, and stopped nodes on request (KIP-1073).

    Endpoint types other than brokers are refused.
    """
    cluster = call.node.cluster
    if request.endpoint_type != _BROKERS:
        return messages.DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            if request.endpoint_type not in {1, 2}
            else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER",
            endpoint_type=_BROKERS,
        )
    listener = call.connection.listener_name
    rack = cluster.config.broker_rack or None
    return messages.DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=tuple(
            messages.DescribeClusterBroker(
                node.node_id, *node.endpoint(listener), rack, is_fenced=not node.running
            )
            for _, node in sorted(cluster.nodes.items())
            if node.running or request.include_fenced_brokers
        ),
        cluster_authorized_operations=operations(
            call, "cluster", "kafka-cluster", asked=request.include_cluster_authorized_operations
        ),
    )


def describe_log_dirs(call: Call, request: messages.DescribeLogDirsRequest) -> Steps:
    """Return the size in bytes of the partitions that this node leads, in steps; requires "describe" on the cluster."""
    cluster = call.node.cluster
    if not cluster_allowed(call, "describe"):
        return messages.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
            topics.append(messages.DescribeLogDirsTopic(topic.name, tuple(partitions)))
    result = messages.DescribeLogDirsResult(
        0, cluster.logs.path, tuple(topics), *cluster.logs.disk_space()
    )
    return messages.DescribeLogDirsResponse(results=(result,))


def _log_dir_partition(
    logs: LogManager, topic: Topic, index: int, pace: Pace
) -> Generator[None, None, messages.DescribeLogDirsPartition]:
    if not logs.exists(topic.name, index):
        return messages.DescribeLogDirsPartition(index, 0)
    if not logs.is_open(topic.name, index) and pace.due(OPENING_COSTS):
        yield
    return messages.DescribeLogDirsPartition(index, logs.get(topic, index).size)


def describe_producers(call: Call, request: DescribeProducersRequest) -> Steps:
    """List the producers of partitions, and where their open transactions start (KIP-664), in steps.

    Requires "read" on the topic.
    """
    pace = Pace()
    logs = call.node.cluster.logs
    topics = []
    for topic in request.topics:
        described = []
        for each in topic.partition_indexes:
            if pace.due(log_costs(logs, topic.name, each)):
                yield
            described.append(_producers(call, topic.name, each))
        topics.append(TopicResponse(topic.name, tuple(described)))
    return DescribeProducersResponse(topics=tuple(topics))


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


_GROUP: Final = 0
_TRANSACTION: Final = 1


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return the coordinators of groups or transactional ids; their internal topic is created on first use.

    Requires "describe" on the group or transactional id. While no node leads the partition, the response is
    COORDINATOR_NOT_AVAILABLE.
    """
    if call.version >= 4:
        keys = request.coordinator_keys
        return FindCoordinatorResponse(
            coordinators=tuple(_find(call, request.key_type, key) for key in keys)
        )
    found = _find(call, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message or ("NONE" if found.error_code == 0 else None),
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(call: Call, key_type: int, key: str) -> Coordinator:
    cluster = call.node.cluster
    if key_type == _GROUP:
        topic, resource, error = OFFSETS_TOPIC, "group", ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif key_type == _TRANSACTION:
        topic, resource = TRANSACTIONS_TOPIC, "transactional_id"
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    else:
        # share groups need version 6 and a share coordinator, which does not exist
        return _none(key, ErrorCode.INVALID_REQUEST)
    if not allowed(call, "describe", resource, key):
        return _none(key, error)
    if key_type == _TRANSACTION and not key:
        return _none(key, ErrorCode.INVALID_REQUEST)
    coordinators = cluster.coordinators(topic)
    assert coordinators is not None
    partition = coordinators.partition_for(key)
    leader = cluster.leader(topic, partition)
    node = None if leader is None else cluster.nodes.get(leader)
    if node is None or not node.running:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    host, port = node.endpoint(call.connection.listener_name)
    return Coordinator(
        key=key, node_id=node.node_id, host=host, port=port, error_code=0, error_message=None
    )


def _none(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.text
    )
