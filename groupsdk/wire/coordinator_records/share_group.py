"""Declare share groups (KIP-932) in `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.wire.coordinator_records.consumer_group import TopicPartitions
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue
from groupsdk.wire.schema import NO_UUID, Int8, Int32, Int64, Struct, nullable, tagged


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataValue(CoordinatorValue):
    """A member of a share group, as it describes itself."""

    rack_id: Annotated[str | None, nullable()] = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupMemberMetadataKey(CoordinatorKey):
    """Name a member of a share group."""

    record_type: ClassVar[int] = 10
    value_class: ClassVar[type[CoordinatorValue]] = ShareGroupMemberMetadataValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataValue(CoordinatorValue):
    """The epoch of a share group."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@dataclass(frozen=True, slots=True)
class ShareGroupMetadataKey(CoordinatorKey):
    """Name a share group."""

    record_type: ClassVar[int] = 11
    value_class: ClassVar[type[CoordinatorValue]] = ShareGroupMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """The epoch of a share group's target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0
    """From Kafka 4.3 on."""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """Name a share group with a target assignment."""

    record_type: ClassVar[int] = 12
    value_class: ClassVar[type[CoordinatorValue]] = ShareGroupTargetAssignmentMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMemberValue(CoordinatorValue):
    """What a member of a share group is to be assigned."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupTargetAssignmentMemberKey(CoordinatorKey):
    """Name a member of a share group with a target assignment."""

    record_type: ClassVar[int] = 13
    value_class: ClassVar[type[CoordinatorValue]] = ShareGroupTargetAssignmentMemberValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """What a member of a share group is assigned."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """Name a member of a share group with an assignment."""

    record_type: ClassVar[int] = 14
    value_class: ClassVar[type[CoordinatorValue]] = ShareGroupCurrentMemberAssignmentValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class TopicPartitionsInfo(Struct):
    """Name partitions of one topic by its id and its name."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicInfo(Struct):
    """Name a topic by its id and its name."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataValue(CoordinatorValue):
    """Which partitions of a share group have a state kept for them."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupStatePartitionMetadataKey(CoordinatorKey):
    """Name a share group whose partitions have a state."""

    record_type: ClassVar[int] = 15
    value_class: ClassVar[type[CoordinatorValue]] = ShareGroupStatePartitionMetadataValue

    group_id: str = ""
