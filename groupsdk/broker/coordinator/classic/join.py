"""Handle JoinGroup: assign member ids, admit members, and let members rejoin, including static ones."""

import logging
import sys
from collections.abc import Callable
from typing import NamedTuple

from groupsdk.broker.coordinator.classic.group import ClassicGroup, empty_group, group_metadata
from groupsdk.broker.coordinator.classic.member import GroupMember, Parked, Protocols, metadata_of
from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.classic.responses import (
    join_answer,
    join_error,
)
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.contract import RequestContext, append_error
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.wire.coordinator_records.group_metadata import MemberMetadata
from groupsdk.wire.messages.groups import JoinGroupRequest, JoinGroupResponse


logger = logging.getLogger(__name__)


def offered_protocols(request: JoinGroupRequest) -> Protocols:
    """Return the protocols of a JoinGroup in order of preference; of duplicate names the first counts."""
    protocols = request.protocols
    offered = tuple([(sys.intern(protocol.name), protocol.metadata) for protocol in protocols])
    if len(offered) == 1:
        return offered
    first: dict[str, bytes] = {}
    for name, metadata in offered:
        first.setdefault(name, metadata)
    return offered if len(first) == len(offered) else tuple(first.items())


def rebalance_timeout_ms(request: JoinGroupRequest) -> int:
    """Return the rebalance timeout in a JoinGroup; version 0 has only a session timeout, which then counts."""
    if request.rebalance_timeout_ms < 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


class Joining(NamedTuple):
    """A JoinGroup that is being handled, and what receives its response."""

    group: ClassicGroup
    request: JoinGroupRequest
    context: RequestContext
    builder: ResultBuilder

    def reply(self, response: JoinGroupResponse) -> None:
        """Answer it at once."""
        self.builder.reply(self.context.token, response)

    def refuse(self, error: ErrorCode, member_id: str) -> None:
        _refuse(error, member_id, self.context, self.builder)

    def park(self, member: GroupMember) -> None:
        """Park it; one of the member that is already parked is answered REBALANCE_IN_PROGRESS."""
        old = self.group.park_join(member, Parked(self.context.token, self.context.api_version))
        if old is not None:
            self.builder.reply(
                old.token,
                join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, old.api_version),
            )

    def update(self, member: GroupMember) -> None:
        """Set a member's protocols and timeouts from the request."""
        self.group.set_protocols(member, offered_protocols(self.request))
        member.rebalance_timeout_ms = rebalance_timeout_ms(self.request)
        member.session_timeout_ms = self.request.session_timeout_ms

    def with_reason(self, reason: str) -> str:
        """Append the client's reason, if it sent one (KIP-800), to the coordinator's."""
        return f"{reason} ({self.request.reason})" if self.request.reason else reason


def _refuse(
    error: ErrorCode, member_id: str, context: RequestContext, builder: ResultBuilder
) -> None:
    builder.reply(context.token, join_error(error, member_id, context.api_version))


_SKIPS_ASSIGNMENT_FROM = 9


