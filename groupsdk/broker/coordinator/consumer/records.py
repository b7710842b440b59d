"""Build the records of consumer groups, in the order in which Kafka writes them."""

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
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey


_MEMBER_METADATA = consumer_group.ConsumerGroupMemberMetadataKey
_TARGET_ASSIGNMENT = consumer_group.ConsumerGroupTargetAssignmentMemberKey
_CURRENT_ASSIGNMENT = consumer_group.ConsumerGroupCurrentMemberAssignmentKey
_REGULAR_EXPRESSION = consumer_group.ConsumerGroupRegularExpressionKey


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """Build the record of the group epoch (type 3) with the hash of the subscribed topics."""
    value = consumer_group.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(consumer_group.ConsumerGroupMetadataKey(group_id), value)


def member_metadata(group_id: str, member: ConsumerGroupMember) -> GroupRecord:
    """Build the record of a member's subscription and metadata (type 5)."""
    key = _MEMBER_METADATA(group_id, member.member_id)
    return CoordinatorRecord(key, member.metadata_value())


def current_assignment(group_id: str, member: ConsumerGroupMember) -> GroupRecord:
    """Build the record of a member's current assignment (type 8)."""
    return AssignmentRecord(_CURRENT_ASSIGNMENT(group_id, member.member_id), member)


def target_of_member(group_id: str, member_id: str, target: Partitions) -> GroupRecord:
    """Build the record of a member's target assignment (type 7)."""
    return TargetRecord(_TARGET_ASSIGNMENT(group_id, member_id), target)


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
    return CoordinatorRecord(_REGULAR_EXPRESSION(group_id, regex), value)


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    """Build the record that deletes the resolved topics of a regular expression."""
    return CoordinatorRecord(_REGULAR_EXPRESSION(group_id, regex), None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Build the records that remove one member (types 8, 7, 5)."""
    keys = (_CURRENT_ASSIGNMENT, _TARGET_ASSIGNMENT, _MEMBER_METADATA)
    return [CoordinatorRecord(key(group_id, member_id), None) for key in keys]


def group_tombstones(group: ConsumerGroup) -> list[GroupRecord]:
    """Build the records that remove a group and all its remaining records (types 8, 7, 6, 5, 16, 4, 3)."""
    group_id = group.group_id
    keys: list[CoordinatorKey] = [
        *(_CURRENT_ASSIGNMENT(group_id, member_id) for member_id in group.members),
        *(_TARGET_ASSIGNMENT(group_id, member_id) for member_id in group.members),
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey(group_id),
        *(_MEMBER_METADATA(group_id, member_id) for member_id in group.members),
        *(_REGULAR_EXPRESSION(group_id, regex) for regex in group.regexes),
        # the topics record of a group written by Kafka 4.0 or older
        consumer_group.ConsumerGroupPartitionMetadataKey(group_id),
        consumer_group.ConsumerGroupMetadataKey(group_id),
    ]
    return [CoordinatorRecord(key, None) for key in keys]
