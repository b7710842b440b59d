"""The ListPartitionReassignments API: list the reassignments in progress (KIP-455)."""

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


API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class OngoingPartitionReassignment(Struct):
    """The replicas of one partition, with those being added and removed."""

    partition_index: Int32 = 0
    replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class OngoingTopicReassignment(Struct):
    """The partitions of a topic."""

    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsResponse(Response):
    """The reassignments in progress."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """List the reassignments of some partitions; None for all."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ListPartitionReassignmentsResponse

    timeout_ms: Int32 = 60_000
    topics: Annotated[tuple[ListPartitionReassignmentsTopics, ...] | None, nullable()] = None
