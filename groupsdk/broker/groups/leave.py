"""Take LeaveGroup: let members go, several at once where asked for."""

import logging

from groupsdk.broker.groups.answers import leave_answer
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.rebalance import Rebalances
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse


_log = logging.getLogger(__name__)

_PER_MEMBER_FROM = 3
_STABLE_OR_COMPLETING = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Leaves:
    """Handle LeaveGroup (Kafka: GroupMetadataManager.classicGroupLeave)."""

    __slots__ = ("_rebalances", "_registry")

    def __init__(self, registry: GroupRegistry, rebalances: Rebalances) -> None:
        """Create it for the groups of a registry."""
        self._registry = registry
        self._rebalances = rebalances

    def handle(self, request: LeaveGroupRequest, context: RequestContext, now_ms: int) -> Turn:
        """Let the members go; those that remain rebalance once."""
        turn = Turn(now_ms)
        group = self._registry.groups.get(request.group_id)
        leaving = leaving_members(request, context)
        error = ErrorCode.NONE
        answers: tuple[MemberResponse, ...] = ()
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            answers = tuple(_answer(each, ErrorCode.UNKNOWN_MEMBER_ID) for each in leaving)
        elif group.state is GroupState.DEAD:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            answers = self._leave_all(group, leaving, turn)
        version = context.api_version
        answer = leave_answer(error, answers, version)
        if not turn.records:
            turn.reply(context.token, answer)
            return turn
        # the group has become empty: they have left it, whether that can be written or not
        turn.promise(context.token, answer)

        def failed(again: Turn, failure: ErrorCode) -> None:
            again.reply(context.token, leave_answer(failure, (), version))

        turn.if_failed(failed)
        return turn

    def _leave_all(
        self, group: ClassicGroup, leaving: tuple[MemberIdentity, ...], turn: Turn
    ) -> tuple[MemberResponse, ...]:
        answers = []
        left = []
        for each in leaving:
            error = self._leave(group, each, turn)
            answers.append(_answer(each, error))
            if error is ErrorCode.NONE:
                left.append(each.member_id or each.group_instance_id or "")
        if left and group.state in _STABLE_OR_COMPLETING:
            self._rebalances.prepare(group, f"{', '.join(left)} left", turn)
        elif left:
            self._rebalances.try_complete(group, turn)
        return tuple(answers)

    def _leave(self, group: ClassicGroup, leaving: MemberIdentity, turn: Turn) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            # by an administrator, who knows the instance and not the member
            instance_id = leaving.group_instance_id
            static_id = None if instance_id is None else group.static_member_id(instance_id)
            if static_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = static_id
        elif self._registry.drop_pending(group, member_id):
            _log_left(group, leaving, member_id)
            return ErrorCode.NONE
        else:
            error = group.validate(member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        _log_left(group, leaving, member_id)
        self._rebalances.discard(group, group.members[member_id], turn)
        return ErrorCode.NONE


def leaving_members(
    request: LeaveGroupRequest, context: RequestContext
) -> tuple[MemberIdentity, ...]:
    """Return whom a request names; up to version 2 that is one member."""
    if context.api_version >= _PER_MEMBER_FROM:
        return request.members
    return (MemberIdentity(member_id=request.member_id),)


def _answer(leaving: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=leaving.member_id,
        group_instance_id=leaving.group_instance_id,
        error_code=error,
    )


def _log_left(group: ClassicGroup, leaving: MemberIdentity, member_id: str) -> None:
    _log.info(
        "group %s, member %s, generation %d: left (%s)",
        group.group_id,
        member_id,
        group.generation_id,
        leaving.reason or "no reason given",
    )
