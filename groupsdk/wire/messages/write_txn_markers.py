"""The WriteTxnMarkers API: end a transaction in the partitions it wrote to."""

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


API = Api(ApiKey.WRITE_TXN_MARKERS, 1, 2, first_flexible=1)


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerPartitionResult(Struct):
    """The result of writing the marker to one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerTopicResult(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerResult(Struct):
    """The results for one producer."""

    producer_id: Int64 = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersResponse(Response):
    """The results, producer by producer."""

    api: ClassVar[Api] = API

    markers: tuple[WritableTxnMarkerResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: str = ""
    partition_indexes: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class WritableTxnMarker(Struct):
    """The marker of one producer; `transaction_result` is true for a commit.

    `transaction_version` is 2 if the producer epoch was bumped for this marker (KIP-890), otherwise 0 or 1.
    """

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, since(2), IGNORABLE] = 0


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """Write the markers that end transactions; sent by transaction coordinators only."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = WriteTxnMarkersResponse

    markers: tuple[WritableTxnMarker, ...] = ()
