"""The Fetch API: read records of partitions."""

from dataclasses import field
from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.limits import MAX_INT32
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    between,
    nullable,
    since,
    tagged,
    until,
)


API = Api(ApiKey.FETCH, 4, 18, first_flexible=12)


@dataclass(frozen=True, slots=True)
class EpochEndOffset(Struct):
    """The offset at which a follower's log diverges from the leader's (KIP-595)."""

    epoch: Annotated[Int32, since(12)] = -1
    end_offset: Annotated[Int64, since(12)] = -1


@dataclass(frozen=True, slots=True)
class LeaderIdAndEpoch(Struct):
    """The current leader, for a reader that asked another broker (KIP-951)."""

    leader_id: Annotated[Int32, since(12)] = -1
    leader_epoch: Annotated[Int32, since(12)] = -1


@dataclass(frozen=True, slots=True)
class SnapshotId(Struct):
    """The snapshot to read if the log no longer has the offset (KIP-630)."""

    end_offset: Int64 = -1
    epoch: Int32 = -1


@dataclass(frozen=True, slots=True)
class AbortedTransaction(Struct):
    """An aborted transaction: its producer and first offset."""

    producer_id: Int64 = 0
    first_offset: Int64 = 0


@dataclass(frozen=True, slots=True)
class PartitionData(Struct):
    """The data of one partition, as the bytes of whole record batches.

    The first batch may begin before the offset asked for, and the last one may be cut off.
    `aborted_transactions` is None for a reader that asked for uncommitted records, too.
    `preferred_read_replica` is the broker in the reader's rack to read from instead, -1 for none (KIP-392).
    `diverging_epoch` and `snapshot_id` are for followers; `current_leader` comes with NOT_LEADER_OR_FOLLOWER.
    """

    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Annotated[Int64, IGNORABLE] = -1
    log_start_offset: Annotated[Int64, since(5), IGNORABLE] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tagged(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tagged(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tagged(2)] = SnapshotId()
    aborted_transactions: Annotated[
        tuple[AbortedTransaction, ...] | None, nullable(), IGNORABLE
    ] = ()
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Annotated[bytes | None, nullable()] = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FetchableTopicResponse(Struct):
    """The fetched data of one topic: by name up to version 12, by id from version 13 on."""

    topic: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(13), IGNORABLE] = NO_UUID
    partitions: tuple[PartitionData, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeEndpoint(Struct):
    """The address of a broker that `current_leader` names."""

    node_id: Annotated[Int32, since(16)] = 0
    host: Annotated[str, since(16)] = ""
    port: Annotated[Int32, since(16)] = 0
    rack: Annotated[str | None, since(16), nullable(16)] = None


@dataclass(frozen=True, slots=True)
class FetchResponse(Response):
    """The fetched data; in a fetch session, only of partitions with changes (KIP-227).

    `session_id` is that of the fetch session, 0 for none. `node_endpoints` has the addresses of the brokers that
    `current_leader` names.
    """

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    error_code: Annotated[Int16, since(7), IGNORABLE] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(16), tagged(0)] = ()


@dataclass(frozen=True, slots=True)
class ReplicaState(Struct):
    """The follower that reads; consumers leave it at its default (KIP-903)."""

    replica_id: Annotated[Int32, since(15)] = -1
    replica_epoch: Annotated[Int64, since(15)] = -1


@dataclass(frozen=True, slots=True)
class FetchPartition(Struct):
    """One partition to read, from an offset on."""

    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, since(9), IGNORABLE] = -1
    fetch_offset: Int64 = 0
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5), IGNORABLE] = -1
    partition_max_bytes: Int32 = 0
    replica_directory_id: Annotated[UUID, since(17), IGNORABLE, tagged(0)] = NO_UUID
    high_watermark: Annotated[Int64, since(18), IGNORABLE, tagged(1)] = 0x7FFF_FFFF_FFFF_FFFF


@dataclass(frozen=True, slots=True)
class FetchTopic(Struct):
    """The requested partitions of one topic: by name up to version 12, by id from version 13 on."""

    topic: Annotated[str, until(12), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(13), IGNORABLE] = NO_UUID
    partitions: tuple[FetchPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session."""

    topic: Annotated[str, between(7, 12), IGNORABLE] = ""
    topic_id: Annotated[UUID, since(13), IGNORABLE] = NO_UUID
    partitions: Annotated[tuple[Int32, ...], since(7)] = ()


@dataclass(frozen=True, slots=True)
class FetchRequest(Request[FetchResponse]):
    """Read records of partitions.

    The broker waits up to `max_wait_ms` for `min_bytes` of them. `isolation_level` is 0 for all records and
    1 for committed ones only. A `session_epoch` of -1 means no session, 0 asks for a new one (KIP-227).
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = FetchResponse

    cluster_id: Annotated[str | None, since(12), nullable(12), IGNORABLE, tagged(0)] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tagged(1)] = ReplicaState()
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Annotated[Int32, IGNORABLE] = MAX_INT32
    isolation_level: Annotated[Int8, IGNORABLE] = 0
    session_id: Annotated[Int32, since(7), IGNORABLE] = 0
    session_epoch: Annotated[Int32, since(7), IGNORABLE] = -1
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], since(7)] = ()
    rack_id: Annotated[str, since(11), IGNORABLE] = ""
