"""Take SyncGroup: write the leader's assignment, then hand it out."""

import logging

from groupsdk.broker.groups.answers import sync_answer, sync_error
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.member import GroupMember, Parked
from groupsdk.broker.groups.rebalance import Rebalances
from groupsdk.broker.groups.records import group_metadata
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.sync_group import SyncGroupRequest


_log = logging.getLogger(__name__)

_NAMES_PROTOCOL_FROM = 5


class Syncs:
    """Handle SyncGroup (Kafka: GroupMetadataManager.classicGroupSync)."""

    __slots__ = ("_rebalances", "_registry")

    def __init__(self, registry: GroupRegistry, rebalances: Rebalances) -> None:
        """Create it for the groups of a registry."""
        self._registry = registry
        self._rebalances = rebalances

    def handle(self, request: SyncGroupRequest, context: RequestContext, now_ms: int) -> Turn:
        """Answer the sync, park it, or refuse it."""
        turn = Turn(now_ms)
        group = self._registry.groups.get(request.group_id)
        error = self._check(request, context, group)
        if group is None or error is not ErrorCode.NONE:
            turn.reply(context.token, sync_error(error))
            return turn
        member = group.members[request.member_id]
        if group.state is GroupState.STABLE:
            self._synced(group, member)
            # Kafka leaves the session as it is; but no accepted request shall count less than a heartbeat
            self._registry.renew_session(member, now_ms)
            turn.reply(context.token, sync_answer(group, member.assignment))
            return turn
        old = member.sync
        member.sync = Parked(context.token, context.api_version)
        if old is not None:
            # it came again, over another connection: the first is not waited for any more
            turn.reply(old.token, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        self._synced(group, member)
        if member.member_id == group.leader_id:
            self._assign(group, request, turn)
        return turn

    def _check(
        self, request: SyncGroupRequest, context: RequestContext, group: ClassicGroup | None
    ) -> ErrorCode:
        names_protocol = request.protocol_type is not None and request.protocol_name is not None
        if context.api_version >= _NAMES_PROTOCOL_FROM and not names_protocol:
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
            # during a rebalance, too: the name is that of the generation that ends
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _synced(self, group: ClassicGroup, member: GroupMember) -> None:
        if group.discard_pending_sync(member.member_id):
            self._registry.phases.clear(group)

    def _assign(self, group: ClassicGroup, request: SyncGroupRequest, turn: Turn) -> None:
        members = group.members
        given = {each.member_id: each.assignment for each in request.assignments}
        assignments = {member_id: given.get(member_id, b"") for member_id in members}
        if len(given) < len(members) or any(member_id not in given for member_id in members):
            _log.warning(
                "group %s, member %s, generation %d: the leader assigned nothing to %d of %d members",
                group.group_id,
                request.member_id,
                group.generation_id,
                sum(member_id not in given for member_id in members),
                len(members),
            )
        value = group.with_assignments(assignments, turn.now_ms)
        turn.write(group_metadata(group.group_id, value))
        turn.when_written(lambda after: self._answer_syncs(group, after))

        def failed(again: Turn, error: ErrorCode) -> None:
            self._rebalances.take_assignments_back(group, error, again)
            reason = f"the assignment of {request.member_id} could not be written: {error.name}"
            self._rebalances.prepare(group, reason, again)

        turn.if_failed(failed)

    def _answer_syncs(self, group: ClassicGroup, turn: Turn) -> None:
        """Give everyone who waits the assignment that is in the log."""
        for member in group.members.values():
            sync = member.sync
            if sync is not None:
                member.sync = None
                self._registry.renew_session(member, turn.now_ms)
                turn.reply(sync.token, sync_answer(group, member.assignment))
        _log.info(
            "group %s, generation %d: is stable with %d members",
            group.group_id,
            group.generation_id,
            len(group.members),
        )


def _differ(named: str | None, known: str | None) -> bool:
    return named is not None and known is not None and named != known
