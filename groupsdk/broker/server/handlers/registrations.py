"""Handle UnregisterBroker: the cluster forgets a node that is stopped, until it starts again."""

from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def unregister_broker(call: Call, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Remove the registration of a stopped node; requires "alter" on the cluster.

    Kafka also removes a node that is running, which is then cut off until it is restarted. That would disable the
    broker of a test by mistake, so a running node is refused.
    """
    cluster = call.node.cluster
    node_id = request.broker_id
    if not cluster_allowed(call, "alter"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UnregisterBrokerResponse(error_code=code, error_message=code.text)
    if node_id not in cluster.registered_nodes:
        text = f"Broker ID {node_id} is not currently registered"
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text
        )
    if cluster.nodes[node_id].running:
        text = f"broker {node_id} is running: only a stopped broker can be unregistered here"
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=text)
    cluster.unregister(node_id)
    return UnregisterBrokerResponse()
