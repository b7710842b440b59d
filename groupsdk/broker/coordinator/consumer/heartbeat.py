"""Handle ConsumerGroupHeartbeat: joining, reconciliation and leaving (Kafka: GroupMetadataManager)."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.conversion import ConversionError
from groupsdk.broker.coordinator.consumer.group_updater import (
    Change,
    GroupUpdater,
    RegexUpdate,
)
from groupsdk.broker.coordinator.consumer.member import (
    AWAY_EPOCH,
    LEFT_EPOCH,
    ConsumerGroupMember,
    Holdings,
    MemberState,
)
from groupsdk.broker.coordinator.consumer.records import (
    current_assignment,
    member_metadata,
    member_tombstones,
    target_of_member,
)
from groupsdk.broker.coordinator.consumer.regex_resolution import InvalidRegexError, compiled
from groupsdk.broker.coordinator.consumer.registry import Draft, TimerKind, not_a_consumer_group
from groupsdk.broker.coordinator.consumer.topics import names_set, same_names
from groupsdk.broker.coordinator.runtime.contract import NOTHING, Reply, RequestContext, Result
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.twin import maker


logger = logging.getLogger(__name__)
_new_partitions = maker(TopicPartitions)
_new_response = maker(ConsumerGroupHeartbeatResponse)
_OWN_IDS_FROM: Final = 1
"""From this version on, clients generate member ids (KIP-1082)."""

Owned = Mapping[UUID, frozenset[int]]


class RefusedError(Exception):
    """A request was refused: it is answered with an error and changes nothing."""

    def __init__(self, error_code: ErrorCode, text: str) -> None:
        self.error_code = error_code
        super().__init__(text)


class ConsumerHeartbeats:
    """Handles ConsumerGroupHeartbeat for the groups of one log partition."""

    __slots__ = ("_classic", "_conversion", "_new_uuid", "_registry", "_updater")

    def __init__(
        self, updater: GroupUpdater, classic: GroupRegistry, new_uuid: Callable[[], str]
    ) -> None:
        self._updater = updater
        self._registry = updater.registry
        self._conversion = updater.conversion
        self._classic = classic
        self._new_uuid = new_uuid

    def handle_stable(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> Result:
        """Answer a heartbeat that changes nothing, as nearly all do; return NOTHING if it may change something.

        This includes members that have reached their target while the next one is not due yet."""
        group = self._registry.groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if (
            group is None
            or member is None
            or request.member_epoch <= 0
            or request.member_epoch != member.epoch
            or member.epoch != group.assignment_epoch
            or member.state is not MemberState.STABLE
            or not _says_nothing(request, member, context)
            or self._updater.needs_refresh(group)
            or group.regexes
            or member.regex
            or member.classic is not None
            or self._updater.is_target_due(group, now_ms)
        ):
            return NOTHING
        group_id = group.group_id
        timeout_ms, interval_ms = self._updater.settings.heartbeat_times_ms(group_id)
        self._updater.renew_session(group_id, member.member_id, now_ms, timeout_ms)
        answer = _new_response(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=interval_ms,
        )
        return Result((), (Reply(context.token, answer),))

    def handle(
        self, request: ConsumerGroupHeartbeatRequest, context: RequestContext, now_ms: int
    ) -> ResultBuilder:
        """Handle a heartbeat: join, stay, rejoin or leave, according to its member epoch.

        The first heartbeat creates the group, or upgrades a classic one. If the assignor raises, the heartbeat fails with
        UNKNOWN_SERVER_ERROR and changes nothing."""
        builder = ResultBuilder(now_ms)
        try:
            self._check(request, context)
            if request.member_epoch in {LEFT_EPOCH, AWAY_EPOCH}:
                answer = self._leave(request, builder)
            else:
                answer = self._heartbeat(request, context, builder)
        except RefusedError as error:
            builder = ResultBuilder(now_ms)
            builder.reply(context.token, _refused(error.error_code, str(error)))
            return builder
        except Exception as error:  # noqa: BLE001  # the assignor is the user's
            self._updater.jobs.log_failure(request.group_id, error)
            builder = ResultBuilder(now_ms)
            text = f"Failed to compute a new target assignment: {error}"
            builder.reply(context.token, _refused(ErrorCode.UNKNOWN_SERVER_ERROR, text))
            return builder
        if builder.records:
            builder.promise(context.token, answer)
            builder.if_failed(
                lambda again, code: again.reply(context.token, _refused(code, code.text))
            )
        else:
            builder.reply(context.token, answer)
        return builder

    def _check(self, request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> None:
        problem = _problem(request, context.api_version)
        if problem is not None:
            raise RefusedError(ErrorCode.INVALID_REQUEST, problem)
        assignors = self._updater.assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            raise RefusedError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported."
                f" Supported assignors: {', '.join(assignors)}.",
            )

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        builder: ResultBuilder,
    ) -> ConsumerGroupHeartbeatResponse:
        member_id = request.member_id or self._new_uuid()
        draft = self._drafted(request)
        before = self._member(request, member_id, draft)
        was_assigned = None if before is None else before.assigned
        after, change = self._updated(request, context, member_id, before, draft)
        owned = _owned(request)
        updater = self._updater
        updater.bump_epoch(draft, change)
        updater.update_target(draft, member_id, builder.now_ms)
        after = updater.reconcile(
            draft, member_id, owned, subscription_changed=change.any, now_ms=builder.now_ms
        )
        self._conversion.write_upgrade(draft, builder)
        draft.hand_over(builder)
        builder.is_large |= after.is_large
        group_id = request.group_id
        timeout_ms, interval_ms = updater.settings.heartbeat_times_ms(group_id)
        updater.renew_session(group_id, member_id, builder.now_ms, timeout_ms)
        if before is not None and before.epoch == 0 and request.instance_id is not None:
            # rejoined under its old id: the records that remove the member end its session, too
            builder.when_written(partial(self._renew_session, group_id, member_id, timeout_ms))
        self._registry.clear(TimerKind.JOIN, group_id, member_id)
        self._registry.clear(TimerKind.SYNC, group_id, member_id)
        updater.request_regexes(draft, builder.now_ms)
        return ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=interval_ms,
            assignment=_assignment(after.assigned)
            if request.member_epoch == 0 or _is_full(request) or was_assigned != after.assigned
            else None,
        )

    def _renew_session(
        self, group_id: str, member_id: str, timeout_ms: int, builder: ResultBuilder
    ) -> None:
        self._updater.renew_session(group_id, member_id, builder.now_ms, timeout_ms)

    def _drafted(self, request: ConsumerGroupHeartbeatRequest) -> Draft:
        """Return a draft of the group, created or converted if needed."""
        group_id = request.group_id
        found = self._registry.groups.get(group_id)
        if found is not None:
            return Draft(found)
        if request.member_epoch != 0:
            text = f"Consumer group {group_id} not found."
            if group_id in self._classic.groups:
                text = f"Group {group_id} is not a consumer group."
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        try:
            return self._conversion.draft_of_new_group(group_id)
        except ConversionError as error:
            logger.info("group=%s: cannot upgrade it to a consumer group: %s", group_id, error)
            text = (
                f"Cannot upgrade classic group {group_id} to consumer group because {error.reason}."
            )
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, text) from error

    def _member(
        self, request: ConsumerGroupHeartbeatRequest, member_id: str, draft: Draft
    ) -> ConsumerGroupMember | None:
        group = draft.group
        config = self._updater.settings.config()
        if (
            member_id not in group.members
            and len(group.members) >= config.group_consumer_max_size
            and request.member_epoch == 0
        ):
            raise RefusedError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of"
                f" {config.group_consumer_max_size} members.",
            )
        if request.instance_id is not None:
            return self._static(request, member_id, request.instance_id, draft)
        member = group.members.get(member_id)
        if request.member_epoch == 0:
            return member
        if member is None:
            text = f"Member {member_id} is not a member of group {group.group_id}."
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        _check_epoch(request, member)
        return member

    def _static(
        self,
        request: ConsumerGroupHeartbeatRequest,
        member_id: str,
        instance_id: str,
        draft: Draft,
    ) -> ConsumerGroupMember | None:
        holder = draft.group.static_member(instance_id)
        if request.member_epoch != 0:
            _check_instance(holder, member_id, instance_id)
            assert holder is not None
            _check_epoch(request, holder)
            return holder
        if holder is None:
            return draft.group.members.get(member_id)
        if holder.epoch != AWAY_EPOCH and holder.classic is None:
            text = f"Static member {member_id} with instance id {instance_id} cannot join the group because"
            text += f" the instance id is owned by {holder.member_id} member."
            raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        return replace_static_member(draft, holder, member_id)

    def _updated(
        self,
        request: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        member_id: str,
        before: ConsumerGroupMember | None,
        draft: Draft,
    ) -> tuple[ConsumerGroupMember, Change]:
        """Write the member's record from the request."""
        if (
            before is not None
            and before.classic is None
            and _says_nothing(request, before, context)
        ):
            return before, Change(False, RegexUpdate.NONE)
        group_id = request.group_id
        base = before or ConsumerGroupMember(member_id=member_id)
        names = request.subscribed_topic_names
        after = replace(
            base,
            instance_id=_newer(request.instance_id, base.instance_id),
            rack_id=_newer(request.rack_id, base.rack_id),
            client_id=context.client_id,
            client_host=context.client_host,
            topic_names=base.topic_names if names is None else names_set(tuple(names)),
            regex=base.regex
            if request.subscribed_topic_regex is None
            else request.subscribed_topic_regex,
            rebalance_timeout_ms=base.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms,
            server_assignor=_newer(request.server_assignor, base.server_assignor),
            classic=None,
        )
        if after.regex and after.regex != base.regex:
            try:
                compiled(after.regex)
            except InvalidRegexError as error:
                raise RefusedError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
        old_assignor = self._updater.assignor_of(draft.group)
        if before is None or after != base:
            draft.write(member_metadata(group_id, after))
        change = Change(
            not same_names(after.topic_names, base.topic_names),
            self._updater.update_regex(draft, before, after),
        )
        if (
            self._updater.settings.config().follows_4_4
            and before is not None
            and self._updater.assignor_of(draft.group) != old_assignor
        ):
            change = Change(True, change.regex)
        return after, change

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, builder: ResultBuilder
    ) -> ConsumerGroupHeartbeatResponse:
        group = self._registry.groups.get(request.group_id)
        if group is None:
            is_classic = request.group_id in self._classic.groups
            text = not_a_consumer_group(request.group_id, is_classic=is_classic)
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        member = group.members.get(request.member_id)
        if request.instance_id is not None:
            holder = group.static_member(request.instance_id)
            _check_instance(holder, request.member_id, request.instance_id)
            member = holder
        if member is None:
            text = f"Member {request.member_id} is not a member of group {group.group_id}."
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        logger.info(
            "group=%s member=%s epoch=%d: %s",
            group.group_id,
            member.member_id,
            member.epoch,
            "left temporarily" if request.member_epoch == AWAY_EPOCH else "left",
        )
        if request.member_epoch == AWAY_EPOCH:
            draft = Draft(group)
            draft.write(current_assignment(group.group_id, _away(member)))
            self._registry.clear(TimerKind.REBALANCE, group.group_id, member.member_id)
            draft.hand_over(builder)
        else:
            self._updater.remove(group, [member], builder)
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )


