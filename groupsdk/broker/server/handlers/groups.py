"""Answer what members and tools ask of groups: most of it is for the coordinator to say."""

from dataclasses import replace
from typing import Any

from groupsdk.broker.server.access import allowed, cluster_allowed, operations
from groupsdk.broker.server.call import Call
from groupsdk.broker.server.gather import gather, submit
from groupsdk.broker.server.refusals import refuse
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupsdk.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from groupsdk.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupsdk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupsdk.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupsdk.wire.schema import Response


def group_request(call: Call, request: Any) -> Response | None:
    """Answer JoinGroup, SyncGroup and LeaveGroup."""
    group_id = request.group_id
    node = call.node
    if node.cluster.config.authorizer_class_name and not allowed(call, "read", "group", group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.version)
    submit(call, node.cluster.groups.runtime_for(node.node_id, group_id), request)
    return None


def heartbeat(call: Call, request: HeartbeatRequest) -> Response | None:
    """Answer Heartbeat: while the coordinator loads, as if all were well (clients take 14 for fatal here)."""
    group_id = request.group_id
    node = call.connection.node
    cluster = node.cluster
    if cluster.config.authorizer_class_name and not allowed(call, "read", "group", group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    runtime = cluster.groups.runtime_for(node.node_id, group_id)
    if runtime is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    submit(call, runtime, request)
    return None


def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Refuse members of the new protocol (KIP-848), as Kafka with `group.version` 0 does.

    The API is there for the refusal alone: where it is missing, librdkafka tries again for ever and says nothing.
    """
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        error_message=f"group {request.group_id}: there is only the classic protocol here"
        " (group.protocol=classic)",
    )


def describe_groups(call: Call, request: DescribeGroupsRequest) -> Response | None:
    """Answer DescribeGroups, group by group."""
    node = call.node
    coordinators = node.cluster.groups
    refused = {
        group_id: DescribedGroup(ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
        for group_id in request.groups
        if not allowed(call, "describe", "group", group_id)
    }
    asked = [group_id for group_id in request.groups if group_id not in refused]
    parts = [
        (
            coordinators.runtime_for(node.node_id, group_id),
            replace(request, groups=(group_id,), include_authorized_operations=False),
        )
        for group_id in asked
    ]

    def combine(answers: list[DescribeGroupsResponse]) -> DescribeGroupsResponse:
        wanted = request.include_authorized_operations
        groups = [
            replace(
                each,
                authorized_operations=operations(
                    call, "group", each.group_id, asked=wanted and each.error_code == 0
                ),
            )
            for answer in answers
            for each in answer.groups
        ]
        return DescribeGroupsResponse(groups=(*refused.values(), *groups))

    return gather(call, parts, combine)


def list_groups(call: Call, request: ListGroupsRequest) -> Response | None:
    """Answer ListGroups: what all coordinators of this node have, as far as the client may see it."""
    node = call.node
    everything = cluster_allowed(call, "describe")
    parts: list[Any] = []
    for runtime in node.cluster.groups.led_by(node.node_id):
        if runtime.unavailable() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if runtime.unavailable() is None:
            parts.append((runtime, request))

    def combine(answers: list[ListGroupsResponse]) -> ListGroupsResponse:
        groups = tuple(
            each
            for answer in answers
            for each in answer.groups
            if everything or allowed(call, "describe", "group", each.group_id)
        )
        error = next((each.error_code for each in answers if each.error_code), 0)
        return ListGroupsResponse(error_code=error, groups=groups)

    return gather(call, parts, combine)


def delete_groups(call: Call, request: DeleteGroupsRequest) -> Response | None:
    """Answer DeleteGroups, group by group."""
    node = call.node
    coordinators = node.cluster.groups
    names = list(dict.fromkeys(request.groups_names))
    refused = tuple(
        DeletableGroupResult(name, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        for name in names
        if not allowed(call, "delete", "group", name)
    )
    denied = {each.group_id for each in refused}
    parts = [
        (coordinators.runtime_for(node.node_id, name), replace(request, groups_names=(name,)))
        for name in names
        if name not in denied
    ]

    def combine(answers: list[DeleteGroupsResponse]) -> DeleteGroupsResponse:
        results = tuple(each for answer in answers for each in answer.results)
        return DeleteGroupsResponse(results=refused + results)

    return gather(call, parts, combine)
