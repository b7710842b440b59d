"""Ask whether the client of a call may do something; everyone may where no authorizer is set."""

from groupsdk.broker.server.call import Call
from groupsdk.wire.messages.metadata import NOT_ASKED


def allowed(call: Call, operation: str, resource: str, name: str) -> bool:
    """Tell whether the client may do this.

    Args:
        call: the request; its connection knows who asks.
        operation: "read", "write", "create", "delete", "alter", "describe", "cluster_action",
            "describe_configs", "alter_configs" or "idempotent_write".
        resource: "topic", "group", "cluster" or "transactional_id".
        name: of the resource; "kafka-cluster" for the cluster.
    """
    authorizer = call.node.cluster.authorizer
    if authorizer is None:
        return True
    return authorizer.allows(call.principal, call.connection.peer, operation, resource, name)


def cluster_allowed(call: Call, operation: str) -> bool:
    """Tell whether the client may do this to the cluster."""
    return allowed(call, operation, "cluster", "kafka-cluster")


def operations(call: Call, resource: str, name: str, *, asked: bool) -> int:
    """Return the operations that the client may do, as a set of bits; NOT_ASKED where it did not ask."""
    if not asked:
        return NOT_ASKED
    from groupsdk.broker.authorizer import OPERATIONS_OF, operation_bit

    return sum(
        operation_bit(operation)
        for operation in OPERATIONS_OF[resource]
        if allowed(call, operation, resource, name)
    )
