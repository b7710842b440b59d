"""Messages about the offsets of logs: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

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


LIST_OFFSETS = Api(ApiKey.LIST_OFFSETS, 1, 11, first_flexible=6)


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

    api: ClassVar[Api] = LIST_OFFSETS

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

    api: ClassVar[Api] = LIST_OFFSETS
    response_class: ClassVar[type[Response]] = ListOffsetsResponse

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, since(10), IGNORABLE] = 0


OFFSET_FOR_LEADER_EPOCH = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, first_flexible=4)


@dataclass(frozen=True, slots=True)
class EpochEndOffset(Struct):
    """The largest epoch up to the requested one, and its end offset; -1 for none."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, IGNORABLE] = -1
    end_offset: Int64 = -1


@dataclass(frozen=True, slots=True)
class OffsetForLeaderTopicResult(Struct):
    """The results for one topic."""

    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochResponse(Response):
    """The end offsets of the epochs."""

    api: ClassVar[Api] = OFFSET_FOR_LEADER_EPOCH

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetForLeaderPartition(Struct):
    """One partition, with the leader epoch whose end is requested."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, IGNORABLE] = -1
    leader_epoch: Int32 = 0


@dataclass(frozen=True, slots=True)
class OffsetForLeaderTopic(Struct):
    """The requested partitions of one topic."""

    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """Find the end offsets of leader epochs, to detect a truncated log (KIP-320)."""

    api: ClassVar[Api] = OFFSET_FOR_LEADER_EPOCH
    response_class: ClassVar[type[Response]] = OffsetForLeaderEpochResponse

    replica_id: Annotated[Int32, since(3), IGNORABLE] = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()


DELETE_RECORDS = Api(ApiKey.DELETE_RECORDS, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartitionResult(Struct):
    """The new start offset of one partition; -1 on failure.

    `low_watermark` is the first offset that is left, -1 on an error.
    """

    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class DeleteRecordsTopicResult(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRecordsResponse(Response):
    """The results, partition by partition."""

    api: ClassVar[Api] = DELETE_RECORDS

    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRecordsPartition(Struct):
    """The offset before which the records of one partition are deleted; -1: the high watermark."""

    partition_index: Int32 = 0
    offset: Int64 = 0


@dataclass(frozen=True, slots=True)
class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """Delete the records before given offsets."""

    api: ClassVar[Api] = DELETE_RECORDS
    response_class: ClassVar[type[Response]] = DeleteRecordsResponse

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0
