"""The OffsetForLeaderEpoch API: find where a leader epoch ends."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    since,
)


API = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, first_flexible=4)


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

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = OffsetForLeaderEpochResponse

    replica_id: Annotated[Int32, since(3), IGNORABLE] = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()
