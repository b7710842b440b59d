"""The TxnOffsetCommit API: commit offsets within a transaction."""

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


API = Api(ApiKey.TXN_OFFSET_COMMIT, 0, 6, first_flexible=3, last_by_name=5)


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponsePartition(Struct):
    """The result of committing the offset of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponseTopic(Struct):
    """The results for one topic: by name up to version 5, by id from version 6 on."""

    name: Annotated[str, until(5), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(6), IGNORABLE] = NO_UUID
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitResponse(Response):
    """The results; an error of the group is repeated for every partition."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, since(2), IGNORABLE] = -1
    committed_metadata: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequestTopic(Struct):
    """The offsets of one topic: by name up to version 5, by id from version 6 on."""

    name: Annotated[str, until(5), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(6), IGNORABLE] = NO_UUID
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """Commit offsets that take effect when the transaction commits.

    The member's identity lets a group refuse one that it no longer has (KIP-447).
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = TxnOffsetCommitResponse

    transactional_id: str = ""
    group_id: str = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id_or_member_epoch: Annotated[Int32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()
