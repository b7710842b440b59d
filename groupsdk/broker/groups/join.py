"""Take JoinGroup: hand out member ids, take members in, and let members rejoin."""

import logging
import sys
from collections.abc import Callable

from groupsdk.broker.groups.answers import join_answer, join_error
from groupsdk.broker.groups.error_answers import append_error
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.join_request import (
    offered_protocols,
    park_join,
    rebalance_timeout_ms,
    update_member,
    with_reason,
)
from groupsdk.broker.groups.member import GroupMember, Parked
from groupsdk.broker.groups.rebalance import Rebalances
from groupsdk.broker.groups.records import empty_group
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.groups.static_member import StaticMembers
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.wire.messages.join_group import JoinGroupRequest


_log = logging.getLogger(__name__)

_MEMBER_ID_REQUIRED_FROM = 4
_MAX_ID_START_BYTES = MAX_STRING_BYTES - 37  # a hyphen and a UUID follow


class Joins:
    """Handle JoinGroup (Kafka: GroupMetadataManager.classicGroupJoin)."""

    __slots__ = ("_new_uuid", "_rebalances", "_registry", "_static_members")

    def __init__(
        self, registry: GroupRegistry, rebalances: Rebalances, new_uuid: Callable[[], str]
    ) -> None:
        """Create it for the groups of a registry; `new_uuid` makes member ids unique."""
        self._registry = registry
        self._rebalances = rebalances
        self._static_members = StaticMembers(registry, rebalances)
        self._new_uuid = new_uuid

    def handle(self, request: JoinGroupRequest, context: RequestContext, now_ms: int) -> Turn:
        """Answer the join, park it, or refuse it."""
        turn = Turn(now_ms)
        config = self._registry.config
        group = self._registry.groups.get(request.group_id)
        timeout_ms = request.session_timeout_ms
        shortest_ms = config.group_min_session_timeout_ms
        if not request.group_id:
            _refuse(ErrorCode.INVALID_GROUP_ID, request.member_id, context, turn)
        elif not shortest_ms <= timeout_ms <= config.group_max_session_timeout_ms:
            _refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, context, turn)
        elif group is not None:
            self._join(group, request, context, turn)
        elif request.member_id:
            _refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, context, turn)
        else:
            self._join_new_group(request, context, turn)
        return turn

    def _join_new_group(
        self, request: JoinGroupRequest, context: RequestContext, turn: Turn
    ) -> None:
        group_id, version = request.group_id, context.api_version
        turn.write(empty_group(group_id, turn.now_ms))
        turn.when_written(
            lambda after: self._join(self._registry.groups[group_id], request, context, after)
        )
        turn.if_failed(
            lambda after, error: after.reply(context.token, join_error(error, "", version))
        )

    def _join(
        self, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, turn: Turn
    ) -> None:
        member_id = request.member_id
        names = [each.name for each in request.protocols]
        if not self._has_room_for(group, member_id):
            _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", context, turn)
            self._turn_away(group, member_id, turn)
        elif group.state is GroupState.DEAD:
            _refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, context, turn)
        elif not group.supports(request.protocol_type, names):
            _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id, context, turn)
        elif not self._can_be_stored(group, request):
            _refuse(append_error(ErrorCode.MESSAGE_TOO_LARGE), member_id, context, turn)
        elif not member_id:
            self._join_new_member(group, request, context, turn)
        elif group.is_pending(member_id):
            self._join_pending(group, request, context, turn)
        else:
            self._join_known(group, request, context, turn)

    def _can_be_stored(self, group: ClassicGroup, request: JoinGroupRequest) -> bool:
        """Return whether a record can hold the group with this member.

        Kafka lets it join; the group then fails with every sync, and rebalances for ever.
        """
        size = max([len(each.metadata) for each in request.protocols], default=0)
        member_id: str | None = request.member_id
        if not member_id and request.group_instance_id is not None:
            member_id = group.static_member_id(request.group_instance_id)
        limit = self._registry.config.max_record_bytes
        needed = group.record_bytes_with(member_id, size)
        if needed <= limit:
            return True
        _log.warning(
            "group %s, member %s, generation %d: cannot join: with its metadata of %d bytes the group takes"
            " %d bytes, more than max.message.bytes=%d of __consumer_offsets",
            *(group.group_id, request.member_id, group.generation_id, size, needed, limit),
        )
        return False

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Tell whether a member may be in the group.

        In a rebalance those count that have joined: where the limit was lowered, the last to rejoin go.
        """
        limit = self._registry.config.group_max_size
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.join is not None) or group.awaiting_joins < limit
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < limit
        return True

    def _turn_away(self, group: ClassicGroup, member_id: str, turn: Turn) -> None:
        self._registry.drop_pending(group, member_id)
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.discard(group, member, turn)
        # Kafka lets the others wait out the rebalance timeout for one that it has just refused
        self._rebalances.try_complete(group, turn)
        _log.info(
            "group %s, member %s, generation %d: refused, as the group has %d members",
            group.group_id,
            member_id,
            group.generation_id,
            len(group.members),
        )

    def _join_new_member(
        self, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, turn: Turn
    ) -> None:
        instance_id = request.group_instance_id
        start = context.client_id if instance_id is None else instance_id
        if len(start.encode()) > _MAX_ID_START_BYTES:
            # no answer could carry the member id; Kafka fails likewise
            _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "", context, turn)
            return
        member_id = f"{start}-{self._new_uuid()}"
        if instance_id is not None:
            old_id = group.static_member_id(instance_id)
            if old_id is not None:
                self._static_members.replace(
                    group, group.members[old_id], member_id, request, context, turn
                )
                return
        elif context.api_version >= _MEMBER_ID_REQUIRED_FROM:
            until_ms = turn.now_ms + request.session_timeout_ms
            self._registry.add_pending(group, member_id, until_ms, turn.now_ms)
            _log.info(
                "group %s, member %s, generation %d: was given its id, and is to join with it",
                group.group_id,
                member_id,
                group.generation_id,
            )
            _refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id, context, turn)
            return
        self._add(group, member_id, request, context, turn)

    def _join_pending(
        self, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, turn: Turn
    ) -> None:
        if request.group_instance_id is not None:
            # such an id is never given to a static member: Kafka calls it an internal error, too
            _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "", context, turn)
        else:
            self._add(group, request.member_id, request, context, turn)

    def _join_known(
        self, group: ClassicGroup, request: JoinGroupRequest, context: RequestContext, turn: Turn
    ) -> None:
        member_id = request.member_id
        error = group.validate(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            _refuse(error, member_id, context, turn)
            return
        member, state = group.members[member_id], group.state
        is_leader = member_id == group.leader_id
        protocols = offered_protocols(request)
        if state is GroupState.PREPARING_REBALANCE:
            reason = f"{member_id} joins"
        elif member.protocols != protocols:
            reason = f"{member_id} changed its metadata"
        elif state is GroupState.STABLE and is_leader:
            reason = f"the leader {member_id} rejoins"
        else:
            # it may have missed the answer: give it again. Kafka leaves the session as it is; but no
            # accepted request shall count less than a heartbeat
            self._registry.renew_session(member, turn.now_ms)
            turn.reply(
                context.token,
                join_answer(
                    group,
                    member_id,
                    context.api_version,
                    members=is_leader and state is GroupState.COMPLETING_REBALANCE,
                ),
            )
            return
        update_member(group, member, request)
        park_join(group, member, context, turn)
        self._rebalances.prepare_or_complete(group, with_reason(reason, request), turn)

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        context: RequestContext,
        turn: Turn,
    ) -> None:
        self._registry.drop_pending(group, member_id)
        if not group.members:
            group.protocol_type = sys.intern(request.protocol_type)
        if group.is_in_initial_rebalance:
            group.new_member_added = True
        member = GroupMember(
            group,
            member_id,
            request.group_instance_id,
            sys.intern(context.client_id),
            sys.intern(context.client_host),
            rebalance_timeout_ms(request),
            request.session_timeout_ms,
            offered_protocols(request),
        )
        member.is_new = True
        member.joined_ms = turn.now_ms
        member.join = Parked(context.token, context.api_version)
        group.add(member)
        until_ms = turn.now_ms + self._registry.config.new_member_join_timeout_ms
        self._registry.sessions.set(member, until_ms)
        reason = with_reason(f"{member_id} is new", request)
        self._rebalances.prepare_or_complete(group, reason, turn)


def _refuse(error: ErrorCode, member_id: str, context: RequestContext, turn: Turn) -> None:
    turn.reply(context.token, join_error(error, member_id, context.api_version))
