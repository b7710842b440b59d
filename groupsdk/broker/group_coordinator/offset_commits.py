"""Take OffsetCommit and TxnOffsetCommit: write offsets for whoever may, and answer partition by partition."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from groupsdk.broker.classic_groups.group import ClassicGroup
from groupsdk.broker.classic_groups.registry import GroupRegistry
from groupsdk.broker.consumer_groups.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.group_coordinator.offset_store import OffsetStore
from groupsdk.broker.group_coordinator.records import NO_EPOCH, CommittedOffset, OffsetCommitRecords
from groupsdk.broker.group_status import GroupState
from groupsdk.broker.runtime.contract import ProducerStamp, RequestContext
from groupsdk.broker.runtime.turn import Turn
from groupsdk.error_code import ErrorCode
from groupsdk.limits import MAX_INT64, MAX_STRING_BYTES
from groupsdk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupsdk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


_NO_EXPIRY: Final = -1
_GROUP_ID_NOT_FOUND_FROM = 9
_SOME = 4

_NONE = ErrorCode.NONE
_DEAD = GroupState.DEAD
_EMPTY = GroupState.EMPTY
_STABLE = GroupState.STABLE
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE

Partitions = Iterable[OffsetCommitRequestPartition] | Iterable[TxnOffsetCommitRequestPartition]


class Commits:
    """Handle OffsetCommit and TxnOffsetCommit (Kafka: OffsetMetadataManager)."""

    __slots__ = ("_consumer_groups", "_offsets", "_registry")

    def __init__(
        self,
        registry: GroupRegistry,
        offsets: OffsetStore,
        consumer_groups: ConsumerGroupCoordinator,
    ) -> None:
        """Create it for the groups of a registry, the consumer groups beside them, and the offsets of all."""
        self._registry = registry
        self._offsets = offsets
        self._consumer_groups = consumer_groups

    def handle(self, request: OffsetCommitRequest, context: RequestContext, now_ms: int) -> Turn:
        """Write the offsets; a commit of a member keeps its session, as a heartbeat does."""
        turn = Turn(now_ms)
        group = self._registry.groups.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        error = _NONE
        if group is not None:
            error = _check(group, generation_id, request.member_id, request.group_instance_id)
        elif self._consumer_groups.group(request.group_id) is not None:
            error = self._consumer_groups.commit_error(request, context.api_version)
        elif generation_id >= 0:
            named = context.api_version >= _GROUP_ID_NOT_FOUND_FROM
            error = ErrorCode.GROUP_ID_NOT_FOUND if named else ErrorCode.ILLEGAL_GENERATION
        if error is not _NONE:
            turn.reply(context.token, commit_error(request, error))
            return turn
        if group is not None and (group.state is _STABLE or group.state is _PREPARING):
            self._registry.renew_session(group.members[request.member_id], now_ms)
        retention_ms = request.retention_time_ms
        expire_ms = (
            _NO_EXPIRY if retention_ms == _NO_EXPIRY else min(now_ms + retention_ms, MAX_INT64)
        )
        group_id, topics = request.group_id, [each for each in request.topics if each.partitions]
        if (
            topics
            and len(topics[0].partitions) >= _SOME  # with fewer it takes longer than it saves
            and expire_ms == _NO_EXPIRY
            and all(_is_plain(each.partitions) for each in topics)
        ):
            indexes = [
                (each.name, self._write_plain(group_id, each.name, each.partitions, turn))
                for each in topics
            ]
            answer = commit_accepted(indexes)
        else:
            answer = commit_answer(
                [
                    (each.name, self._write(group_id, each.name, each.partitions, expire_ms, turn))
                    for each in topics
                ]
            )
        if not turn.records:
            turn.reply(context.token, answer)
            return turn
        turn.promise(context.token, answer)
        turn.if_failed(
            lambda again, failure: again.reply(context.token, commit_error(request, failure))
        )
        return turn

    def handle_transactional(
        self, request: TxnOffsetCommitRequest, context: RequestContext, now_ms: int
    ) -> Turn:
        """Write the offsets for the time when the producer's transaction commits."""
        turn = Turn(now_ms)
        version = context.api_version
        error = self._check_transactional(request)
        if error is not _NONE:
            turn.reply(context.token, transaction_error(request, error, version))
            return turn
        answer = transaction_answer(
            (topic, self._write(request.group_id, topic.name, topic.partitions, _NO_EXPIRY, turn))
            for topic in request.topics
            if topic.partitions
        )
        if not turn.records:
            turn.reply(context.token, answer)
            return turn
        turn.producer = ProducerStamp(request.producer_id, request.producer_epoch)
        turn.promise(context.token, answer)
        turn.if_failed(
            lambda again, failure: again.reply(
                context.token, transaction_error(request, failure, version)
            )
        )
        return turn

    def _check_transactional(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self._registry.groups.get(request.group_id)
        generation_id = request.generation_id_or_member_epoch
        if group is None:
            if self._consumer_groups.group(request.group_id) is not None:
                return self._consumer_groups.transaction_error(request)
            return ErrorCode.ILLEGAL_GENERATION if generation_id >= 0 else _NONE
        return _check(
            group,
            generation_id,
            request.member_id,
            request.group_instance_id,
            transactional=True,
        )

    def _write_plain(
        self,
        group_id: str,
        topic: str,
        partitions: Sequence[OffsetCommitRequestPartition],
        turn: Turn,
    ) -> tuple[int, ...]:
        """Write the offsets of one topic, none with metadata; return their partitions.

        As `_write`, in half the time: a consumer may commit hundreds every few seconds.
        """
        now_ms, new, kind = turn.now_ms, tuple.__new__, CommittedOffset
        indexes = tuple([each.partition_index for each in partitions])
        offsets: list[CommittedOffset] = [
            new(kind, (each.committed_offset, each.committed_leader_epoch, "", now_ms, -1))
            for each in partitions
        ]
        by_partition = dict(zip(indexes, offsets, strict=True))
        turn.records.append(OffsetCommitRecords(group_id, topic, by_partition))
        return indexes

    def _write(
        self,
        group_id: str,
        topic: str,
        partitions: Partitions,
        expire_ms: int,
        turn: Turn,
    ) -> list[tuple[int, ErrorCode]]:
        """Write the offsets of one topic; return what to answer for each partition."""
        limit = self._registry.config.offset_metadata_max_bytes
        now_ms = turn.now_ms
        offsets: dict[int, CommittedOffset] = {}
        answers: list[tuple[int, ErrorCode]] = []
        new = tuple.__new__  # as the named tuple does, in half the time
        expires = expire_ms != _NO_EXPIRY
        for each in partitions:
            index = each.partition_index
            metadata = each.committed_metadata or ""
            if metadata and _is_too_large(metadata, limit):
                answers.append((index, ErrorCode.OFFSET_METADATA_TOO_LARGE))
                continue
            # the version of the record that has a time of expiry has no epoch
            epoch = NO_EPOCH if expires else each.committed_leader_epoch
            offsets[index] = new(
                CommittedOffset, (each.committed_offset, epoch, metadata, now_ms, expire_ms)
            )
            answers.append((index, _NONE))
        if offsets:
            turn.records.append(OffsetCommitRecords(group_id, topic, offsets))
        return answers


def _check(
    group: ClassicGroup,
    generation_id: int,
    member_id: str,
    instance_id: str | None,
    *,
    transactional: bool = False,
) -> ErrorCode:
    """Tell whether a commit may be taken (Kafka: ClassicGroup.validateOffsetCommit)."""
    state = group.state
    if state is _DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and state is _EMPTY:
        # an administrator, or a consumer that does not use the membership
        return _NONE
    if generation_id >= 0 or member_id or instance_id is not None:
        error = group.validate(member_id, instance_id)
        if error is not _NONE:
            return error
        if generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
    elif not transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if state is _COMPLETING and not transactional:
        # the member knows of the generation and has not got its assignment yet: it may commit after
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _NONE


def _is_plain(partitions: Iterable[OffsetCommitRequestPartition]) -> bool:
    for each in partitions:  # noqa: SIM110 - all() takes twice the time
        if each.committed_metadata:
            return False
    return True


def _is_too_large(metadata: str, limit: int) -> bool:
    """Return whether metadata is longer than offset.metadata.max.bytes, or than any record can carry."""
    if len(metadata) * 2 > limit and _utf16_length(metadata) > limit:
        return True
    size = len(metadata)
    return size * 4 > MAX_STRING_BYTES and len(metadata.encode()) > MAX_STRING_BYTES


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


PartitionErrors = list[tuple[int, ErrorCode]]
"""What became of each partition, by its index."""

_ABORTABLE_FROM = 4
_MAX_KEPT = 256


def commit_answer(topics: Sequence[tuple[str, PartitionErrors]]) -> OffsetCommitResponse:
    """Answer a commit, partition by partition."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        name, ((index, error),) = topics[0]
        return _single(name, index, error)
    return OffsetCommitResponse(
        0,
        tuple(
            [
                OffsetCommitResponseTopic(name, tuple([_partition(*each) for each in partitions]))
                for name, partitions in topics
            ]
        ),
    )


def commit_accepted(topics: Sequence[tuple[str, tuple[int, ...]]]) -> OffsetCommitResponse:
    """Answer a commit of which everything is accepted: by topic, the partitions."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        name, (index,) = topics[0]
        return _single(name, index, ErrorCode.NONE)
    return OffsetCommitResponse(
        0,
        tuple(
            [
                (_accepted if len(indexes) <= _MAX_KEPT else _accepted.__wrapped__)(name, indexes)
                for name, indexes in topics
            ]
        ),
    )


def commit_error(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Refuse a commit: an error of the group is repeated for every partition."""
    return commit_answer(
        [
            (topic.name, [(each.partition_index, error) for each in topic.partitions])
            for topic in request.topics
            if topic.partitions
        ]
    )


def transaction_answer(
    topics: Iterable[tuple[TxnOffsetCommitRequestTopic, PartitionErrors]],
) -> TxnOffsetCommitResponse:
    """Answer a commit within a transaction, partition by partition."""
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(index, error) for index, error in partitions
                ),
            )
            for topic, partitions in topics
        )
    )


def transaction_error(
    request: TxnOffsetCommitRequest, error: ErrorCode, api_version: int
) -> TxnOffsetCommitResponse:
    """Refuse a commit within a transaction, with an error that the producer of this version knows."""
    error = _for_producers(error, api_version)
    return transaction_answer(
        (topic, [(each.partition_index, error) for each in topic.partitions])
        for topic in request.topics
        if topic.partitions
    )


def _for_producers(error: ErrorCode, api_version: int) -> ErrorCode:
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return error


@lru_cache(maxsize=4096)
def _partition(index: int, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(index, error)


@lru_cache(maxsize=256)
def _accepted(name: str, indexes: tuple[int, ...]) -> OffsetCommitResponseTopic:
    # a consumer commits the same partitions until it has others
    none = ErrorCode.NONE
    return OffsetCommitResponseTopic(name, tuple([_partition(index, none) for index in indexes]))


@lru_cache(maxsize=4096)
def _single(name: str, index: int, error: ErrorCode) -> OffsetCommitResponse:
    # most commits are of one partition, and mostly the same ones
    return OffsetCommitResponse(0, (OffsetCommitResponseTopic(name, (_partition(index, error),)),))
