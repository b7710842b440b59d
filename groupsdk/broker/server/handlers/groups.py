"""Handle the group APIs of members and tools; most of them are passed to the coordinator."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from groupsdk.broker.server.call import (
    MAX_FILTERS,
    Call,
    MayWait,
    allowed,
    ask,
    cluster_allowed,
    gather,
    operations,
)
from groupsdk.broker.server.error_responses import refuse
from groupsdk.broker.server.pace import Pace, Steps
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import group_admin
from groupsdk.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ShareGroupHeartbeatRequest,
)
from groupsdk.wire.messages.group_admin import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from groupsdk.wire.messages.groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
)
from groupsdk.wire.schema import ApiKey, Response


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster
    from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
    from groupsdk.broker.server.contract import ServingNode

_MANY_TOPICS: Final = 512
"""The number of topics from which requests are handled, and responses encoded, in steps."""
_TOPICS_AT_ONCE: Final = 64
_LARGE_JOIN: Final = 8 * 1024
"""The size from which a JoinGroup may have very many topics."""


def group_request(call: Call, request: Any) -> Response | Steps | None:
    """Handle JoinGroup, SyncGroup and LeaveGroup: pass them to the coordinator; requires "read" on the group."""
    group_id = request.group_id
    node = call.node
    if node.cluster.config.authorizer_class_name and not allowed(call, "read", "group", group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.version)
    runtime = node.cluster.groups.runtime_for(node.node_id, group_id)
    if (
        call.api_key == ApiKey.JOIN_GROUP
        and call.request_bytes > _LARGE_JOIN
        and not isinstance(runtime, ErrorCode)
        and request.protocols
    ):
        return _join_in_steps(call, request, cast("GroupCoordinatorShard", runtime.shard))
    ask(call, runtime, request, call.answer)
    return None


def _join_in_steps(call: Call, request: JoinGroupRequest, shard: "GroupCoordinatorShard") -> Steps:
    """Decode a large subscription some topics at a time, if the group decides on them, and then pass on the JoinGroup."""
    yield from shard.prepare_join(request.group_id, request.protocols[0].metadata)
    runtime = call.node.cluster.groups.runtime_for(call.node.node_id, request.group_id)
    ask(call, runtime, request, call.answer)
    return None


def heartbeat(call: Call, request: HeartbeatRequest) -> Response | None:
    """Handle Heartbeat; requires "read" on the group.

    While the coordinator loads, the response is NONE, as clients treat COORDINATOR_LOAD_IN_PROGRESS as fatal here.
    """
    group_id = request.group_id
    node = call.connection.node
    cluster = node.cluster
    if cluster.config.authorizer_class_name and not allowed(call, "read", "group", group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    runtime = cluster.groups.runtime_for(node.node_id, group_id)
    if runtime is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    ask(call, runtime, request, call.answer)
    return None


def consumer_group_heartbeat(
    call: Call, request: ConsumerGroupHeartbeatRequest
) -> Response | Steps | None:
    """Handle ConsumerGroupHeartbeat, which is refused unless group.coordinator.rebalance.protocols has "consumer".

    Requires "read" on the group, and "describe" on the topics subscribed to by name.
    """
    node = call.connection.node
    cluster = node.cluster
    group_id = request.group_id
    if "consumer" not in cluster.config.group_coordinator_rebalance_protocols:
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message=f"group {group_id}: the client accepts only the classic protocol"
            " (group.protocol=classic)",
        )
    names = request.subscribed_topic_names or ()
    guarded = bool(cluster.config.authorizer_class_name)
    if guarded and not allowed(call, "read", "group", group_id):
        return refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, call.version)
    if len(names) > _MANY_TOPICS or (
        request.member_epoch == 0 and _is_long_conversion(cluster, group_id)
    ):
        return _subscribe_in_steps(call, request, names)
    if guarded and not all(allowed(call, "describe", "topic", name) for name in names):
        return refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, call.version)
    runtime = cluster.groups.runtime_for(node.node_id, group_id)
    ask(call, runtime, request, partial(_assigned, call))
    return None


def _is_long_conversion(cluster: "Cluster", group_id: str) -> bool:
    runtime = cluster.groups.find_for(group_id)
    return runtime is not None and cast("GroupCoordinatorShard", runtime.shard).is_long_conversion(
        group_id
    )


def _assigned(call: Call, response: Any) -> None:
    assignment = response.assignment
    call.large = assignment is not None and len(assignment.topic_partitions) > _MANY_TOPICS
    call.answer(response)


def _subscribe_in_steps(
    call: Call, request: ConsumerGroupHeartbeatRequest, names: Sequence[str]
) -> Steps:
    """Check and look up very many topics some at a time, and then pass on the heartbeat."""
    cluster = call.node.cluster
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        some = names[start : start + _TOPICS_AT_ONCE]
        if not all(allowed(call, "describe", "topic", name) for name in some):
            return refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, call.version)
        yield
    node_id, group_id = call.node.node_id, request.group_id
    runtime = cluster.groups.runtime_for(node_id, group_id)
    if not isinstance(runtime, ErrorCode):
        yield from cast("GroupCoordinatorShard", runtime.shard).prepare(group_id, names)
        runtime = cluster.groups.runtime_for(node_id, group_id)
    ask(call, runtime, request, partial(_assigned, call))
    return None


def share_group_heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> Response | None:
    """Refuse ShareGroupHeartbeat with UNSUPPORTED_VERSION, as Kafka does with `share.version` 0."""
    return refuse(request, ErrorCode.UNSUPPORTED_VERSION, call.version)


def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> Response | None:
    """Handle ConsumerGroupDescribe, group by group, in steps; requires "describe" on the group.

    A group with a topic that the client may not describe is answered TOPIC_AUTHORIZATION_FAILED.
    """
    node = call.node
    coordinators = node.cluster.groups
    refused = {
        group_id: group_admin.DescribedGroup(
            ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id
        )
        for group_id in request.group_ids
        if not allowed(call, "describe", "group", group_id)
    }
    parts = [
        (coordinators.runtime_for(node.node_id, group_id), replace(request, group_ids=(group_id,)))
        for group_id in request.group_ids
        if group_id not in refused
    ]

    def rest(answers: list[ConsumerGroupDescribeResponse]) -> Steps:
        groups = list(refused.values())
        pace = Pace()
        for answer in answers:
            for group in answer.groups:
                seen = yield from _seen(call, group, pace)
                asked = request.include_authorized_operations and seen.error_code == 0
                may = operations(call, "group", group.group_id, asked=asked)
                groups.append(replace(seen, authorized_operations=may))
        return ConsumerGroupDescribeResponse(groups=tuple(groups))

    def combine(answers: list[ConsumerGroupDescribeResponse]) -> None:
        call.go_on_with(request, rest(answers))

    if not parts:
        return ConsumerGroupDescribeResponse(groups=tuple(refused.values()))
    return gather(call, parts, combine, is_large=True)


def _seen(
    call: Call, group: group_admin.DescribedGroup, pace: Pace
) -> Generator[None, None, group_admin.DescribedGroup]:
    """Return a group as the client may see it: as in Kafka without members if it may not describe one of their topics."""
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            for topic in assignment.topic_partitions:
                if pace.due():
                    call.large = True
                    yield
                if not allowed(call, "describe", "topic", topic.topic_name):
                    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                    return group_admin.DescribedGroup(code, code.text, group.group_id)
    return group


def describe_groups(call: Call, request: DescribeGroupsRequest) -> Response | None:
    """Handle DescribeGroups, group by group; requires "describe" on the group."""
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
                group,
                authorized_operations=operations(
                    call, "group", group.group_id, asked=wanted and group.error_code == 0
                ),
            )
            for answer in answers
            for group in answer.groups
        ]
        return DescribeGroupsResponse(groups=(*refused.values(), *groups))

    return gather(call, parts, combine)


def list_groups(call: Call, request: ListGroupsRequest) -> Steps:
    """List the groups of all coordinators of this node, in steps.

    Without "describe" on the cluster, only groups that the client may describe are listed. While one of the coordinators
    loads, the response is COORDINATOR_LOAD_IN_PROGRESS.
    """
    node = call.node
    if len(request.states_filter) + len(request.types_filter) > MAX_FILTERS:
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    everything = cluster_allowed(call, "describe")
    runtimes = list(node.cluster.groups.led_by(node.node_id))
    if any(each.unavailable() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for each in runtimes):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    groups: list[ListedGroup] = []
    pace = Pace()
    for runtime in runtimes:
        if runtime.unavailable() is not None:
            continue
        shard = cast("GroupCoordinatorShard", runtime.shard)
        for each in shard.listed(request):
            if pace.due():
                call.large = True
                yield
            if each is not None and (
                everything or allowed(call, "describe", "group", each.group_id)
            ):
                groups.append(each)
    return ListGroupsResponse(groups=tuple(groups))


def delete_groups(call: Call, request: DeleteGroupsRequest) -> Response | None:
    """Handle DeleteGroups, group by group; requires "delete" on the group."""
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
        results = tuple(result for answer in answers for result in answer.results)
        return DeleteGroupsResponse(results=refused + results)

    return gather(call, parts, combine, is_large=True)


def _takes_a_step(node: "ServingNode", request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat may change its group; one that leaves is handled even if its client is gone.

    That of a member that waits for partitions of others may: it takes a step once they are free. While requests of the
    group wait, each of its heartbeats does: a thousand members at rest would take the time of those that take steps.
    """
    if request.member_epoch <= 0 or request.topic_partitions is not None:
        return request.member_epoch >= 0
    cluster = node.cluster
    if cluster.has_waiting(request.group_id):
        return True
    runtime = cluster.groups.find_for(request.group_id)
    if runtime is None:
        return False
    # cast() would cost each heartbeat a call
    shard: GroupCoordinatorShard = runtime.shard  # type: ignore[assignment]
    group = shard.consumer_group(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    return (
        group is not None
        and member is not None
        and not (group.assignment_epoch == group.epoch and member.is_reconciled_to(group.epoch))
    )


MAY_WAIT: Final[dict[int, MayWait]] = {
    ApiKey.JOIN_GROUP: lambda _, __: True,
    ApiKey.SYNC_GROUP: lambda _, __: True,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _takes_a_step,
}
"""The requests of a rebalance, which all members of a group send at the same time."""
