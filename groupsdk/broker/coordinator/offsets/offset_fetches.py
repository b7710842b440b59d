"""Handle OffsetFetch: return committed offsets."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.coordinator.group.records import NO_EPOCH, NO_OFFSET, CommittedOffset
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.offsets.commit_validation import validate_fetch
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetStore, TopicIdentity
from groupsdk.broker.coordinator.runtime.contract import RequestContext, finished
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import (
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
from groupsdk.wire.schema import NO_UUID


_BY_GROUP_FROM = 8
_AT_ONCE: Final = 1_000
"""How many topics and offsets are looked up before a pause, which takes about a millisecond."""

T = TypeVar("T")
Found = tuple[int, CommittedOffset, ErrorCode]
_NONE_STORED = CommittedOffset(NO_OFFSET, NO_EPOCH)
_Asked = Iterable[tuple[str, UUID, Sequence[int]]]


@dataclass(frozen=True, slots=True)
class OffsetFetchHandler:
    """Handles OffsetFetch (Kafka: OffsetMetadataManager.fetchOffsets)."""

    registry: GroupRegistry
    offsets: OffsetStore
    """The committed offsets of all groups."""
    consumer_groups: ConsumerGroupCoordinator
    topics: Mapping[str, TopicIdentity]
    """The existing topics by name."""

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
        """Handle OffsetFetch: one group up to version 7, several from version 8 on.

        An unknown group or partition has offset -1, and no error. With `require_stable`, offsets that an open
        transaction may change are answered UNSTABLE_OFFSET_COMMIT (KIP-447). For consumer groups, member id and epoch are
        checked.
        """
        return finished(self.handle_in_steps(request, context))

    def handle_in_steps(
        self, request: OffsetFetchRequest, context: RequestContext
    ) -> Generator[None, None, OffsetFetchResponse]:
        """As `handle`, with pauses in which other requests are handled: a group may have any number of offsets.

        Each offset is the one of the step in which it is read, together with the transactions that are open then.
        """
        stable = request.require_stable
        if context.api_version >= _BY_GROUP_FROM:
            groups = []
            for each in request.groups:
                group = yield from self._of_group(each, stable=stable)
                groups.append(group)
            return OffsetFetchResponse(groups=tuple(groups))
        topics = yield from self._find(
            request.group_id, request.topics, _topic_up_to_7, require_stable=stable
        )
        return OffsetFetchResponse(topics=topics)

    def _of_group(
        self, asked: OffsetFetchRequestGroup, *, stable: bool
    ) -> Generator[None, None, OffsetFetchResponseGroup]:
        group = self.consumer_groups.group(asked.group_id)
        if group is not None:
            error = validate_fetch(group, asked.member_id, asked.member_epoch)
            if error is not ErrorCode.NONE:
                return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
        topics = yield from self._find(
            asked.group_id, asked.topics, _topic_from_8, require_stable=stable
        )
        return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)

    def _find(
        self,
        group_id: str,
        wanted: Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None,
        answer: Callable[[str, UUID, list[Found]], T],
        *,
        require_stable: bool,
    ) -> Generator[None, None, tuple[T, ...]]:
        """Return the answers for topics, or for all that have offsets, with pauses where others may have their turn."""
        group = self.registry.groups.get(group_id)
        known = (group is not None and group.state is not GroupState.DEAD) or (
            self.consumer_groups.group(group_id) is not None
        )
        topics = self.offsets.topics(group_id) if known else {}
        asked: _Asked
        if wanted is None:
            asked = [(name, self._topic_id(name, of), tuple(of)) for name, of in topics.items()]
        else:
            asked = [
                (topic.name, getattr(topic, "topic_id", NO_UUID), topic.partition_indexes)
                for topic in wanted
            ]
        answers = []
        count = 0
        for topic, topic_id, indexes in asked:
            count += 1 + len(indexes)
            if count > _AT_ONCE:
                count = 0
                yield
            unstable = require_stable and self.offsets.has_open_transactions(group_id)
            stored = topics.get(topic, {})
            found: list[Found] = []
            for index in indexes:
                if unstable and self.offsets.is_unstable(group_id, topic, index):
                    found.append((index, _NONE_STORED, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                    continue
                offset = stored.get(index, _NONE_STORED)
                if wanted is not None and _is_of_another_topic(offset, topic_id):
                    offset = _NONE_STORED
                found.append((index, offset, ErrorCode.NONE))
            answers.append(answer(topic, topic_id, found))
        return tuple(answers)

    def _topic_id(self, name: str, stored: Mapping[int, CommittedOffset]) -> UUID:
        """Return the id of a topic with committed offsets: the stored one, else the current one."""
        for offset in stored.values():
            if offset.topic_id is not NO_UUID:
                return offset.topic_id
        known = self.topics.get(name)
        return NO_UUID if known is None else known.topic_id


def _is_of_another_topic(offset: CommittedOffset, topic_id: UUID) -> bool:
    """Return whether an offset was committed for an earlier topic of the same name; False if it has no id."""
    stored = offset.topic_id
    return topic_id is not NO_UUID and stored is not NO_UUID and topic_id != stored


def fetch_error(
    request: OffsetFetchRequest, error: ErrorCode, api_version: int
) -> OffsetFetchResponse:
    """Build the response to a refused OffsetFetch.

    Args:
        api_version: from 8 on each group has the error, from 2 on the response has, and before that each partition.
    """
    if api_version >= _BY_GROUP_FROM:
        return OffsetFetchResponse(
            groups=tuple(
                OffsetFetchResponseGroup(group.group_id, (), error) for group in request.groups
            )
        )
    return OffsetFetchResponse(
        topics=tuple(
            _topic_up_to_7(
                topic.name,
                NO_UUID,
                [(index, _NONE_STORED, error) for index in topic.partition_indexes],
            )
            for topic in request.topics or ()
        ),
        error_code=error,
    )


def _topic_up_to_7(name: str, _: UUID, found: list[Found]) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(
            index, offset.offset, offset.leader_epoch, offset.metadata, error
        )
        for index, offset, error in found
    ]
    return OffsetFetchResponseTopic(name, tuple(partitions))


def _topic_from_8(name: str, topic_id: UUID, found: list[Found]) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            index, offset.offset, offset.leader_epoch, offset.metadata, error
        )
        for index, offset, error in found
    ]
    return OffsetFetchResponseTopics(name, topic_id, tuple(partitions))
