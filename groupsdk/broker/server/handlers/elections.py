"""Handle ElectLeaders: with one replica there is nothing to elect, which is answered as Kafka does."""

from typing import Final

from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


_TELLS_AT_THE_TOP: Final = 1
_NOT_AVAILABLE: Final = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Return for each partition that its only replica is the leader already, or that its node is down.

    A request for all partitions lists only the latter. Requires "alter" on the cluster. (Kafka:
    ReplicationControlManager.electLeaders.)
    """
    if not cluster_allowed(call, "alter"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(call, request, code, code.text)
    if request.election_type not in _NOT_AVAILABLE:
        text = f"unknown election type {request.election_type}; use 0 (preferred) or 1 (unclean)"
        return _refused(call, request, ErrorCode.INVALID_REQUEST, text)
    if request.topic_partitions is None:
        asked = [
            (topic.name, tuple(_down(call, topic.name)))
            for topic in call.node.cluster.catalogue.topics.values()
        ]
    else:
        asked = [(each.topic, each.partitions) for each in request.topic_partitions]
    return ElectLeadersResponse(
        replica_election_results=tuple(
            ReplicaElectionResult(
                name,
                tuple(_elected(call, request.election_type, name, each) for each in partitions),
            )
            for name, partitions in asked
        )
    )


def _down(call: Call, name: str) -> list[int]:
    """List the partitions whose leader is down."""
    running = {node.node_id for node in call.node.cluster.running_nodes}
    partitions = call.node.cluster.catalogue.topics[name].partitions
    return [index for index, state in enumerate(partitions) if state.leader not in running]


def _elected(call: Call, election_type: int, name: str, partition: int) -> PartitionResult:
    cluster = call.node.cluster
    leader = cluster.leader(name, partition)
    if leader is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known = name in cluster.catalogue.topics
        text = f"No such partition as {name}-{partition}" if known else f"No such topic as {name}"
        return PartitionResult(partition, code, text)
    node = cluster.nodes.get(leader)
    if node is not None and node.running:
        text = "Leader election not needed for topic partition."
        return PartitionResult(partition, ErrorCode.ELECTION_NOT_NEEDED, text)
    code = _NOT_AVAILABLE[election_type]
    return PartitionResult(partition, code, code.text)


def _refused(
    call: Call, request: ElectLeadersRequest, code: ErrorCode, text: str
) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code if call.version >= _TELLS_AT_THE_TOP else 0,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic.topic, tuple(PartitionResult(each, code, text) for each in topic.partitions)
            )
            for topic in request.topic_partitions or ()
        ),
    )
