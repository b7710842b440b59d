"""Build the records of consumer groups, in the order in which Kafka writes them."""

from collections.abc import Iterable

from groupsdk.broker.coordinator.consumer.group import (
    AssignmentRecord,
    ConsumerGroup,
    GroupRecord,
    ResolvedRegex,
    TargetRecord,
)
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember
from groupsdk.broker.coordinator.consumer.topics import Partitions
from groupsdk.broker.coordinator.runtime.contract import CoordinatorRecord
from groupsdk.wire.coordinator_records import consumer_group


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """Build the record of the group epoch (type 3) with the hash of the subscribed topics."""
    value = consumer_group.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(consumer_group.ConsumerGroupMetadataKey(group_id), value)


def member_metadata(group_id: str, member: ConsumerGroupMember) -> GroupRecord:
    """Build the record of a member's subscription and metadata (type 5)."""
    key = consumer_group.ConsumerGroupMemberMetadataKey(group_id, member.member_id)
    return CoordinatorRecord(key, member.metadata_value())


def current_assignment(group_id: str, member: ConsumerGroupMember) -> GroupRecord:
    """Build the record of a member's current assignment (type 8)."""
    key = consumer_group.ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id)
    return AssignmentRecord(key, member)


def target_of_member(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    """Build the record of a member's target assignment (type 7)."""
    key = consumer_group.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id)
    return TargetRecord(key, target)


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> GroupRecord:
    """Build the record of the target's epoch (type 6); after a time of 0 the next target is due at once."""
    value = consumer_group.ConsumerGroupTargetAssignmentMetadataValue(epoch, timestamp_ms)
    return CoordinatorRecord(
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey(group_id), value
    )


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex) -> GroupRecord:
    """Build the record of the resolved topics of a regular expression (type 16)."""
    value = consumer_group.ConsumerGroupRegularExpressionValue(
        tuple(sorted(resolved.topics)), resolved.version, resolved.timestamp_ms
    )
    return CoordinatorRecord(
        consumer_group.ConsumerGroupRegularExpressionKey(group_id, regex), value
    )


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    """Build the record that deletes the resolved topics of a regular expression."""
    return CoordinatorRecord(
        consumer_group.ConsumerGroupRegularExpressionKey(group_id, regex), None
    )


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Build the records that remove one member (types 8, 7, 5)."""
    return [
        CoordinatorRecord(
            consumer_group.ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None
        ),
        CoordinatorRecord(
            consumer_group.ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None
        ),
        CoordinatorRecord(consumer_group.ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group: ConsumerGroup) -> list[GroupRecord]:
    """Build the records that remove a group and all its remaining records (types 8, 7, 6, 5, 16, 4, 3)."""
    group_id, members = group.group_id, list(group.members)
    return [
        *_each(consumer_group.ConsumerGroupCurrentMemberAssignmentKey, group_id, members),
        *_each(consumer_group.ConsumerGroupTargetAssignmentMemberKey, group_id, members),
        CoordinatorRecord(consumer_group.ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *_each(consumer_group.ConsumerGroupMemberMetadataKey, group_id, members),
        *(regex_tombstone(group_id, regex) for regex in group.regexes),
        # the topics record of a group written by Kafka 4.0 or older
        CoordinatorRecord(consumer_group.ConsumerGroupPartitionMetadataKey(group_id), None),
        CoordinatorRecord(consumer_group.ConsumerGroupMetadataKey(group_id), None),
    ]


def _each(
    key: type[
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey
        | consumer_group.ConsumerGroupTargetAssignmentMemberKey
        | consumer_group.ConsumerGroupMemberMetadataKey
    ],
    group_id: str,
    member_ids: Iterable[str],
) -> list[GroupRecord]:
    return [CoordinatorRecord(key(group_id, member_id), None) for member_id in member_ids]
