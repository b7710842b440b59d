"""Handle Heartbeat, SyncGroup and LeaveGroup of the members of classic groups."""

import logging

from groupsdk.broker.coordinator.classic.group import ClassicGroup, group_metadata
from groupsdk.broker.coordinator.classic.member import GroupMember, Parked
from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.classic.responses import (
    PER_MEMBER_LEAVE_FROM,
    heartbeat_answer,
    leave_answer,
    sync_answer,
    sync_error,
)
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.contract import Reply, RequestContext, Result, answered
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
)


logger = logging.getLogger(__name__)


_PREPARING, _DEAD = GroupState.PREPARING_REBALANCE, GroupState.DEAD
_NONE = ErrorCode.NONE
_OK = heartbeat_answer(ErrorCode.NONE)
_REBALANCE = heartbeat_answer(ErrorCode.REBALANCE_IN_PROGRESS)
_NAMES_PROTOCOL_FROM = 5
_STABLE_OR_COMPLETING = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class MemberRequests:
    """Handles Heartbeat, SyncGroup and LeaveGroup (Kafka: GroupMetadataManager.classicGroupHeartbeat and so on)."""

    __slots__ = ("_rebalances", "_registry")

    def __init__(self, registry: GroupRegistry, rebalances: Rebalances) -> None:
        self._registry = registry
        self._rebalances = rebalances

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext, now_ms: int) -> Result:
        """Answer a Heartbeat and renew the member's session; REBALANCE_IN_PROGRESS while the group waits for joins."""
        registry = self._registry
        group = registry.groups.get(request.group_id)
        error = _error_of_heartbeat(group, request)
        if group is None or error is not _NONE:
            return answered(context, heartbeat_answer(error))
        member = group.members[request.member_id]
        registry.sessions.set(member, now_ms + member.session_timeout_ms)
        answer = _REBALANCE if group.state is _PREPARING else _OK
        return Result((), (Reply(context.token, answer),))

    def sync(
        self, request: SyncGroupRequest, context: RequestContext, now_ms: int
    ) -> ResultBuilder:
        """Answer a SyncGroup, park it until the leader's assignment is written, or refuse it with an error."""
        builder = ResultBuilder(now_ms)
        group = self._registry.groups.get(request.group_id)
        error = _error_of_sync(request, context, group)
        if group is None or error is not ErrorCode.NONE:
            builder.reply(context.token, sync_error(error))
            return builder
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            self._synced(group, member)
            # Kafka does not renew the session here; we do, as every accepted request shows that the member is alive
            self._registry.renew_session(member, now_ms)
            builder.reply(context.token, sync_answer(group, member.assignment))
            return builder
        old = member.sync
        member.sync = Parked(context.token, context.api_version)
        if old is not None:
            # repeated over another connection; the client no longer waits for the first response
            builder.reply(old.token, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        self._synced(group, member)
        if member.member_id == group.leader_id:
            self._assign(group, request, builder)
        return builder

    def _synced(self, group: ClassicGroup, member: GroupMember) -> None:
        if group.discard_pending_sync(member.member_id):
            self._registry.phases.clear(group)

    def _assign(
        self, group: ClassicGroup, request: SyncGroupRequest, builder: ResultBuilder
    ) -> None:
        members = group.members
        given = {each.member_id: each.assignment for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in members}
        if len(given) < len(members) or any(member_id not in given for member_id in members):
            logger.warning(
                "group=%s member=%s generation=%d: the leader assigned nothing to %d of %d members",
                group.group_id,
                request.member_id,
                group.generation_id,
                sum(member_id not in given for member_id in members),
                len(members),
            )
        value = group.with_assignments(assignments, builder.now_ms)
        builder.write(group_metadata(group.group_id, value))
        builder.when_written(lambda after: self._answer_syncs(group, after))

        def failed(again: ResultBuilder, error: ErrorCode) -> None:
            self._rebalances.take_assignments_back(group, error, again)
            reason = f"the assignment of {request.member_id} could not be written: {error.name}"
            self._rebalances.prepare(group, reason, again)

        builder.if_failed(failed)

    def _answer_syncs(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        """Answer all parked syncs with the logged assignment."""
        self._registry.counters.classic_rebalances += 1
        for member in group.members.values():
            sync = member.sync
            if sync is not None:
                member.sync = None
                self._registry.renew_session(member, builder.now_ms)
                builder.reply(sync.token, sync_answer(group, member.assignment))
        logger.info(
            "group=%s generation=%d: is stable with %d members",
            group.group_id,
            group.generation_id,
            len(group.members),
        )

    def leave(
        self, request: LeaveGroupRequest, context: RequestContext, now_ms: int
    ) -> ResultBuilder:
        """Remove members, by member id or else by instance id; the others rebalance once."""
        builder = ResultBuilder(now_ms)
        group = self._registry.groups.get(request.group_id)
        leaving = leaving_members(request, context)
        error = ErrorCode.NONE
        answers: tuple[MemberResponse, ...] = ()
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif group is None:
            answers = tuple(_answer(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in leaving)
        elif group.state is GroupState.DEAD:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            answers = self._leave_all(group, leaving, builder)
        version = context.api_version
        answer = leave_answer(error, answers, version)
        if not builder.records:
            builder.reply(context.token, answer)
            return builder
        # the group is empty now: its members have left, whether or not the record can be written
        builder.promise(context.token, answer)

        def failed(again: ResultBuilder, failure: ErrorCode) -> None:
            again.reply(context.token, leave_answer(failure, (), version))

        builder.if_failed(failed)
        return builder

    def _leave_all(
        self, group: ClassicGroup, leaving: tuple[MemberIdentity, ...], builder: ResultBuilder
    ) -> tuple[MemberResponse, ...]:
        answers = []
        left = []
        for member in leaving:
            error = self._leave(group, member, builder)
            answers.append(_answer(member, error))
            if error is ErrorCode.NONE:
                left.append(member.member_id or member.group_instance_id or "")
        if left and group.state in _STABLE_OR_COMPLETING:
            self._rebalances.prepare(group, f"{', '.join(left)} left", builder)
        elif left:
            self._rebalances.try_complete(group, builder)
        return tuple(answers)

    def _leave(
        self, group: ClassicGroup, leaving: MemberIdentity, builder: ResultBuilder
    ) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            # sent by an administrator, who knows only the instance id
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
        self._rebalances.discard(group, group.members[member_id], builder)
        return ErrorCode.NONE


def _error_of_heartbeat(group: ClassicGroup | None, request: HeartbeatRequest) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    if group.state is _DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.validate(request.member_id, request.group_instance_id)
    if error is _NONE and request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    # an empty group has no members, so the response is UNKNOWN_MEMBER_ID, as in Kafka
    return error


def _error_of_sync(
    request: SyncGroupRequest, context: RequestContext, group: ClassicGroup | None
) -> ErrorCode:
    if not names_protocol(request, context):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.validate(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if _differ(request.protocol_name, group.protocol_name):
        # also during a rebalance, with the protocol of the generation that ends
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def names_protocol(request: SyncGroupRequest, context: RequestContext) -> bool:
    """Return whether a SyncGroup has the protocol's type and name, as required from version 5 on (KIP-559)."""
    return context.api_version < _NAMES_PROTOCOL_FROM or (
        request.protocol_type is not None and request.protocol_name is not None
    )


def _differ(named: str | None, known: str | None) -> bool:
    return named is not None and known is not None and named != known


def leaving_members(
    request: LeaveGroupRequest, context: RequestContext
) -> tuple[MemberIdentity, ...]:
    """Return the members named in a LeaveGroup; exactly one up to version 2 of the API."""
    if context.api_version >= PER_MEMBER_LEAVE_FROM:
        return request.members
    return (MemberIdentity(member_id=request.member_id),)


def _answer(leaving: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=leaving.member_id,
        group_instance_id=leaving.group_instance_id,
        error_code=error,
    )


def _log_left(group: ClassicGroup, leaving: MemberIdentity, member_id: str) -> None:
    logger.info(
        "group=%s member=%s generation=%d: left (%s)",
        group.group_id,
        member_id,
        group.generation_id,
        leaving.reason or "no reason given",
    )
