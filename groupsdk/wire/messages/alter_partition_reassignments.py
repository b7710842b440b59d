"""The AlterPartitionReassignments API: change the replicas of partitions (KIP-455, KIP-860)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


API = Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ReassignablePartitionResponse(Struct):
    """The result for one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class ReassignableTopicResponse(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResponse(Response):
    """The results, partition by partition."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[bool, since(1), IGNORABLE] = True
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class ReassignablePartition(Struct):
    """The new replicas of one partition; None cancels a reassignment in progress."""

    partition_index: Int32 = 0
    replicas: Annotated[tuple[Int32, ...] | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class ReassignableTopic(Struct):
    """The partitions of a topic."""

    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Change the replicas of partitions."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = AlterPartitionReassignmentsResponse

    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: tuple[ReassignableTopic, ...] = ()