def replace_static_member(
    draft: Draft, holder: ConsumerGroupMember, member_id: str
) -> ConsumerGroupMember:
    """Write the replacement of a static member by another process, which takes over its assignment, with epoch 0."""
    group_id = draft.group.group_id
    target = draft.group.target(holder.member_id)
    for record in member_tombstones(group_id, holder.member_id):
        draft.write(record)
    made = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    draft.write(member_metadata(group_id, made))
    draft.write(target_of_member(group_id, member_id, target))
    draft.write(current_assignment(group_id, made))
    return draft.group.members[member_id]


def _away(member: ConsumerGroupMember) -> ConsumerGroupMember:
    return replace(
        member,
        epoch=AWAY_EPOCH,
        assigned={each: dict.fromkeys(held, 0) for each, held in member.assigned.items()},
        pending={},
    )


def _problem(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    """Return the error of a request checked in isolation, in Kafka's order of checks."""
    epoch = request.member_epoch
    if not request.member_id and (version >= _OWN_IDS_FROM or epoch > 0 or epoch == LEFT_EPOCH):
        return "MemberId can't be empty."
    for name, value in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch == 0:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if request.topic_partitions is None or request.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null."
    if epoch == AWAY_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    if epoch < AWAY_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    return None


def _check_instance(holder: ConsumerGroupMember | None, member_id: str, instance_id: str) -> None:
    if holder is None:
        text = f"Instance id {instance_id} is unknown."
        raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    if holder.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member"
        raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, f"{text} {holder.member_id}.")


