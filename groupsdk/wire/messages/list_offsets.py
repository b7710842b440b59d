"""The ListOffsets API: look up offsets by time."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    since,
)


API = Api(ApiKey.LIST_OFFSETS, 1, 11, first_flexible=6)


@dataclass(frozen=True, slots=True)
class ListOffsetsPartitionResponse(Struct):
    """The offset of one partition and the timestamp found there; -1 for none."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


@dataclass(frozen=True, slots=True)
class ListOffsetsTopicResponse(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOffsetsResponse(Response):
    """The offsets found."""

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, since(2), IGNORABLE] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOffsetsPartition(Struct):
    """One partition; the offset is the first at or after a timestamp in ms.

    Negative ones have a meaning of their own: -1 the end, -2 the start, -3 the record with the largest
    timestamp (KIP-734), -4 the start on the local disk (KIP-405), -5 the end of what is in remote
    storage (KIP-1005), -6 the first offset that is still to be moved there (KIP-1023).
    """

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(4), IGNORABLE] = -1
    timestamp: Int64 = 0


@dataclass(frozen=True, slots=True)
class ListOffsetsTopic(Struct):
    """The requested partitions of one topic."""

    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """Look up offsets by timestamp.

    `replica_id` is -1 for a consumer. With `isolation_level` 1, the end is the last stable offset.
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ListOffsetsResponse

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, since(10), IGNORABLE] = 0
