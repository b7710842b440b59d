"""Handle administrative requests: DescribeGroups, ListGroups, DeleteGroups, OffsetDelete."""

import logging
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Final

from groupsdk.broker.coordinator.classic.group import ClassicGroup, group_tombstone
from groupsdk.broker.coordinator.classic.member import metadata_of
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.records import group_tombstones
from groupsdk.broker.coordinator.group.records import OffsetTombstone
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetStore
from groupsdk.broker.coordinator.runtime.contract import EncodedRecords, RequestContext
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import group_admin as messages
from groupsdk.wire.messages.groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupsdk.wire.records.record import EncodedPairs


logger = logging.getLogger(__name__)

GROUP_TYPE: Final = "classic"
"""The type of these groups in ListGroups."""

_NOT_FOUND_IS_AN_ERROR_FROM = 6
_OFFSETS_IN_A_STEP: Final = 256
Places = tuple[tuple[str, int], ...]
Removals = tuple[Places, EncodedRecords]
"""The partitions of a group's offsets, and their removals."""
_NO_REMOVALS: Final[Removals] = ((), EncodedRecords([], EncodedPairs()))


@dataclass(frozen=True, slots=True)
class Administration:
    """Handles administrative requests about groups: describe, list, delete, and delete offsets."""

    registry: GroupRegistry
    offsets: OffsetStore
    consumer_groups: ConsumerGroupCoordinator

    def describe(
        self, request: DescribeGroupsRequest, context: RequestContext
    ) -> DescribeGroupsResponse:
        """Handle DescribeGroups, which describes classic groups only.

        An unknown group is described as Dead, from version 6 on with GROUP_ID_NOT_FOUND."""
        version = context.api_version
        return DescribeGroupsResponse(
            groups=tuple(self._described(group_id, version) for group_id in request.groups)
        )

    def list(self, request: messages.ListGroupsRequest) -> messages.ListGroupsResponse:
        """Handle ListGroups: the groups with these states and types, ignoring case; an empty filter matches all."""
        groups = tuple(each for each in self.listed(request) if each is not None)
        return messages.ListGroupsResponse(groups=groups)

    def listed(self, request: messages.ListGroupsRequest) -> Iterator[messages.ListedGroup | None]:
        """Yield the groups that `list` returns; None for each group that the filters exclude.

        Consume it in slices, to yield to other work: each kind of group is copied when its turn comes, so groups created
        or deleted meanwhile do not matter.
        """
        states = {each.lower() for each in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        classic = (
            messages.ListedGroup(
                group.group_id, group.protocol_type or "", group.state.value, GROUP_TYPE
            )
            for group in tuple(self.registry.groups.values())
        )
        for each in chain(classic, self.consumer_groups.listed()):
            passes = (not types or each.group_type in types) and (
                not states or each.group_state.lower() in states
            )
            yield each if passes else None

    def _described(self, group_id: str, api_version: int) -> DescribedGroup:
        group = self.registry.groups.get(group_id)
        if group is None:
            dead = GroupState.DEAD.value
            if api_version < _NOT_FOUND_IS_AN_ERROR_FROM:
                return DescribedGroup(group_id=group_id, group_state=dead)
            is_consumer_group = self.consumer_groups.group(group_id) is not None
            problem = "is not a classic group" if is_consumer_group else "not found"
            return DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=f"Group {group_id} {problem}.",
                group_id=group_id,
                group_state=dead,
            )
        stable = group.state is GroupState.STABLE
        name = group.protocol_name if stable else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=name or "",
            members=tuple(
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=metadata_of(member.protocols, name) if stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ),
        )

    def removals(self, group_id: str) -> Generator[None, None, Removals]:
        """Encode the removals of a group's offsets in steps, for `delete`."""
        made = EncodedRecords([], EncodedPairs())
        places: Places = ()
        if self.offsets.count(group_id) > _OFFSETS_IN_A_STEP:
            places = tuple(self.offsets.partitions(group_id))
            for start in range(0, len(places), _OFFSETS_IN_A_STEP):
                yield
                some = places[start : start + _OFFSETS_IN_A_STEP]
                gone = [OffsetTombstone(group_id, *place) for place in some]
                made.records.extend(gone)
                made.pairs.add([pair for each in gone for pair in each.encoded()])
        return places, made

    def delete(
        self,
        request: messages.DeleteGroupsRequest,
        context: RequestContext,
        now_ms: int,
        removals: Mapping[str, Removals] = MappingProxyType({}),
    ) -> ResultBuilder:
        """Handle DeleteGroups: delete groups without members, with all their offsets.

        `removals` are used where the group has the same offsets still. Each group has its own error:
        GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP if it has members. If the append fails, every group has its error.
        """
        builder = ResultBuilder(now_ms)
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            consumer_group = self.consumer_groups.group(group_id)
            error = (
                _deletable(self.registry.groups.get(group_id))
                if consumer_group is None
                else _deletable_consumer_group(consumer_group)
            )
            results.append(messages.DeletableGroupResult(group_id, error))
            if error is ErrorCode.NONE:
                places = tuple(self.offsets.partitions(group_id))
                before, encoded = removals.get(group_id, _NO_REMOVALS)
                if before == places:
                    builder.write_all([encoded] if places else ())
                else:
                    builder.write_all(OffsetTombstone(group_id, *place) for place in places)
                if consumer_group is None:
                    builder.write(group_tombstone(group_id))
                else:
                    builder.write_all(group_tombstones(consumer_group))
                logger.info("group=%s: deleted on request", group_id)
        builder.promise(context.token, messages.DeleteGroupsResponse(results=tuple(results)))

        def failed(again: ResultBuilder, error: ErrorCode) -> None:
            again.reply(context.token, delete_error(request, error))

        builder.if_failed(failed)
        return builder

    def delete_offsets(
        self, request: messages.OffsetDeleteRequest, context: RequestContext, now_ms: int
    ) -> ResultBuilder:
        """Handle OffsetDelete (KIP-496): delete offsets of topics that no member is subscribed to.

        Topics with subscribers are answered GROUP_SUBSCRIBED_TO_TOPIC; the whole request fails with INVALID_GROUP_ID,
        GROUP_ID_NOT_FOUND, or, for a group with members of an unknown protocol type, NON_EMPTY_GROUP."""
        builder = ResultBuilder(now_ms)
        group = self.registry.groups.get(request.group_id)
        consumer_group = self.consumer_groups.group(request.group_id)
        if consumer_group is not None:
            topics_in_use = consumer_group.subscribed_topics()
            subscribed = {each.name: each.name in topics_in_use for each in request.topics}
        else:
            error = _offsets_deletable(group, request.group_id)
            if group is None or error is not ErrorCode.NONE:
                builder.reply(context.token, messages.OffsetDeleteResponse(error_code=error))
                return builder
            subscribed = {each.name: group.is_subscribed_to(each.name) for each in request.topics}
        topics = tuple(
            self._delete_topic(request.group_id, topic, builder, subscribed=subscribed[topic.name])
            for topic in request.topics
        )
        builder.promise(context.token, messages.OffsetDeleteResponse(topics=topics))

        def failed(again: ResultBuilder, error: ErrorCode) -> None:
            again.reply(context.token, messages.OffsetDeleteResponse(error_code=error))

        builder.if_failed(failed)
        return builder

    def _delete_topic(
        self,
        group_id: str,
        topic: messages.OffsetDeleteRequestTopic,
        builder: ResultBuilder,
        *,
        subscribed: bool,
    ) -> messages.OffsetDeleteResponseTopic:
        name = topic.name
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        answers = []
        for index in dict.fromkeys(partition.partition_index for partition in topic.partitions):
            answers.append(messages.OffsetDeleteResponsePartition(index, error))
            stored = self.offsets.get(group_id, name, index) is not None
            if not subscribed and (stored or self.offsets.is_unstable(group_id, name, index)):
                self.registry.counters.offset_deletions += 1
                builder.write(OffsetTombstone(group_id, name, index))
        return messages.OffsetDeleteResponseTopic(name, tuple(answers))


def delete_error(
    request: messages.DeleteGroupsRequest, error: ErrorCode
) -> messages.DeleteGroupsResponse:
    """Build the response to a DeleteGroups of which nothing could be done."""
    names = dict.fromkeys(request.groups_names)
    refused = tuple(messages.DeletableGroupResult(name, error) for name in names)
    return messages.DeleteGroupsResponse(results=refused)


def _deletable(group: ClassicGroup | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def _deletable_consumer_group(group: ConsumerGroup) -> ErrorCode:
    return ErrorCode.NON_EMPTY_GROUP if group.members else ErrorCode.NONE


def _offsets_deletable(group: ClassicGroup | None, group_id: str) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE
