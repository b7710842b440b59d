"""Declare consumer groups of the newer protocol (KIP-848) in `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue
from groupsdk.wire.schema import NO_UUID, Int8, Int32, Int64, Struct, nullable, tagged


@dataclass(frozen=True, slots=True)
class TopicPartitions(Struct):
    """Name partitions of one topic."""

    topic_id: UUID = NO_UUID
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataValue(CoordinatorValue):
    """The epoch of a consumer group."""

    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, tagged(0)] = 0
    """Of the topics that the group subscribes to: another one asks for a rebalance."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadataKey(CoordinatorKey):
    """Name a consumer group."""

    record_type: ClassVar[int] = 3
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class PartitionMetadata(Struct):
    """Show where one partition's replicas are."""

    partition: Int32 = 0
    racks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata(Struct):
    """Show one topic that a group subscribes to."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataValue(CoordinatorValue):
    """The topics of a consumer group; the metadata hash took its place in Kafka 4.1."""

    topics: tuple[TopicMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupPartitionMetadataKey(CoordinatorKey):
    """Name a consumer group whose topics are stored."""

    record_type: ClassVar[int] = 4
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupPartitionMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class ClassicProtocol(Struct):
    """Show one assignor that a classic member offers."""

    name: str = ""
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata(Struct):
    """Show what a member of the classic protocol has beyond others."""

    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataValue(CoordinatorValue):
    """A member of a consumer group, as it describes itself."""

    instance_id: Annotated[str | None, nullable()] = ""
    rack_id: Annotated[str | None, nullable()] = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: Annotated[str | None, nullable()] = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: Annotated[str | None, nullable()] = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, nullable(), tagged(0)] = (
        ClassicMemberMetadata()
    )
    """None for a member of the newer protocol; what Kafka leaves out on the wire is the empty one."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupMemberMetadataKey(CoordinatorKey):
    """Name a member of a consumer group."""

    record_type: ClassVar[int] = 5
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupMemberMetadataValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """The epoch of a group's target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0
    """From Kafka 4.3 on."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """Name a consumer group with a target assignment."""

    record_type: ClassVar[int] = 6
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupTargetAssignmentMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberValue(CoordinatorValue):
    """What a member is to be assigned."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupTargetAssignmentMemberKey(CoordinatorKey):
    """Name a member with a target assignment."""

    record_type: ClassVar[int] = 7
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupTargetAssignmentMemberValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class CurrentTopicPartitions(Struct):
    """Name partitions of one topic that a member has."""

    topic_id: UUID = NO_UUID
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, nullable(), tagged(0)] = ()
    """In which epoch it was assigned each of them, from Kafka 4.3 on."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """What a member is assigned, and on which way to its target it is."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    """0 stable, 1 unrevoked partitions, 2 unreleased partitions."""
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """Name a member with an assignment."""

    record_type: ClassVar[int] = 8
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupCurrentMemberAssignmentValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionValue(CoordinatorValue):
    """The topics that a regular expression of a group stands for."""

    topics: tuple[str, ...] = ()
    version: Int64 = 0
    """Of the cluster's metadata, when it was looked up."""
    timestamp: Int64 = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupRegularExpressionKey(CoordinatorKey):
    """Name a regular expression of a group."""

    record_type: ClassVar[int] = 16
    value_class: ClassVar[type[CoordinatorValue]] = ConsumerGroupRegularExpressionValue

    group_id: str = ""
    regular_expression: str = ""
