"""Messages about the offsets of groups: OffsetCommit, OffsetFetch."""

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
    between,
    nullable,
    since,
    until,
)


OFFSET_COMMIT = Api(ApiKey.OFFSET_COMMIT, 2, 10, first_flexible=8, last_by_name=9)


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

    api: ClassVar[Api] = OFFSET_COMMIT

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

    api: ClassVar[Api] = OFFSET_COMMIT
    response_class: ClassVar[type[Response]] = OffsetCommitResponse

    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, IGNORABLE] = -1
    member_id: Annotated[str, IGNORABLE] = ""
    group_instance_id: Annotated[str | None, since(7), nullable(7)] = None
    retention_time_ms: Annotated[Int64, until(4), IGNORABLE] = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


OFFSET_FETCH = Api(ApiKey.OFFSET_FETCH, 1, 10, first_flexible=6, last_by_name=9)


@dataclass(frozen=True, slots=True)
class OffsetFetchResponsePartition(Struct):
    """The offset of one partition, up to version 7."""

    partition_index: Annotated[Int32, until(7)] = 0
    committed_offset: Annotated[Int64, until(7)] = 0
    committed_leader_epoch: Annotated[Int32, between(5, 7), IGNORABLE] = -1
    metadata: Annotated[str | None, until(7), nullable()] = ""
    error_code: Annotated[Int16, until(7)] = 0


@dataclass(frozen=True, slots=True)
class OffsetFetchResponseTopic(Struct):
    """The offsets of one topic, up to version 7."""

    name: Annotated[str, until(7)] = ""
    partitions: Annotated[tuple[OffsetFetchResponsePartition, ...], until(7)] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchResponsePartitions(Struct):
    """The offset of one partition, from version 8 on."""

    partition_index: Annotated[Int32, since(8)] = 0
    committed_offset: Annotated[Int64, since(8)] = 0
    committed_leader_epoch: Annotated[Int32, since(8), IGNORABLE] = -1
    metadata: Annotated[str | None, since(8), nullable(8)] = ""
    error_code: Annotated[Int16, since(8)] = 0


@dataclass(frozen=True, slots=True)
class OffsetFetchResponseTopics(Struct):
    """The offsets of one topic, from version 8 on: by id from version 10 on (KIP-848)."""

    name: Annotated[str, between(8, 9), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(10), IGNORABLE] = NO_UUID
    partitions: Annotated[tuple[OffsetFetchResponsePartitions, ...], since(8)] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: Annotated[str, since(8)] = ""
    topics: Annotated[tuple[OffsetFetchResponseTopics, ...], since(8)] = ()
    error_code: Annotated[Int16, since(8)] = 0


@dataclass(frozen=True, slots=True)
class OffsetFetchResponse(Response):
    """The committed offsets; -1 for a partition without one."""

    api: ClassVar[Api] = OFFSET_FETCH

    throttle_time_ms: Annotated[Int32, since(3), IGNORABLE] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], until(7)] = ()
    error_code: Annotated[Int16, between(2, 7), IGNORABLE] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], since(8)] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic, up to version 7."""

    name: Annotated[str, until(7)] = ""
    partition_indexes: Annotated[tuple[Int32, ...], until(7)] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic, from version 8 on: by id from version 10 on."""

    name: Annotated[str, between(8, 9), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(10), IGNORABLE] = NO_UUID
    partition_indexes: Annotated[tuple[Int32, ...], since(8)] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchRequestGroup(Struct):
    """One group, with the topics to look up; `topics` None for all."""

    group_id: Annotated[str, since(8)] = ""
    member_id: Annotated[str | None, since(9), nullable(9), IGNORABLE] = None
    member_epoch: Annotated[Int32, since(9), IGNORABLE] = -1
    topics: Annotated[tuple[OffsetFetchRequestTopics, ...] | None, since(8), nullable(8)] = ()


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """Fetch committed offsets: of one group up to version 7, of several from version 8 on (KIP-709).

    With `require_stable` a partition with offsets in an open transaction has the error UNSTABLE_OFFSET_COMMIT (KIP-447).
    """

    api: ClassVar[Api] = OFFSET_FETCH
    response_class: ClassVar[type[Response]] = OffsetFetchResponse

    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, until(7), nullable(2)] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], since(8)] = ()
    require_stable: Annotated[bool, since(7)] = False
