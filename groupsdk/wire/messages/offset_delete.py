"""The OffsetDelete API: delete committed offsets (KIP-496)."""

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
)


API = Api(ApiKey.OFFSET_DELETE, 0, 0)


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponsePartition(Struct):
    """The result of deleting the offset of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponseTopic(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse(Response):
    """The results, partition by partition."""

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: Int32 = 0


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """Delete a group's offsets of topics that no member subscribes to."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = OffsetDeleteResponse

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()
