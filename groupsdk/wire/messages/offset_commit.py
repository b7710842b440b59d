"""The OffsetCommit API: commit offsets."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
    until,
)


API = Api(ApiKey.OFFSET_COMMIT, 2, 10, first_flexible=8, last_by_name=9)


@dataclass(frozen=True, slots=True)
class OffsetCommitResponsePartition(Struct):
    """The result of committing the offset of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class OffsetCommitResponseTopic(Struct):
    """The results for one topic: by name up to version 9, by id from version 10 on (KIP-848)."""

    name: Annotated[str, until(9), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(10), IGNORABLE] = NO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetCommitResponse(Response):
    """The results; an error of the group is repeated for every partition."""

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, since(3), IGNORABLE] = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(6), IGNORABLE] = -1
    committed_metadata: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class OffsetCommitRequestTopic(Struct):
    """The offsets of one topic: by name up to version 9, by id from version 10 on."""

    name: Annotated[str, until(9), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(10), IGNORABLE] = NO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Commit offsets for a group.

    `retention_time_ms` is -1 for the broker's offsets.retention.minutes.
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = OffsetCommitResponse

    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, IGNORABLE] = -1
    member_id: Annotated[str, IGNORABLE] = ""
    group_instance_id: Annotated[str | None, since(7), nullable(7)] = None
    retention_time_ms: Annotated[Int64, until(4), IGNORABLE] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()
