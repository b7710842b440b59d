"""The DeleteRecords API: delete the oldest records of partitions."""

from typing import ClassVar

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
)


API = Api(ApiKey.DELETE_RECORDS, 0, 2, first_flexible=2)


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

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DeleteRecordsResponse

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: Int32 = 0
