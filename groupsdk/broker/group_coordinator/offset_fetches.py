"""Take OffsetFetch: tell what is committed."""

from collections.abc import Iterable

from groupsdk.broker.classic_groups.registry import GroupRegistry
from groupsdk.broker.consumer_groups.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.consumer_groups.offsets import fetch_error
from groupsdk.broker.group_coordinator.offset_store import OffsetStore
from groupsdk.broker.group_coordinator.records import NO_EPOCH, NO_OFFSET, CommittedOffset
from groupsdk.broker.group_status import GroupState
from groupsdk.broker.runtime.contract import RequestContext
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)


_BY_GROUP_FROM = 8

Found = tuple[int, CommittedOffset, ErrorCode]
_NONE_STORED = CommittedOffset(NO_OFFSET, NO_EPOCH)
_Named = Iterable[tuple[str, Iterable[int]]]
_Topic = OffsetFetchRequestTopic | OffsetFetchRequestTopics


class Fetches:
    """Handle OffsetFetch (Kafka: OffsetMetadataManager.fetchOffsets)."""

    __slots__ = ("_consumer_groups", "_offsets", "_registry")

    def __init__(
        self,
        registry: GroupRegistry,
        offsets: OffsetStore,
        consumer_groups: ConsumerGroupCoordinator,
    ) -> None:
        """Create it for the groups of a registry, the consumer groups beside them, and the offsets of all."""
        self._consumer_groups = consumer_groups
        self._registry = registry
        self._offsets = offsets

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        """Answer for one group up to version 7, for several from version 8 on.

        A group or a partition that is not known has offset -1, and no error.
        """
        stable = request.require_stable
        if context.api_version >= _BY_GROUP_FROM:
            return OffsetFetchResponse(
                groups=tuple(self._of_group(each, stable=stable) for each in request.groups)
            )
        return OffsetFetchResponse(
            topics=tuple(
                OffsetFetchResponseTopic(name, tuple([_up_to_7(*found) for found in partitions]))
                for name, partitions in self._find(
                    request.group_id, _names(request.topics), require_stable=stable
                )
            )
        )

    def _of_group(
        self, asked: OffsetFetchRequestGroup, *, stable: bool
    ) -> OffsetFetchResponseGroup:
        group = self._consumer_groups.group(asked.group_id)
        if group is not None:
            error = fetch_error(group, asked.member_id, asked.member_epoch)
            if error is not ErrorCode.NONE:
                return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
        return OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=tuple(
                OffsetFetchResponseTopics(name, tuple([_from_8(*found) for found in partitions]))
                for name, partitions in self._find(
                    asked.group_id, _names(asked.topics), require_stable=stable
                )
            ),
        )

    def _find(
        self, group_id: str, named: _Named | None, *, require_stable: bool
    ) -> Iterable[tuple[str, list[Found]]]:
        group = self._registry.groups.get(group_id)
        known = (group is not None and group.state is not GroupState.DEAD) or (
            self._consumer_groups.group(group_id) is not None
        )
        topics = self._offsets.topics(group_id) if known else {}
        unstable = require_stable and self._offsets.has_open_transactions(group_id)
        for topic, indexes in topics.items() if named is None else named:
            stored = topics.get(topic, {})
            found: list[Found] = []
            for index in indexes:
                if unstable and self._offsets.is_unstable(group_id, topic, index):
                    found.append((index, _NONE_STORED, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                else:
                    found.append((index, stored.get(index, _NONE_STORED), ErrorCode.NONE))
            yield topic, found


def _names(topics: Iterable[_Topic] | None) -> _Named | None:
    return None if topics is None else [(each.name, each.partition_indexes) for each in topics]


def _up_to_7(index: int, found: CommittedOffset, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        index, found.offset, found.leader_epoch, found.metadata, error
    )


def _from_8(index: int, found: CommittedOffset, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        index, found.offset, found.leader_epoch, found.metadata, error
    )
