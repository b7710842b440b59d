"""StreamsGroupDescribe: groups of Kafka Streams applications (KIP-1071)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    NOT_ASKED,
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    UInt16,
    nullable,
)


STREAMS_GROUP_DESCRIBE = Api(ApiKey.STREAMS_GROUP_DESCRIBE, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class KeyValue(Struct):
    """One configuration or tag."""

    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class TopicInfo(Struct):
    """One internal topic; 0 partitions and 0 replicas if the number is not given."""

    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: tuple[KeyValue, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology(Struct):
    """One part of a topology, with the topics that it reads and writes."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology(Struct):
    """The topology of a group; `subtopologies` is None while source topics are missing."""

    epoch: Int32 = 0
    subtopologies: Annotated[tuple[Subtopology, ...] | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class Endpoint(Struct):
    """Where a member serves interactive queries."""

    host: str = ""
    port: UInt16 = 0


@dataclass(frozen=True, slots=True)
class TaskOffset(Struct):
    """The changelog offset of one task."""

    subtopology_id: str = ""
    partition: Int32 = 0
    offset: Int64 = 0


@dataclass(frozen=True, slots=True)
class TaskIds(Struct):
    """The tasks of one subtopology."""

    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment(Struct):
    """The tasks of one member."""

    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


@dataclass(frozen=True, slots=True)
class Member(Struct):
    """One member, with its current and its target assignment."""

    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: Annotated[str | None, nullable()] = None
    rack_id: Annotated[str | None, nullable()] = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Annotated[Endpoint | None, nullable()] = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: bool = False


@dataclass(frozen=True, slots=True)
class DescribedGroup(Struct):
    """One group, with its members; `topology` is None if it could not be described."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Annotated[Topology | None, nullable()] = None
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = NOT_ASKED


@dataclass(frozen=True, slots=True)
class StreamsGroupDescribeResponse(Response):
    """The described groups."""

    api: ClassVar[Api] = STREAMS_GROUP_DESCRIBE

    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamsGroupDescribeRequest(Request[StreamsGroupDescribeResponse]):
    """Describe groups of Kafka Streams applications."""

    api: ClassVar[Api] = STREAMS_GROUP_DESCRIBE
    response_class: ClassVar[type[Response]] = StreamsGroupDescribeResponse

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False
