"""Fence commits and fetches of offsets, in groups of both kinds (KIP-447, KIP-848, KIP-1251)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest


CommitRequest = OffsetCommitRequest | TxnOffsetCommitRequest
Place = tuple[UUID | None, int]
"""A partition of a commit: the id of its topic, None if there is no such topic, and its index."""
Places = Callable[[CommitRequest], Iterable[Place]]
"""Lists the partitions of a commit that are stored unless it is refused; few commits need that to be decided."""

TRANSACTION_TOPIC_IDS_FROM: Final = 6
"""The first TxnOffsetCommit version with topic ids, whose clients also handle every group error (KIP-1319)."""
_CONSUMER_COMMITS_FROM: Final = 9
"""The first OffsetCommit version that members of the consumer protocol may use."""
_NEWER_ERRORS: Final = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
_NO_GENERATION: Final = -1

_DEAD, _EMPTY = GroupState.DEAD, GroupState.EMPTY
_COMPLETING = GroupState.COMPLETING_REBALANCE
_NONE = ErrorCode.NONE
_UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
_ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION


_AT_ONCE: Final = 256
T = TypeVar("T")


def sliced(topics: Iterable[T], most: int = _AT_ONCE) -> Iterator[list[T]]:
    """Yield the topics of a large commit, or of its response, some at a time: one of many partitions in several pieces."""
    some: list[T] = []
    count = 0
    for topic in topics:
        partitions: Any = topic.partitions  # type: ignore[attr-defined] # each of these has them
        whole = len(partitions) <= most
        for start in range(0, 1 if whole else len(partitions), most):
            piece = partitions[start : start + most]
            some.append(topic if whole else replace(topic, partitions=piece))  # type: ignore[type-var]
            count += 1 + len(piece)
            if count > most:
                yield some
                some, count = [], 0
    if some:
        yield some


def validate_commit(
    group: ClassicGroup | ConsumerGroup | None,
    request: CommitRequest,
    api_version: int,
    places_of: Places,
) -> ErrorCode:
    """Return the error of an OffsetCommit or TxnOffsetCommit, or NONE. Without a generation it creates a missing group."""
    if isinstance(group, ClassicGroup):
        return _of_classic_group(group, request)
    transactional = type(request) is TxnOffsetCommitRequest
    if group is not None:
        error = _of_consumer_group(
            group,
            request,
            places_of,
            is_old=not transactional and api_version < _CONSUMER_COMMITS_FROM,
        )
    elif request.generation_id_or_member_epoch < 0:
        return _NONE
    else:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    known_from = TRANSACTION_TOPIC_IDS_FROM if transactional else _CONSUMER_COMMITS_FROM
    return _ILLEGAL_GENERATION if error in _NEWER_ERRORS and api_version < known_from else error


def _of_classic_group(group: ClassicGroup, request: CommitRequest) -> ErrorCode:
    """Kafka: ClassicGroup.validateOffsetCommit."""
    state, generation = group.state, request.generation_id_or_member_epoch
    transactional = type(request) is TxnOffsetCommitRequest
    member_id, instance_id = request.member_id, request.group_instance_id
    if state is _DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and state is _EMPTY:
        # an administrator, or a consumer that assigns partitions by itself
        return _NONE
    if generation >= 0 or member_id or instance_id is not None:
        if instance_id is not None or member_id not in group.members:
            error = group.validate(member_id, instance_id)
            if error is not _NONE:
                return error
        if generation != group.generation_id:
            return _ILLEGAL_GENERATION
    elif not transactional:
        return _UNKNOWN_MEMBER_ID
    if state is _COMPLETING and not transactional:
        # the member knows the generation but does not have its assignment yet: it may commit later
        return ErrorCode.REBALANCE_IN_PROGRESS
    return _NONE


def _of_consumer_group(
    group: ConsumerGroup, request: CommitRequest, places_of: Places, *, is_old: bool
) -> ErrorCode:
    """Kafka: ConsumerGroup.validateOffsetCommit. An older epoch is accepted for partitions that the member kept since."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return _NONE
    if (
        type(request) is TxnOffsetCommitRequest
        and epoch == _NO_GENERATION
        and not request.member_id
        and request.group_instance_id is None
    ):
        return _NONE  # the producer does not use the membership
    member = group.members.get(request.member_id)
    if member is None:
        return _UNKNOWN_MEMBER_ID
    if is_old and member.classic is None:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch or (
        epoch < member.epoch and _has_held(member, epoch, places_of(request))
    ):
        return _NONE
    return _stale(member)


def validate_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return the error of a member's OffsetFetch (version 9 and later), or NONE.

    An epoch without a member id is a client error that Kafka's coordinator does not expect: it looks up the null,
    fails, and answers UNKNOWN_SERVER_ERROR.
    """
    if member_id is None:
        return _NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return _UNKNOWN_MEMBER_ID
    return _NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerGroupMember) -> ErrorCode:
    return _ILLEGAL_GENERATION if member.classic is not None else ErrorCode.STALE_MEMBER_EPOCH


def _has_held(member: ConsumerGroupMember, epoch: int, places: Iterable[Place]) -> bool:
    """Return whether the member has had all these partitions since an epoch, without a break."""
    for topic_id, partition in places:
        if topic_id is None:
            return False
        given = None
        for holdings in (member.assigned, member.pending):
            given = holdings.get(topic_id, {}).get(partition, given)
        if given is None or epoch < given:
            return False
    return True


_ABORTABLE_FROM: Final = 4


def txn_offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """Map the coordinator's error for a partition to the one sent in response to a TxnOffsetCommit of this version."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.NETWORK_EXCEPTION:
        return for_txn_offset_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return for_txn_offset_commit(error, version)


def for_txn_offset_commit(error: ErrorCode, version: int) -> ErrorCode:
    """Map COORDINATOR_LOAD_IN_PROGRESS to COORDINATOR_NOT_AVAILABLE for TxnOffsetCommit versions 0 and 1."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