def _check_epoch(request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember) -> None:
    received = request.member_epoch
    if received == member.epoch:
        return
    lost_answer = (
        received < member.epoch
        and received == member.previous_epoch
        and request.topic_partitions is not None
        and _owns_no_more_than(request.topic_partitions, member.assigned)
    )
    if not lost_answer:
        raise RefusedError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has epoch {received}, and the one known by the group"
            f" coordinator is {member.epoch}. The member must abandon all its partitions and rejoin.",
        )


def _owns_no_more_than(owned: tuple[TopicPartitions, ...], assigned: Holdings) -> bool:
    return all(set(each.partitions) <= assigned.get(each.topic_id, {}).keys() for each in owned)


def _newer(given: str | None, before: str | None) -> str | None:
    return before if given is None else given


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    owned: dict[UUID, frozenset[int]] = {}
    for topic in request.topic_partitions:
        # a topic may be in several elements
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return owned


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def _says_nothing(
    request: ConsumerGroupHeartbeatRequest, member: ConsumerGroupMember, context: RequestContext
) -> bool:
    """Return whether a heartbeat carries no changes and only keeps the session alive."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id == (member.instance_id if request.instance_id else None)
        and context.client_id == member.client_id
        and context.client_host == member.client_host
    )


def _assignment(assigned: Holdings) -> Assignment:
    return Assignment(
        tuple(
            [
                _new_partitions(topic_id, tuple(sorted(epochs)))
                for topic_id, epochs in assigned.items()
                if epochs
            ]
        )
    )


def _refused(code: ErrorCode, text: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=text)