class StaticMembers:
    """Replaces static members that join without a member id, as after a restart of their process (KIP-345)."""

    __slots__ = ("_rebalances", "_registry")

    def __init__(self, registry: GroupRegistry, rebalances: Rebalances) -> None:
        self._registry = registry
        self._rebalances = rebalances

    def replace(self, joining: Joining, member: GroupMember, new_id: str) -> None:
        """Give a static member a new member id, and fence the process that has the old one.

        In a stable group whose protocol would not change, the member keeps its assignment and leadership, and the group
        does not rebalance."""
        group = joining.group
        if group.state is GroupState.STABLE:
            selected = group.select_protocol_with(member, offered_protocols(joining.request))
            if selected == group.protocol_name:
                self._write(joining, member, new_id)
                return
        self._fence(joining, member, member.member_id, new_id)
        group.rename(member, new_id)
        self._came_back(joining, member)
        joining.park(member)
        if group.state is GroupState.STABLE:
            reason = f"the static member {new_id} changes the group's protocol"
        else:
            reason = f"the static member {new_id} rejoined"
        self._rebalances.prepare_or_complete(group, joining.with_reason(reason), joining.builder)

    def _came_back(self, joining: Joining, member: GroupMember) -> None:
        joining.update(member)
        member.is_new = False
        member.joined_ms = joining.builder.now_ms
        self._registry.renew_session(member, joining.builder.now_ms)

    def _fence(self, joining: Joining, member: GroupMember, old_id: str, new_id: str) -> None:
        group = joining.group
        logger.info(
            "group=%s member=%s generation=%d: replaces %s, with the same group.instance.id %s",
            group.group_id,
            new_id,
            group.generation_id,
            old_id,
            member.instance_id,
        )
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._rebalances.answer_parked(group, member, fenced, joining.builder)

    def _write(self, joining: Joining, member: GroupMember, new_id: str) -> None:
        """Write the record of the member under its new id; other offered protocols are in no record."""
        group, request, context, builder = joining
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
        builder.write(group_metadata(group.group_id, group.with_static_member(old_id, value)))

        def written(after: ResultBuilder) -> None:
            now = joining._replace(builder=after)
            self._fence(now, member, old_id, new_id)
            self._came_back(now, member)
            if version >= _SKIPS_ASSIGNMENT_FROM:
                leads = new_id == group.leader_id
                answer = join_answer(group, new_id, version, members=leads, skip_assignment=leads)
            else:
                # the leader is named by its old id, so the client takes itself for a follower and does not assign
                answer = join_answer(group, new_id, version, leader=old_leader)
            now.reply(answer)

        def failed(after: ResultBuilder, error: ErrorCode) -> None:
            logger.warning(
                "group=%s member=%s generation=%d: cannot rejoin as %s: writing the log failed: %s",
                group.group_id,
                old_id,
                group.generation_id,
                new_id,
                error.name,
            )
            joining._replace(builder=after).refuse(error, "")

        builder.when_written(written)
        builder.if_failed(failed)


MEMBER_ID_REQUIRED_FROM = 4
"""The first version in which a new dynamic member has to join with an assigned id (KIP-394)."""
_MAX_ID_START_BYTES = MAX_STRING_BYTES - 37  # a hyphen and a UUID follow


