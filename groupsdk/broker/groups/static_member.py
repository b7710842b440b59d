"""Let a static member come back under its instance id (KIP-345, KIP-814)."""

import logging

from groupsdk.broker.groups.answers import join_answer, join_error, sync_error
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.join_request import (
    offered_protocols,
    park_join,
    rebalance_timeout_ms,
    update_member,
    with_reason,
)
from groupsdk.broker.groups.member import GroupMember
from groupsdk.broker.groups.protocols import metadata_of
from groupsdk.broker.groups.rebalance import Rebalances
from groupsdk.broker.groups.records import group_metadata
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.wire.coordinator_records.group_metadata import MemberMetadata
from groupsdk.wire.messages.join_group import JoinGroupRequest


_log = logging.getLogger(__name__)

_SKIPS_ASSIGNMENT_FROM = 9


class StaticMembers:
    """Replace static members that join without a member id: the process restarted, or there are two."""

    __slots__ = ("_rebalances", "_registry")

    def __init__(self, registry: GroupRegistry, rebalances: Rebalances) -> None:
        """Create it for the groups of a registry."""
        self._registry = registry
        self._rebalances = rebalances

    def replace(
        self,
        group: ClassicGroup,
        member: GroupMember,
        new_id: str,
        request: JoinGroupRequest,
        context: RequestContext,
        turn: Turn,
    ) -> None:
        """Give a member a new id, and fence whoever had the old one.

        In a stable group that would choose its protocol again, nothing else happens: the member keeps
        its assignment and its leadership, and nobody rebalances.
        """
        if group.state is GroupState.STABLE:
            selected = group.select_protocol_with(member, offered_protocols(request))
            if selected == group.protocol_name:
                self._write(group, member, new_id, request, context, turn)
                return
        self._take_over(group, member, new_id, request, turn)
        park_join(group, member, context, turn)
        if group.state is GroupState.STABLE:
            reason = f"the static member {new_id} changes the protocol"
        else:
            reason = f"the static member {new_id} came back"
        self._rebalances.prepare_or_complete(group, with_reason(reason, request), turn)

    def _take_over(
        self,
        group: ClassicGroup,
        member: GroupMember,
        new_id: str,
        request: JoinGroupRequest,
        turn: Turn,
    ) -> None:
        _log.info(
            "group %s, member %s, generation %d: takes the place of %s as %s",
            group.group_id,
            new_id,
            group.generation_id,
            member.member_id,
            member.instance_id,
        )
        self._fence(group, member, turn)
        group.rename(member, new_id)
        self._came_back(group, member, request, turn)

    def _came_back(
        self, group: ClassicGroup, member: GroupMember, request: JoinGroupRequest, turn: Turn
    ) -> None:
        update_member(group, member, request)
        member.is_new = False
        member.joined_ms = turn.now_ms
        self._registry.renew_session(member, turn.now_ms)

    def _fence(self, group: ClassicGroup, member: GroupMember, turn: Turn) -> None:
        error = ErrorCode.FENCED_INSTANCE_ID
        join, sync = group.take_join(member), member.sync
        if join is not None:
            turn.reply(join.token, join_error(error, member.member_id, join.api_version))
        if sync is not None:
            member.sync = None
            turn.reply(sync.token, sync_error(error))

    def _write(
        self,
        group: ClassicGroup,
        member: GroupMember,
        new_id: str,
        request: JoinGroupRequest,
        context: RequestContext,
        turn: Turn,
    ) -> None:
        """Write that the member goes on under another id; all that it offers besides is in no record."""
        old_id, old_leader = member.member_id, group.leader_id or ""
        version = context.api_version
        value = MemberMetadata(
            member_id=new_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=rebalance_timeout_ms(request),
            session_timeout=request.session_timeout_ms,
            subscription=metadata_of(offered_protocols(request), group.protocol_name),
        )
        turn.write(group_metadata(group.group_id, group.with_static_member(old_id, value)))

        def written(after: Turn) -> None:
            _log.info(
                "group %s, member %s, generation %d: takes the place of %s as %s",
                group.group_id,
                new_id,
                group.generation_id,
                old_id,
                member.instance_id,
            )
            self._fence(group, member, after)
            self._came_back(group, member, request, after)
            if version >= _SKIPS_ASSIGNMENT_FROM:
                leads = new_id == group.leader_id
                answer = join_answer(group, new_id, version, members=leads, skip_assignment=leads)
            else:
                # named leader under its old id, the client takes itself for a follower and does not assign
                answer = join_answer(group, new_id, version, leader=old_leader)
            after.reply(context.token, answer)

        def failed(after: Turn, error: ErrorCode) -> None:
            _log.warning(
                "group %s, member %s, generation %d: cannot come back as %s, as the log was not written: %s",
                group.group_id,
                old_id,
                group.generation_id,
                new_id,
                error.name,
            )
            after.reply(context.token, join_error(error, "", version))

        turn.when_written(written)
        turn.if_failed(failed)
