"""The CreatePartitions API: add partitions to topics."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


API = Api(ApiKey.CREATE_PARTITIONS, 0, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse(Response):
    """The results of the change, topic by topic."""

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = CreatePartitionsResponse

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: Int32 = 0
    validate_only: bool = False
