"""Declare streams groups (KIP-1071) in `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue
from groupsdk.wire.messages.streams_groups import Endpoint, KeyValue, TaskIds, TopicInfo
from groupsdk.wire.schema import Int8, Int16, Int32, Int64, Struct, nullable, tagged


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataValue(CoordinatorValue):
    """The epoch of a streams group; the tagged fields are there from Kafka 4.2 on."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, tagged(0)] = -1
    last_assignment_configs: Annotated[tuple[KeyValue, ...], tagged(1)] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupMetadataKey(CoordinatorKey):
    """Name a streams group."""

    record_type: ClassVar[int] = 17
    value_class: ClassVar[type[CoordinatorValue]] = StreamsGroupMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataValue(CoordinatorValue):
    """A member of a streams group, as it describes itself."""

    instance_id: Annotated[str | None, nullable()] = ""
    rack_id: Annotated[str | None, nullable()] = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Annotated[Endpoint | None, nullable()] = None
    client_tags: tuple[KeyValue, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupMemberMetadataKey(CoordinatorKey):
    """Name a member of a streams group."""

    record_type: ClassVar[int] = 19
    value_class: ClassVar[type[CoordinatorValue]] = StreamsGroupMemberMetadataValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataValue(CoordinatorValue):
    """The epoch of a streams group's target assignment."""

    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0
    """From Kafka 4.3 on."""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMetadataKey(CoordinatorKey):
    """Name a streams group with a target assignment."""

    record_type: ClassVar[int] = 20
    value_class: ClassVar[type[CoordinatorValue]] = StreamsGroupTargetAssignmentMetadataValue

    group_id: str = ""


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberValue(CoordinatorValue):
    """The tasks that a member of a streams group is to be assigned."""

    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupTargetAssignmentMemberKey(CoordinatorKey):
    """Name a member of a streams group with a target assignment."""

    record_type: ClassVar[int] = 21
    value_class: ClassVar[type[CoordinatorValue]] = StreamsGroupTargetAssignmentMemberValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class CurrentTaskIds(Struct):
    """Name tasks of one subtopology that a member has."""

    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, nullable(), tagged(0)] = ()
    """In which epoch it was assigned each of them, from Kafka 4.2 on."""


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentValue(CoordinatorValue):
    """The tasks that a member of a streams group is assigned, or has to give up."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: tuple[CurrentTaskIds, ...] = ()
    standby_tasks: tuple[CurrentTaskIds, ...] = ()
    warmup_tasks: tuple[CurrentTaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupCurrentMemberAssignmentKey(CoordinatorKey):
    """Name a member of a streams group with an assignment."""

    record_type: ClassVar[int] = 22
    value_class: ClassVar[type[CoordinatorValue]] = StreamsGroupCurrentMemberAssignmentValue

    group_id: str = ""
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class CopartitionGroup(Struct):
    """Name topics that need equally many partitions, by their position in the subtopology."""

    source_topics: tuple[Int16, ...] = ()
    source_topic_regex: tuple[Int16, ...] = ()
    repartition_source_topics: tuple[Int16, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology(Struct):
    """Describe one part of a topology."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyValue(CoordinatorValue):
    """The topology of a streams group."""

    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupTopologyKey(CoordinatorKey):
    """Name a streams group with a topology."""

    record_type: ClassVar[int] = 23
    value_class: ClassVar[type[CoordinatorValue]] = StreamsGroupTopologyValue

    group_id: str = ""
