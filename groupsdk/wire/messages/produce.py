"""The Produce API: append records to partitions."""

from dataclasses import field
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
    tagged,
    until,
)


API = Api(ApiKey.PRODUCE, 3, 13, first_flexible=9)


@dataclass(frozen=True, slots=True)
class BatchIndexAndErrorMessage(Struct):
    """One record because of which its batch was rejected.

    `batch_index` is the index of the record in its batch, from 0.
    """

    batch_index: Annotated[Int32, since(8)] = 0
    batch_index_error_message: Annotated[str | None, since(8), nullable(8)] = None


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch(Struct):
    """The current leader, for a producer that asked another broker (KIP-951)."""

    leader_id: Annotated[Int32, since(10)] = -1
    leader_epoch: Annotated[Int32, since(10)] = -1


@dataclass(frozen=True, slots=True)
class PartitionProduceResponse(Struct):
    """The offset of the records of one partition, or the error.

    `log_append_time_ms` is -1 where the topic keeps the producer's timestamps.
    `base_offset` is the offset of the first record, -1 on an error. `current_leader` comes with NOT_LEADER_OR_FOLLOWER
    (KIP-951).
    """

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Annotated[Int64, IGNORABLE] = -1
    log_start_offset: Annotated[Int64, since(5), IGNORABLE] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], since(8), IGNORABLE] = ()
    error_message: Annotated[str | None, since(8), nullable(8), IGNORABLE] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tagged(0)] = LeaderIdAndEpoch()


@dataclass(frozen=True, slots=True)
class TopicProduceResponse(Struct):
    """The results for one topic: by name up to version 12, by id from version 13 on."""

    name: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(13), IGNORABLE] = NO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeEndpoint(Struct):
    """The address of a broker that `current_leader` names."""

    node_id: Annotated[Int32, since(10)] = 0
    host: Annotated[str, since(10)] = ""
    port: Annotated[Int32, since(10)] = 0
    rack: Annotated[str | None, since(10), nullable(10)] = None


@dataclass(frozen=True, slots=True)
class ProduceResponse(Response):
    """The results; not sent if `acks` is 0."""

    api: ClassVar[Api] = API

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(10), tagged(0)] = ()


@dataclass(frozen=True, slots=True)
class PartitionProduceData(Struct):
    """The record batch of one partition, as its bytes."""

    index: Int32 = 0
    records: Annotated[bytes | None, nullable()] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TopicProduceData(Struct):
    """The records of one topic: by name up to version 12, by id from version 13 on."""

    name: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(13), IGNORABLE] = NO_UUID
    partition_data: tuple[PartitionProduceData, ...] = ()


@dataclass(frozen=True, slots=True)
class ProduceRequest(Request[ProduceResponse]):
    """Append records to partitions.

    `acks` is 0 for no answer, 1 for the leader's word and -1 for that of all replicas in sync.
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ProduceResponse

    transactional_id: Annotated[str | None, nullable()] = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: tuple[TopicProduceData, ...] = ()
