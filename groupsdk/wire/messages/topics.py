"""Messages that change topics: CreateTopics, DeleteTopics, CreatePartitions."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
    tagged,
    until,
)


CREATE_TOPICS = Api(ApiKey.CREATE_TOPICS, 2, 7, first_flexible=5)


@dataclass(frozen=True, slots=True)
class CreatableTopicConfigs(Struct):
    """One configuration value of a created topic.

    `config_source` is that of `describe_configs.DescribeConfigsResourceResult`. `read_only` values cannot be altered, and
    the `value` of an `is_sensitive` one is None.
    """

    name: Annotated[str, since(5)] = ""
    value: Annotated[str | None, since(5), nullable(5)] = ""
    read_only: Annotated[bool, since(5)] = False
    config_source: Annotated[Int8, since(5), IGNORABLE] = -1
    is_sensitive: Annotated[bool, since(5)] = False


@dataclass(frozen=True, slots=True)
class CreatableTopicResult(Struct):
    """The result for one topic.

    `configs` is None, and the counts are -1, where the client may not read the topic's configuration;
    `topic_config_error_code` then tells why.
    """

    name: str = ""
    topic_id: Annotated[UUID, since(7), IGNORABLE] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable(), IGNORABLE] = ""
    topic_config_error_code: Annotated[Int16, since(5), IGNORABLE, tagged(0)] = 0
    num_partitions: Annotated[Int32, since(5), IGNORABLE] = -1
    replication_factor: Annotated[Int16, since(5), IGNORABLE] = -1
    configs: Annotated[
        tuple[CreatableTopicConfigs, ...] | None, since(5), nullable(5), IGNORABLE
    ] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsResponse(Response):
    """The results, topic by topic."""

    api: ClassVar[Api] = CREATE_TOPICS

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    topics: tuple[CreatableTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatableReplicaAssignment(Struct):
    """The replicas of one partition."""

    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatableTopicConfig(Struct):
    """One configuration value of a topic to create."""

    name: str = ""
    value: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class CreatableTopic(Struct):
    """One topic to create.

    Both counts are -1 for the broker's default, and where `assignments` places the replicas.
    """

    name: str = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Create topics, or with `validate_only` only check the request."""

    api: ClassVar[Api] = CREATE_TOPICS
    response_class: ClassVar[type[Response]] = CreateTopicsResponse

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: bool = False


DELETE_TOPICS = Api(ApiKey.DELETE_TOPICS, 1, 6, first_flexible=4)


@dataclass(frozen=True, slots=True)
class DeletableTopicResult(Struct):
    """The result for one topic; `name` is None for an unknown id."""

    name: Annotated[str | None, nullable(6)] = ""
    topic_id: Annotated[UUID, since(6), IGNORABLE] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse(Response):
    """The results, topic by topic."""

    api: ClassVar[Api] = DELETE_TOPICS

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    responses: tuple[DeletableTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopicState(Struct):
    """One topic to delete, by name or by id."""

    name: Annotated[str | None, since(6), nullable(6)] = None
    topic_id: Annotated[UUID, since(6)] = NO_UUID


@dataclass(frozen=True, slots=True)
class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """Delete topics: `topic_names` up to version 5, `topics` from version 6 on (KIP-516)."""

    api: ClassVar[Api] = DELETE_TOPICS
    response_class: ClassVar[type[Response]] = DeleteTopicsResponse

    topics: Annotated[tuple[DeleteTopicState, ...], since(6)] = ()
    topic_names: Annotated[tuple[str, ...], until(5), IGNORABLE] = ()
    timeout_ms: Int32 = 0


CREATE_PARTITIONS = Api(ApiKey.CREATE_PARTITIONS, 0, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse(Response):
    """The results of the change, topic by topic."""

    api: ClassVar[Api] = CREATE_PARTITIONS

    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsAssignment(Struct):
    """The replicas of one new partition."""

    broker_ids: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsTopic(Struct):
    """One topic, with its new total number of partitions."""

    name: str = ""
    count: Int32 = 0
    assignments: Annotated[tuple[CreatePartitionsAssignment, ...] | None, nullable()] = ()


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """Add partitions to topics, or with `validate_only` only check the request."""

    api: ClassVar[Api] = CREATE_PARTITIONS
    response_class: ClassVar[type[Response]] = CreatePartitionsResponse

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: bool = False
