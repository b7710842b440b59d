"""Fence commits and fetches of a consumer group's members by their epochs (KIP-848, KIP-1251)."""

from collections.abc import Callable, Iterable

from groupsdk.broker.consumer_groups.group import ConsumerGroup
from groupsdk.broker.consumer_groups.member import ConsumerGroupMember
from groupsdk.broker.consumer_groups.topics import TopicImage
from groupsdk.error_code import ErrorCode


_CONSUMER_COMMITS_FROM = 9
"""The first version of OffsetCommit that members of the consumer protocol may use."""
_STALE_TRANSACTIONS_FROM = 6
_ILLEGAL_GENERATION = ErrorCode.ILLEGAL_GENERATION


def commit_error(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    places: Iterable[tuple[str, int]],
    api_version: int,
    image: Callable[[], TopicImage],
) -> ErrorCode:
    """Return the error of a commit, or NONE (Kafka: ConsumerGroup.validateOffsetCommit).

    An older epoch is accepted if the member has had all the partitions since (KIP-1251).

    Args:
        group: the group.
        member_id: the committing member; "" for a tool.
        epoch: the member's epoch, or its generation; -1 for a tool, accepted only in an empty group.
        places: the (topic, partition) pairs of the commit, without those that are refused anyway.
        api_version: the version of OffsetCommit.
        image: returns the current topics.

    Returns:
        UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH (ILLEGAL_GENERATION for a classic member), or NONE.
    """
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and api_version < _CONSUMER_COMMITS_FROM:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch or (
        epoch < member.epoch and _held_since(member, epoch, places, image())
    ):
        return ErrorCode.NONE
    return _stale(member)


def transaction_error(
    group: ConsumerGroup, member_id: str, epoch: int, instance_id: str | None, api_version: int
) -> ErrorCode:
    """Return the error of a transactional commit, or NONE.

    Args:
        group: the group.
        member_id: the committing member; "" if the producer does not use the membership.
        epoch: the member's epoch, or its generation; -1: none.
        instance_id: the member's static id; None: none.
        api_version: the version of TxnOffsetCommit, which decides whether the client knows STALE_MEMBER_EPOCH.
    """
    if epoch < 0 and not member_id and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    # producers know STALE_MEMBER_EPOCH since the version with topic ids (KIP-1319)
    return _stale(member) if api_version >= _STALE_TRANSACTIONS_FROM else _ILLEGAL_GENERATION


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return the error of a member's OffsetFetch (version 9 and later), or NONE.

    An epoch without a member id is a client error that Kafka's coordinator does not expect: it looks up the null,
    fails, and answers UNKNOWN_SERVER_ERROR.

    Args:
        group: the group.
        member_id: the fetching member; None for a tool.
        epoch: the member's epoch; -1 for a tool.
    """
    if member_id is None:
        return ErrorCode.NONE if epoch < 0 else ErrorCode.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerGroupMember) -> ErrorCode:
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.STALE_MEMBER_EPOCH


def _held_since(
    member: ConsumerGroupMember,
    epoch: int,
    places: Iterable[tuple[str, int]],
    image: TopicImage,
) -> bool:
    """Return whether the member has had all these partitions since an epoch, without a break."""
    for name, partition in places:
        topic = image.topic(name)
        if topic is None:
            return False
        given = None
        for holdings in (member.assigned, member.pending):
            given = holdings.get(topic.topic_id, {}).get(partition, given)
        if given is None or epoch < given:
            return False
    return True
