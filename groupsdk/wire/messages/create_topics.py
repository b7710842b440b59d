"""The CreateTopics API: create topics."""

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
)


API = Api(ApiKey.CREATE_TOPICS, 2, 7, first_flexible=5)


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

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = CreateTopicsResponse

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: bool = False
