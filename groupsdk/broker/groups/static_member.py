"""Let a static member come back under its instance id (KIP-345, KIP-814)."""

import logging

from groupsdk.broker.groups.answers import join_answer, join_error, sync_error
from groupsdk.broker.groups.group import ClassicGroup
from groupsdk.broker.groups.group_records import assignments_of, group_record
from groupsdk.broker.groups.join_request import park_join, update_member, with_reason
from groupsdk.broker.groups.member import GroupMember
from groupsdk.broker.groups.rebalance import Rebalances
from groupsdk.broker.groups.registry import GroupRegistry
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.groups.turn import Turn
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.error_code import ErrorCode
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
        old_id, old_leader = member.member_id, group.leader_id
        undo = _Undo(member)
        self._fence(group, member, turn)
        group.rename(member, new_id)
        update_member(group, member, request)
        member.is_new = False
        member.joined_ms = turn.now_ms
        self._registry.renew_session(member, turn.now_ms)
        _log.info(
            "group %s, member %s, generation %d: takes the place of %s as %s",
            group.group_id,
            new_id,
            group.generation_id,
            old_id,
            member.instance_id,
        )
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            self._store(group, member, old_leader or "", undo, context, turn)
            return
        park_join(group, member, context, turn)
        if group.state is GroupState.STABLE:
            reason = f"the static member {new_id} changes the protocol"
        else:
            reason = f"the static member {new_id} came back"
        self._rebalances.prepare_or_complete(group, with_reason(reason, request), turn)

    def _fence(self, group: ClassicGroup, member: GroupMember, turn: Turn) -> None:
        error = ErrorCode.FENCED_INSTANCE_ID
        join, sync = group.take_join(member), member.sync
        if join is not None:
            turn.reply(join.token, join_error(error, member.member_id, join.api_version))
        if sync is not None:
            member.sync = None
            turn.reply(sync.token, sync_error(error))

    def _store(
        self,
        group: ClassicGroup,
        member: GroupMember,
        old_leader: str,
        undo: "_Undo",
        context: RequestContext,
        turn: Turn,
    ) -> None:
        version = context.api_version
        if version >= _SKIPS_ASSIGNMENT_FROM:
            leads = member.member_id == group.leader_id
            answer = join_answer(
                group, member.member_id, version, members=leads, skip_assignment=leads
            )
        else:
            # named leader under its old id, the client takes itself for a follower and does not assign
            answer = join_answer(group, member.member_id, version, leader=old_leader)
        turn.write(group_record(group, assignments_of(group)), _nothing)
        turn.promise(context.token, answer)

        def failed(again: Turn, error: ErrorCode) -> None:
            _log.warning(
                "group %s, member %s, generation %d: could not be written: %s; its id is %s again",
                group.group_id,
                member.member_id,
                group.generation_id,
                error.name,
                undo.member_id,
            )
            undo.apply(group, member)
            self._registry.renew_session(member, again.now_ms)
            again.reply(context.token, join_error(error, "", version))

        turn.if_failed(failed)


class _Undo:
    """What a member was before it came back."""

    __slots__ = ("member_id", "protocols", "rebalance_timeout_ms", "session_timeout_ms")

    def __init__(self, member: GroupMember) -> None:
        self.member_id = member.member_id
        self.protocols = member.protocols
        self.rebalance_timeout_ms = member.rebalance_timeout_ms
        self.session_timeout_ms = member.session_timeout_ms

    def apply(self, group: ClassicGroup, member: GroupMember) -> None:
        group.rename(member, self.member_id)
        group.set_protocols(member, self.protocols)
        member.rebalance_timeout_ms = self.rebalance_timeout_ms
        member.session_timeout_ms = self.session_timeout_ms


def _nothing() -> None:
    """Stand for a record that says what the group is already."""
