"""Handle AlterPartitionReassignments, ListPartitionReassignments and AlterReplicaLogDirs.

A partition has one replica, on storage that all nodes share. Moving it to another node moves its leader, which is
done when the response is sent, so no reassignment is ever in progress.
"""

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from groupsdk.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from groupsdk.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Move partitions to other nodes, each independently (Kafka: ReplicationControlManager).

    Requires "alter" on the cluster. More than one replica, or a node that is not running, is answered
    INVALID_REPLICA_ASSIGNMENT; a cancellation, NO_REASSIGNMENT_IN_PROGRESS.
    """
    if not cluster_allowed(call, "alter"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    return AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=tuple(
            ReassignableTopicResponse(
                topic.name, tuple(_reassigned(call, topic.name, each) for each in topic.partitions)
            )
            for topic in request.topics
        ),
    )


def _reassigned(
    call: Call, name: str, asked: ReassignablePartition
) -> ReassignablePartitionResponse:
    try:
        _reassign(call, name, asked)
    except ClusterError as error:
        return ReassignablePartitionResponse(asked.partition_index, error.error_code, str(error))
    return ReassignablePartitionResponse(asked.partition_index, 0, None)


def _reassign(call: Call, name: str, asked: ReassignablePartition) -> None:
    cluster = call.node.cluster
    partition, replicas = asked.partition_index, asked.replicas
    if cluster.leader(name, partition) is None:
        kind = f"partition {name}:{partition}" if name in cluster.catalogue.topics else None
        text = f"Unable to find {kind or f'a topic named {name}'}."
        raise ClusterError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if replicas is None:
        raise ClusterError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    problem = _replicas_problem(replicas, set(cluster.nodes))
    if problem is not None:
        raise ClusterError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
    (node,) = replicas
    if not cluster.nodes[node].running:
        text = f"node {node} is not running and would be the only replica"
        raise ClusterError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    # after this request is answered: its own connection may be to the node that loses the leadership
    cluster.defer(lambda: cluster.move_leaders({(name, partition): node}))


def _replicas_problem(replicas: tuple[int, ...], nodes: set[int]) -> str | None:
    start = "The manual partition assignment includes"
    if not replicas:
        return f"{start} an empty replica list."
    for each in replicas:
        if replicas.count(each) > 1:
            return f"{start} the broker {each} more than once."
        if each not in nodes:
            return f"{start} broker {each}, but no such broker is registered."
    if len(replicas) > 1:
        return f"{start} {len(replicas)} replicas, but a partition has one replica on this broker."
    return None


def list_partition_reassignments(
    call: Call, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return an empty list: no reassignment is ever in progress. Requires "describe" on the cluster."""
    if not cluster_allowed(call, "describe"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListPartitionReassignmentsResponse(error_code=code, error_message=code.text)
    return ListPartitionReassignmentsResponse(error_message=None)


def alter_replica_log_dirs(
    call: Call, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Accept the only data directory for a replica, and refuse others with LOG_DIR_NOT_FOUND.

    Requires "alter" on the cluster.
    """
    answers: dict[str, dict[int, ErrorCode]] = {}
    for asked in request.dirs:
        for topic in asked.topics:
            for partition in topic.partitions:
                code = _directory_code(call, asked.path, topic.name, partition)
                answers.setdefault(topic.name, {})[partition] = code
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(
                name,
                tuple(
                    AlterReplicaLogDirPartitionResult(partition, code)
                    for partition, code in partitions.items()
                ),
            )
            for name, partitions in answers.items()
        )
    )


def _directory_code(call: Call, path: str, name: str, partition: int) -> ErrorCode:
    cluster = call.node.cluster
    if not cluster_allowed(call, "alter"):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if path != cluster.logs.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if cluster.leader(name, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE
