"""Read the records of `__consumer_offsets`, of every type that Kafka 4.1 knows."""

from typing import Final

from groupsdk.wire.coordinator_records import (
    consumer_group,
    declaration,
    group_metadata,
    offset_commit,
    share_group,
    streams_group,
)
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, KeyClasses


KEYS: Final[KeyClasses] = {
    each.record_type: each
    for each in (
        offset_commit.LegacyOffsetCommitKey,
        offset_commit.OffsetCommitKey,
        group_metadata.GroupMetadataKey,
        consumer_group.ConsumerGroupMetadataKey,
        consumer_group.ConsumerGroupPartitionMetadataKey,
        consumer_group.ConsumerGroupMemberMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_group.ConsumerGroupTargetAssignmentMemberKey,
        consumer_group.ConsumerGroupCurrentMemberAssignmentKey,
        share_group.ShareGroupMemberMetadataKey,
        share_group.ShareGroupMetadataKey,
        share_group.ShareGroupTargetAssignmentMetadataKey,
        share_group.ShareGroupTargetAssignmentMemberKey,
        share_group.ShareGroupCurrentMemberAssignmentKey,
        share_group.ShareGroupStatePartitionMetadataKey,
        consumer_group.ConsumerGroupRegularExpressionKey,
        streams_group.StreamsGroupMetadataKey,
        streams_group.StreamsGroupMemberMetadataKey,
        streams_group.StreamsGroupTargetAssignmentMetadataKey,
        streams_group.StreamsGroupTargetAssignmentMemberKey,
        streams_group.StreamsGroupCurrentMemberAssignmentKey,
        streams_group.StreamsGroupTopologyKey,
    )
}
"""The keys of `__consumer_offsets` by their record type."""


def read_key(data: bytes) -> CoordinatorKey | None:
    """Decode the bytes of a key of `__consumer_offsets`. Return None if its record type is unknown: skip it and warn.

    Raises DecodeError if `data` is not a key.
    """
    return declaration.read_key(KEYS, data)


read_value = declaration.read_value
write = declaration.write
