"""The DescribeProducers API: list the producers of partitions (KIP-664)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
)


API = Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ProducerState(Struct):
    """One producer; -1 for values that it does not have.

    The epoch has 32 bits here, unlike everywhere else.
    `last_sequence` is -1 if there is none. `last_timestamp` is in milliseconds since 1970. `current_txn_start_offset` is the
    offset at which the open transaction begins, -1 for none.
    """

    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


@dataclass(frozen=True, slots=True)
class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    active_producers: tuple[ProducerState, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicResponse(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersResponse(Response):
    """The active producers of partitions."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicRequest(Struct):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """List the producers of partitions."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeProducersResponse

    topics: tuple[TopicRequest, ...] = ()
