"""The DescribeQuorum API: describe the metadata quorum of a cluster (KIP-595, KIP-836, KIP-853)."""

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
    UInt16,
    nullable,
    since,
)


API = Api(ApiKey.DESCRIBE_QUORUM, 0, 2, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ReplicaState(Struct):
    """The log end of a voter or observer; times in ms since 1970, -1 if not known.

    Timestamps are in milliseconds since 1970, -1 if unknown.
    """

    replica_id: Int32 = 0
    replica_directory_id: Annotated[UUID, since(2)] = NO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, since(1), IGNORABLE] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1), IGNORABLE] = -1


@dataclass(frozen=True, slots=True)
class DescribeQuorumPartitionResponse(Struct):
    """The quorum of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, since(2), nullable(2), IGNORABLE] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumTopicResponse(Struct):
    """The partitions of a topic."""

    topic_name: str = ""
    partitions: tuple[DescribeQuorumPartitionResponse, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumListener(Struct):
    """One listener of a node."""

    name: str = ""
    host: str = ""
    port: UInt16 = 0


@dataclass(frozen=True, slots=True)
class DescribeQuorumNode(Struct):
    """The listeners of a node."""

    node_id: Int32 = 0
    listeners: tuple[DescribeQuorumListener, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse(Response):
    """The quorums, with the nodes' listeners."""

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    error_message: Annotated[str | None, since(2), nullable(2), IGNORABLE] = ""
    topics: tuple[DescribeQuorumTopicResponse, ...] = ()
    nodes: Annotated[tuple[DescribeQuorumNode, ...], since(2)] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumPartition(Struct):
    """One partition."""

    partition_index: Int32 = 0


@dataclass(frozen=True, slots=True)
class DescribeQuorumTopic(Struct):
    """The partitions of a topic."""

    topic_name: str = ""
    partitions: tuple[DescribeQuorumPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Describe the quorum of partitions; only `__cluster_metadata` has one."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeQuorumResponse

    topics: tuple[DescribeQuorumTopic, ...] = ()
