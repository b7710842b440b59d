"""Handle FindCoordinator: the node that coordinates a group or a transactional id."""

from typing import Final

from groupsdk.broker.catalogue import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from groupsdk.broker.server.call import Call, allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.metadata import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
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
