"""Take Heartbeat: keep a member's session, and tell it of a rebalance."""

from groupsdk.broker.groups.answers import heartbeat_answer
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.runtime.contract import Reply, RequestContext, Result
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.heartbeat import HeartbeatRequest


_PREPARING = GroupState.PREPARING_REBALANCE
_OK = heartbeat_answer(ErrorCode.NONE)
_REBALANCE = heartbeat_answer(ErrorCode.REBALANCE_IN_PROGRESS)


class Heartbeats:
    """Handle Heartbeat (Kafka: GroupMetadataManager.classicGroupHeartbeat)."""

    __slots__ = ("_registry",)

    def __init__(self, registry: GroupRegistry) -> None:
        """Create it for the groups of a registry."""
        self._registry = registry

    def handle(self, request: HeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
        """Answer the heartbeat."""
        registry = self._registry
        group = registry.groups.get(request.group_id)
        error = _check(group, request)
        if group is None or error is not ErrorCode.NONE:
            return Result((), (Reply(context.token, heartbeat_answer(error)),))
        member = group.members[request.member_id]
        registry.sessions.set(member, now_ms + member.session_timeout_ms)
        answer = _REBALANCE if group.state is _PREPARING else _OK
        return Result((), (Reply(context.token, answer),))


def _check(group: ClassicGroup | None, request: HeartbeatRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.validate(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    # an empty group has no members, and so answers what Kafka answers: UNKNOWN_MEMBER_ID
    return error
