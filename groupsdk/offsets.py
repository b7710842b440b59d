"""Write requests about a group's offsets, and read the answers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.errors import broker_error
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)


T = TypeVar("T")


Offsets = Mapping[TopicPartition, OffsetAndMetadata]

UNKNOWN_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""The codes that say that a topic is gone: retriable, since it may only not be known yet."""


def checked_partitions(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return an argument of partitions as a list. Raises TypeError if it is something else, such as the names of topics."""
    wanted = "partitions must be a list of TopicPartition(topic, partition)"
    given: Any = partitions  # of a caller without a type checker
    if isinstance(given, str | TopicPartition) or not isinstance(given, Iterable):
        raise TypeError(f"{wanted}, not {given!r}")
    found = list(given)
    for each in found:
        if not _is_partition(each):
            raise TypeError(f"{wanted}; it has {each!r}")
    return found


def check_offsets(offsets: Offsets) -> None:
    """Raise TypeError unless an argument is offsets to commit."""
    wanted = (
        "offsets must be a mapping of TopicPartition(topic, partition) to OffsetAndMetadata(offset)"
    )
    if not isinstance(offsets, Mapping):
        raise TypeError(f"{wanted}, not {offsets!r}")
    for partition, offset in offsets.items():
        if not (_is_partition(partition) and isinstance(offset, OffsetAndMetadata)):
            raise TypeError(f"{wanted}; it has {partition!r}: {offset!r}")


def _is_partition(given: Any) -> bool:
    return (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], str)
        and isinstance(given[1], int)
    )


def commit_request(snapshot: MemberSnapshot, offsets: Offsets) -> OffsetCommitRequest:
    """Build an OffsetCommit that stores offsets under the generation of a snapshot."""
    return OffsetCommitRequest(
        group_id=snapshot.group_id,
        generation_id_or_member_epoch=snapshot.generation.generation_id,
        member_id=snapshot.generation.member_id,
        group_instance_id=snapshot.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        committed_metadata=offset.metadata,
                    )
                    for partition, offset in sorted(partitions.items())
                ),
            )
            for topic, partitions in sorted(by_topic(offsets).items())
        ),
    )


def commit_errors(response: OffsetCommitResponse, offsets: Offsets) -> dict[TopicPartition, int]:
    """Return the error codes of the partitions whose offsets were not stored; one without an answer timed out."""
    codes = {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }
    timed_out = ErrorCode.REQUEST_TIMED_OUT.value
    told = {partition: codes.get(partition, timed_out) for partition in offsets}
    return {partition: code for partition, code in told.items() if code}


def check_commit(response: Any, offsets: Offsets) -> None:
    """Raise the most severe error of the partitions whose offsets were not stored; it names some of them."""
    errors = commit_errors(response, offsets)
    if not errors:
        return
    # what repeating cannot mend says more than what it can, and that more than a topic which is gone
    grave = [code for code in errors.values() if not ErrorCode.of(code).retriable]
    passing = [code for code in errors.values() if code not in UNKNOWN_TOPIC]
    code = next(iter(grave or passing or errors.values()))
    names = [name_of(each) for each in sorted(errors) if errors[each] == code]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    raise broker_error(code, f"OffsetCommit of {', '.join(names[:5])}{more}")


def fetch_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetFetchRequest:
    """Build an OffsetFetch of stored offsets; those in an open transaction are not answered until it ends (KIP-447)."""
    group = OffsetFetchRequestGroup(
        group_id=group_id,
        topics=tuple(
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(partitions).items()
        ),
    )
    return OffsetFetchRequest(groups=(group,), require_stable=True)


def read_fetched(
    response: OffsetFetchResponse, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, OffsetAndMetadata | None], set[TopicPartition]]:
    """Decode stored offsets, in either form of the response, or raise the error of the group or of a partition.

    Returns:
        The offset of each partition, None if none is stored; and the partitions whose offset is part of an open
        transaction, to be requested again.
    """
    code: int = response.error_code
    topics: Any = response.topics
    for group in response.groups:
        code, topics = group.error_code, group.topics
    if code:
        raise broker_error(code, "OffsetFetch")
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    unstable: set[TopicPartition] = set()
    wanted = frozenset(partitions)
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            if partition not in wanted:
                continue
            if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                unstable.add(partition)
            elif each.error_code:
                raise broker_error(each.error_code, f"OffsetFetch of {name_of(partition)}")
            else:
                found[partition] = _stored(each)
    for partition in wanted - found.keys() - unstable:
        found[partition] = None
    return found, unstable


def by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """Return values grouped by topic and partition number."""
    grouped: defaultdict[str, dict[int, T]] = defaultdict(dict)
    for (topic, partition), value in values.items():
        grouped[topic][partition] = value
    return grouped


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Return partition numbers grouped by topic, both sorted."""
    grouped: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        grouped[topic].append(partition)
    return {topic: tuple(sorted(grouped[topic])) for topic in sorted(grouped)}


def name_of(partition: TopicPartition) -> str:
    """Return "topic-partition", as Kafka writes it."""
    return f"{partition.topic}-{partition.partition}"


def _stored(each: Any) -> OffsetAndMetadata | None:
    if each.committed_offset < 0:
        return None
    return OffsetAndMetadata(
        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
    )
