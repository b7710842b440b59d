"""Build the answers to commits of offsets."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from groupsdk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


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
