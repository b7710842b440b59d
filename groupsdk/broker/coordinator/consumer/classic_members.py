"""Handle JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members of consumer groups."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from groupsdk.broker.coordinator.classic.join import (
    MEMBER_ID_REQUIRED_FROM,
    offered_protocols,
    rebalance_timeout_ms,
)
from groupsdk.broker.coordinator.classic.member_requests import leaving_members, names_protocol
from groupsdk.broker.coordinator.classic.responses import (
    heartbeat_answer,
    join_error,
    leave_answer,
    sync_error,
)
from groupsdk.broker.coordinator.consumer.conversion import (
    ConversionError,
    assignment_bytes,
    subscription_of,
)
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.group_updater import Change, GroupUpdater
from groupsdk.broker.coordinator.consumer.heartbeat import RefusedError, replace_static_member
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember, MemberState, plain
from groupsdk.broker.coordinator.consumer.records import member_metadata
from groupsdk.broker.coordinator.consumer.registry import Draft, TimerKind
from groupsdk.broker.coordinator.consumer.topics import names_set, same_names
from groupsdk.broker.coordinator.runtime.contract import RequestContext
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.broker.settings.table import MigrationPolicy
from groupsdk.error_code import ErrorCode
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, ConsumerProtocolSubscription
from groupsdk.wire.coordinator_records.consumer_group import ClassicMemberMetadata, ClassicProtocol
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


logger = logging.getLogger(__name__)


class ClassicMembers:
    """Handles the classic protocol's requests to consumer groups (Kafka: classicGroup...ToConsumerGroup).

    No request is parked: each is answered at once, from the coordinator's current target. A
    generation is the member's epoch; it is reused when partitions move within an epoch."""

    __slots__ = ("_conversion", "_new_uuid", "_registry", "_updater")

    def __init__(self, updater: GroupUpdater, new_uuid: Callable[[], str]) -> None:
        self._updater = updater
        self._registry = updater.registry
        self._conversion = updater.conversion
        self._new_uuid = new_uuid

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        now_ms: int,
    ) -> ResultBuilder:
        """Handle the JoinGroup of a new or known member, in a group that has members.

        The request is refused with INCONSISTENT_GROUP_PROTOCOL if the migration policy or the protocols forbid the member,
        and fails with UNKNOWN_SERVER_ERROR if the assignor raises. It arms the member's sync timeout."""
        builder = ResultBuilder(now_ms)
        version = context.api_version
        try:
            answer = self._join(group, request, context, builder)
        except RefusedError as error:
            builder = ResultBuilder(now_ms)
            # as in Kafka, the other errors do not echo the member id
            is_assigned = error.error_code is ErrorCode.MEMBER_ID_REQUIRED
            member_id = str(error) if is_assigned else ""
            builder.reply(context.token, join_error(error.error_code, member_id, version))
            return builder
        except Exception as error:  # noqa: BLE001  # the assignor is the user's
            self._updater.jobs.log_failure(group.group_id, error)
            builder = ResultBuilder(now_ms)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            builder.reply(context.token, join_error(code, "", version))
            return builder
        builder.promise(context.token, answer)
        builder.if_failed(
            lambda again, code: again.reply(context.token, join_error(code, "", version))
        )
        return builder

    def _join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        context: RequestContext,
        builder: ResultBuilder,
    ) -> JoinGroupResponse:
        self._check_join(group, request, context)
        instance_id = request.group_instance_id
        member_id = request.member_id or f"{context.client_id}-{self._new_uuid()}"
        draft = Draft(group)
        before = self._member(group, request, member_id, draft)
        try:
            subscription = self._conversion.read_subscription(request.protocols[0].metadata)
        except ConversionError as error:
            # Kafka takes it for a fault of its own
            raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        after = self._updated(request, context, subscription, member_id, before)
        if before is None or after != before:
            draft.write(member_metadata(group.group_id, after))
        old_names = frozenset() if before is None else before.topic_names
        updater = self._updater
        names_changed = not same_names(after.topic_names, old_names)
        change = Change(names_changed, updater.update_regex(draft, before, after))
        updater.bump_epoch(draft, change)
        rest = list(draft.group.members.values())
        # a static member was the last one of the consumer protocol, perhaps under the same member id
        holder = None if instance_id is None else group.static_member(instance_id)
        downgrades = (
            holder is not None and holder.classic is None and self._conversion.would_downgrade(rest)
        )
        outdated = draft.group.epoch > draft.group.assignment_epoch
        if not downgrades:
            updater.update_target(draft, member_id, builder.now_ms)
        if not (downgrades and outdated):
            after = updater.reconcile(
                draft,
                member_id,
                self._owned(subscription),
                subscription_changed=change.any,
                now_ms=builder.now_ms,
            )
        draft.hand_over(builder)
        builder.is_large = after.is_large
        assert after.classic is not None
        name = after.classic.supported_protocols[0].name
        generation = after.epoch
        if downgrades:
            self._conversion.downgrade(
                draft.group,
                list(draft.group.members.values()),
                builder,
                generation=group.epoch,
                rebalance=outdated,
            )
            return _joined(member_id, generation, name)
        group_id = group.group_id
        updater.renew_session(group_id, member_id, builder.now_ms, after.classic.session_timeout_ms)
        self._registry.clear(TimerKind.JOIN, group_id, member_id)
        at_ms = builder.now_ms + after.rebalance_timeout_ms
        self._registry.set(TimerKind.SYNC, group_id, member_id, at_ms, after.epoch)
        return _joined(member_id, generation, name)

    def _check_join(
        self, group: ConsumerGroup, request: JoinGroupRequest, context: RequestContext
    ) -> None:
        config = self._updater.settings.config()
        inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if config.policy is MigrationPolicy.DISABLED:
            raise RefusedError(inconsistent, "group.consumer.migration.policy=disabled")
        if (
            request.member_id not in group.members
            and len(group.members) >= config.group_consumer_max_size
        ):
            raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        if not _is_supported(group, request):
            raise RefusedError(inconsistent, "no protocol in common with the other members")
        if (
            not request.member_id
            and request.group_instance_id is None
            and context.api_version >= MEMBER_ID_REQUIRED_FROM
        ):
            member_id = f"{context.client_id}-{self._new_uuid()}"
            raise RefusedError(ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _member(
        self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, draft: Draft
    ) -> ConsumerGroupMember | None:
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id)
        holder = group.static_member(instance_id)
        if request.member_id:
            _check_member(group, request.member_id, instance_id)
            return holder
        return None if holder is None else replace_static_member(draft, holder, member_id)

    def _updated(
        self,
        request: JoinGroupRequest,
        context: RequestContext,
        subscription: ConsumerProtocolSubscription,
        member_id: str,
        before: ConsumerGroupMember | None,
    ) -> ConsumerGroupMember:
        base = before or ConsumerGroupMember(member_id=member_id)
        protocols = tuple(ClassicProtocol(*each) for each in offered_protocols(request))
        return replace(
            base,
            instance_id=request.group_instance_id or base.instance_id,
            rack_id=subscription.rack_id or base.rack_id,
            client_id=context.client_id,
            client_host=context.client_host,
            topic_names=names_set(tuple(subscription.topics)),
            regex="",
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            classic=ClassicMemberMetadata(request.session_timeout_ms, protocols),
        )

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Mapping[UUID, frozenset[int]]:
        image = self._updater.topics.image()
        return {
            topic.topic_id: frozenset(indexes)
            for name, indexes in subscription.owned_partitions.items()
            if (topic := image.topic(name)) is not None
        }

    def sync(
        self,
        group: ConsumerGroup,
        request: SyncGroupRequest,
        context: RequestContext,
        now_ms: int,
    ) -> ResultBuilder:
        """Return a classic member's assignment; the assignments in the request are ignored.

        A member with a newer target is answered REBALANCE_IN_PROGRESS, and must rejoin within its rebalance timeout."""
        builder = ResultBuilder(now_ms)
        if not names_protocol(request, context):
            builder.reply(context.token, sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return builder
        try:
            member = self._classic_member(group, request.member_id, request.group_instance_id)
            name = self._check_sync(group, member, request)
        except RefusedError as error:
            if error.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
                self._arm_join(group, request.member_id, now_ms)
            builder.reply(context.token, sync_error(error.error_code))
            return builder
        assert member.classic is not None
        self._registry.clear(TimerKind.SYNC, group.group_id, member.member_id)
        self._updater.renew_session(
            group.group_id, member.member_id, now_ms, member.classic.session_timeout_ms
        )
        image = self._updater.topics.image()
        assignment = assignment_bytes(plain(member.assigned), image, subscription_of(member))
        answer = SyncGroupResponse(
            protocol_type=CONSUMER_PROTOCOL_TYPE, protocol_name=name, assignment=assignment
        )
        builder.reply(context.token, answer)
        return builder

    def _check_sync(
        self, group: ConsumerGroup, member: ConsumerGroupMember, request: SyncGroupRequest
    ) -> str:
        if request.generation_id != member.epoch:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION, "")
        assert member.classic is not None
        name = member.classic.supported_protocols[0].name
        if (request.protocol_type or CONSUMER_PROTOCOL_TYPE) != CONSUMER_PROTOCOL_TYPE or (
            request.protocol_name or name
        ) != name:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
        if (
            group.assignment_epoch > member.epoch
            and member.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS, "")
        return name

    def heartbeat(
        self,
        group: ConsumerGroup,
        request: HeartbeatRequest,
        context: RequestContext,
        now_ms: int,
    ) -> ResultBuilder:
        """Renew a classic member's session.

        If a join would advance the member towards its target, it is answered REBALANCE_IN_PROGRESS, and must rejoin
        within its rebalance timeout."""
        builder = ResultBuilder(now_ms)
        try:
            member = self._classic_member(group, request.member_id, request.group_instance_id)
        except RefusedError as error:
            builder.reply(context.token, heartbeat_answer(error.error_code))
            return builder
        if request.generation_id != member.epoch:
            builder.reply(context.token, heartbeat_answer(ErrorCode.ILLEGAL_GENERATION))
            return builder
        assert member.classic is not None
        self._updater.renew_session(
            group.group_id, member.member_id, now_ms, member.classic.session_timeout_ms
        )
        code = ErrorCode.NONE
        if self._has_a_step_to_take(group, member):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            self._arm_join(group, member.member_id, now_ms)
        builder.reply(context.token, heartbeat_answer(code))
        return builder

    def _has_a_step_to_take(self, group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
        if member.epoch < group.assignment_epoch:
            return True
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return all(
            len(group.not_held_by_others(member.member_id, topic_id, partitions)) == len(partitions)
            for topic_id, partitions in group.target(member.member_id).items()
        )

    def _arm_join(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        group_id, member = group.group_id, group.members[member_id]
        if not self._registry.is_set(TimerKind.JOIN, group_id, member_id):
            at_ms = now_ms + max(member.rebalance_timeout_ms, 0)
            self._registry.set(TimerKind.JOIN, group_id, member_id, at_ms, member.epoch)

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ConsumerGroupMember:
        member = _check_member(group, member_id, instance_id)
        if member.classic is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, "")
        return member

    def leave(
        self,
        group: ConsumerGroup,
        request: LeaveGroupRequest,
        context: RequestContext,
        now_ms: int,
    ) -> ResultBuilder:
        """Remove members, by member id or else by instance id, raising the group epoch once."""
        builder = ResultBuilder(now_ms)
        leaving: dict[str, ConsumerGroupMember] = {}
        answers = []
        for each in leaving_members(request, context):
            code, member = _leaving(group, each)
            if member is not None and member.member_id not in leaving:
                leaving[member.member_id] = member
                logger.info(
                    "group=%s member=%s epoch=%d: left (%s)",
                    group.group_id,
                    member.member_id,
                    member.epoch,
                    each.reason or "no reason given",
                )
            answers.append(MemberResponse(each.member_id, each.group_instance_id, code))
        version = context.api_version
        answer = leave_answer(ErrorCode.NONE, tuple(answers), version)
        if not leaving:
            builder.reply(context.token, answer)
            return builder
        self._updater.remove(group, leaving.values(), builder)
        builder.promise(context.token, answer)
        builder.if_failed(
            lambda again, code: again.reply(context.token, leave_answer(code, (), version))
        )
        return builder


def _joined(member_id: str, generation: int, protocol: str) -> JoinGroupResponse:
    # no leader, even if there is one classic member: the coordinator assigns
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol,
        leader="",
        member_id=member_id,
        members=(),
    )


def _is_supported(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Return whether a request has a protocol that all classic members offer, the member itself included.

    So a member that is alone changes its protocols only by way of both.
    """
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not request.protocols:
        return False
    offered = {protocol.name for protocol in request.protocols}
    for member in group.members.values():
        if member.classic is not None:
            offered &= {protocol.name for protocol in member.classic.supported_protocols}
    return bool(offered)


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember:
    if instance_id is not None:
        holder = group.static_member(instance_id)
        if holder is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, "")
        if holder.member_id != member_id:
            raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, "")
    member = group.members.get(member_id)
    if member is None:
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, "")
    return member


def _leaving(
    group: ConsumerGroup, leaving: MemberIdentity
) -> tuple[ErrorCode, ConsumerGroupMember | None]:
    if not leaving.member_id:
        # sent by an administrator, who knows only the instance id
        instance_id = leaving.group_instance_id
        member = None if instance_id is None else group.static_member(instance_id)
        return (ErrorCode.UNKNOWN_MEMBER_ID, None) if member is None else (ErrorCode.NONE, member)
    try:
        member = _check_member(group, leaving.member_id, leaving.group_instance_id)
    except RefusedError as error:
        return error.error_code, None
    return ErrorCode.NONE, member