class JoinGroupHandler:
    """Handles JoinGroup (Kafka: GroupMetadataManager.classicGroupJoin)."""

    __slots__ = ("_new_uuid", "_rebalances", "_registry", "_static_members")

    def __init__(
        self, registry: GroupRegistry, rebalances: Rebalances, new_uuid: Callable[[], str]
    ) -> None:
        self._registry = registry
        self._rebalances = rebalances
        self._static_members = StaticMembers(registry, rebalances)
        self._new_uuid = new_uuid

    def handle(
        self, request: JoinGroupRequest, context: RequestContext, now_ms: int
    ) -> ResultBuilder:
        """Answer a JoinGroup, park it until the rebalance completes, or refuse it with an error."""
        builder = ResultBuilder(now_ms)
        config = self._registry.config
        group = self._registry.groups.get(request.group_id)
        timeout_ms = request.session_timeout_ms
        shortest_ms = config.group_min_session_timeout_ms
        if not request.group_id:
            _refuse(ErrorCode.INVALID_GROUP_ID, request.member_id, context, builder)
        elif not shortest_ms <= timeout_ms <= config.group_max_session_timeout_ms:
            _refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, context, builder)
        elif group is not None:
            self._join(Joining(group, request, context, builder))
        elif request.member_id:
            _refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, context, builder)
        else:
            self._join_new_group(request, context, builder)
        return builder

    def _join_new_group(
        self, request: JoinGroupRequest, context: RequestContext, builder: ResultBuilder
    ) -> None:
        group_id, groups = request.group_id, self._registry.groups
        builder.write(empty_group(group_id, builder.now_ms))
        builder.when_written(
            lambda after: self._join(Joining(groups[group_id], request, context, after))
        )
        builder.if_failed(lambda after, error: _refuse(error, "", context, after))

    def _join(self, joining: Joining) -> None:
        group, request = joining.group, joining.request
        member_id = request.member_id
        names = [protocol.name for protocol in request.protocols]
        if not self._has_room_for(group, member_id):
            joining.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
            self._turn_away(group, member_id, joining.builder)
        elif group.state is GroupState.DEAD:
            joining.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
        elif not group.supports(request.protocol_type, names):
            joining.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not self._can_be_stored(group, request):
            joining.refuse(append_error(ErrorCode.MESSAGE_TOO_LARGE), member_id)
        elif not member_id:
            self._join_new_member(joining)
        elif not group.is_pending(member_id):
            self._join_known(joining)
        elif request.group_instance_id is not None:
            # static members are never assigned such an id; Kafka, too, treats it as an internal error
            joining.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
        else:
            self._add(joining, member_id)

    def _can_be_stored(self, group: ClassicGroup, request: JoinGroupRequest) -> bool:
        """Return whether a record can hold the group with this member.

        Kafka lets it join; the group then fails with every sync, and rebalances for ever.
        """
        size = max([len(protocol.metadata) for protocol in request.protocols], default=0)
        member_id: str | None = request.member_id
        if not member_id and request.group_instance_id is not None:
            member_id = group.static_member_id(request.group_instance_id)
        limit = self._registry.config.max_record_bytes
        needed = group.record_bytes_with(member_id, size)
        if needed <= limit:
            return True
        logger.warning(
            "group=%s member=%s generation=%d: cannot join: with its metadata of %d bytes the group's record"
            " would be %d bytes, more than max.message.bytes=%d of __consumer_offsets",
            group.group_id,
            request.member_id,
            group.generation_id,
            size,
            needed,
            limit,
        )
        return False

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether a member may be in the group.

        In a rebalance those count that have joined: where the limit was lowered, the last to rejoin go.
        """
        limit = self._registry.config.group_max_size
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            return (member is not None and member.join is not None) or group.awaiting_joins < limit
        if group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < limit
        return True

    def _turn_away(self, group: ClassicGroup, member_id: str, builder: ResultBuilder) -> None:
        self._registry.drop_pending(group, member_id)
        member = group.members.get(member_id)
        if member is not None:
            self._rebalances.discard(group, member, builder)
        # Kafka makes the others wait for the rejected member until the rebalance timeout
        self._rebalances.try_complete(group, builder)
        logger.info(
            "group=%s member=%s generation=%d: refused: the group already has %d members",
            group.group_id,
            member_id,
            group.generation_id,
            len(group.members),
        )

    def _join_new_member(self, joining: Joining) -> None:
        group, request, context, builder = joining
        instance_id = request.group_instance_id
        start = context.client_id if instance_id is None else instance_id
        if len(start.encode()) > _MAX_ID_START_BYTES:
            # the member id would be too long for a response; Kafka fails, too
            joining.refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "")
            return
        member_id = f"{start}-{self._new_uuid()}"
        if instance_id is not None:
            old_id = group.static_member_id(instance_id)
            if old_id is not None:
                self._static_members.replace(joining, group.members[old_id], member_id)
                return
        elif context.api_version >= MEMBER_ID_REQUIRED_FROM:
            until_ms = builder.now_ms + request.session_timeout_ms
            self._registry.add_pending(group, member_id, until_ms, builder.now_ms)
            logger.info(
                "group=%s member=%s generation=%d: member id assigned; the member must join again with it",
                group.group_id,
                member_id,
                group.generation_id,
            )
            joining.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return
        self._add(joining, member_id)

    def _join_known(self, joining: Joining) -> None:
        group, request, context, builder = joining
        member_id = request.member_id
        error = group.validate(member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            joining.refuse(error, member_id)
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
            # it may have missed the response: send it again. Kafka does not renew the session here; we do, as
            # every accepted request shows that the member is alive
            self._registry.renew_session(member, builder.now_ms)
            shows_members = is_leader and state is GroupState.COMPLETING_REBALANCE
            joining.reply(join_answer(group, member_id, context.api_version, members=shows_members))
            return
        joining.update(member)
        joining.park(member)
        self._rebalances.prepare_or_complete(group, joining.with_reason(reason), builder)

    def _add(self, joining: Joining, member_id: str) -> None:
        group, request, context, builder = joining
        self._registry.drop_pending(group, member_id)
        if not group.members:
            group.protocol_type = sys.intern(request.protocol_type)
        if group.is_in_initial_rebalance:
            group.new_member_added = True
        member = GroupMember(
            group=group,
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=sys.intern(context.client_id),
            client_host=sys.intern(context.client_host),
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            session_timeout_ms=request.session_timeout_ms,
            protocols=offered_protocols(request),
        )
        member.is_new = True
        member.joined_ms = builder.now_ms
        member.join = Parked(context.token, context.api_version)
        group.add(member)
        until_ms = builder.now_ms + self._registry.config.new_member_join_timeout_ms
        self._registry.sessions.set(member, until_ms)
        reason = joining.with_reason(f"{member_id} is new")
        self._rebalances.prepare_or_complete(group, reason, builder)
