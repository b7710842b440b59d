"""Write the records of groups of the consumer protocol (KIP-848) by hand."""

from collections.abc import Sequence
from uuid import UUID

from examples.history_log import Pair
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TopicPartitions,
)
from groupsdk.wire.coordinator_records.offsets_log import write


TOPIC = UUID(int=5)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABQ"


def held(partitions: Sequence[int]) -> tuple[CurrentTopicPartitions, ...]:
    """Name partitions of the one topic there is."""
    return (CurrentTopicPartitions(TOPIC, tuple(partitions)),) if partitions else ()


def member(member_id: str, *, topics: Sequence[str] = ("t",), instance: str | None = None) -> Pair:
    """Write that a member is there."""
    value = ConsumerGroupMemberMetadataValue(
        instance,
        None,
        f"client-{member_id[0]}",
        "/h",
        tuple(topics),
        None,
        300_000,
        None,
        None,
    )
    return write(ConsumerGroupMemberMetadataKey("g", member_id), value)


def gone(member_id: str) -> list[Pair]:
    """Write that a member is gone: what is current of it, its target, itself."""
    return [
        write(ConsumerGroupCurrentMemberAssignmentKey("g", member_id), None),
        write(ConsumerGroupTargetAssignmentMemberKey("g", member_id), None),
        write(ConsumerGroupMemberMetadataKey("g", member_id), None),
    ]


def epoch(number: int, metadata_hash: int = 9) -> Pair:
    """Write that the group has a new epoch."""
    return write(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(number, metadata_hash))


def matched(pattern: str, *topics: str) -> Pair:
    """Write for which topics a pattern of the group stands."""
    value = ConsumerGroupRegularExpressionValue(topics)
    return write(ConsumerGroupRegularExpressionKey("g", pattern), value)


def target(member_id: str, *partitions: int) -> Pair:
    """Write what a member is to have."""
    topics = (TopicPartitions(TOPIC, partitions),) if partitions else ()
    value = ConsumerGroupTargetAssignmentMemberValue(topics)
    return write(ConsumerGroupTargetAssignmentMemberKey("g", member_id), value)


def targets_of(number: int) -> Pair:
    """Write that the targets of an epoch are complete."""
    value = ConsumerGroupTargetAssignmentMetadataValue(number)
    return write(ConsumerGroupTargetAssignmentMetadataKey("g"), value)


def current(
    member_id: str, number: int, partitions: Sequence[int], revoking: Sequence[int] = ()
) -> Pair:
    """Write what a member has."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        number, number - 1, 1 if revoking else 0, held(partitions), held(revoking)
    )
    return write(ConsumerGroupCurrentMemberAssignmentKey("g", member_id), value)


JOINED = [member("a"), epoch(1), target("a", 0, 1), targets_of(1), current("a", 1, [0, 1])]
SHARED = [
    member("b"),
    epoch(2),
    target("a", 0),
    target("b", 1),
    targets_of(2),
    current("a", 1, [0], [1]),
    current("a", 2, [0]),
    current("b", 2, [1]),
]
"""A second member comes, and gets what the first one gives up."""
