"""Messages that describe a cluster: DescribeCluster, DescribeTopicPartitions, DescribeLogDirs."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    NOT_ASKED,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


DESCRIBE_CLUSTER = Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, first_flexible=0)


@dataclass(frozen=True, slots=True)
class DescribeClusterBroker(Struct):
    """The address of a broker."""

    broker_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, nullable()] = None
    is_fenced: Annotated[bool, since(2)] = False


@dataclass(frozen=True, slots=True)
class DescribeClusterResponse(Response):
    """The cluster's id, controller and brokers.

    `endpoint_type` is 1 for brokers, 2 for controllers (KIP-919).
    """

    api: ClassVar[Api] = DESCRIBE_CLUSTER

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    endpoint_type: Annotated[Int8, since(1)] = 1
    cluster_id: str = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = NOT_ASKED


@dataclass(frozen=True, slots=True)
class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """List the brokers or, with `endpoint_type` 2, the controllers (KIP-919)."""

    api: ClassVar[Api] = DESCRIBE_CLUSTER
    response_class: ClassVar[type[Response]] = DescribeClusterResponse

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[Int8, since(1)] = 1
    include_fenced_brokers: Annotated[bool, since(2)] = False


DESCRIBE_TOPIC_PARTITIONS = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsResponsePartition(Struct):
    """One partition, with its leader and replicas.

    `eligible_leader_replicas` and `last_known_elr` are None where the cluster does not keep them (KIP-966).
    """

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, IGNORABLE] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: Annotated[tuple[Int32, ...] | None, nullable()] = None
    last_known_elr: Annotated[tuple[Int32, ...] | None, nullable()] = None
    offline_replicas: Annotated[tuple[Int32, ...], IGNORABLE] = ()


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsResponseTopic(Struct):
    """One topic, or the part of it that fits the page."""

    error_code: Int16 = 0
    name: Annotated[str | None, nullable()] = ""
    topic_id: Annotated[UUID, IGNORABLE] = NO_UUID
    is_internal: Annotated[bool, IGNORABLE] = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Cursor(Struct):
    """The topic and partition that a page starts with."""

    topic_name: str = ""
    partition_index: Int32 = 0


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsResponse(Response):
    """A page of topics; `next_cursor` is the start of the next one, None after the last."""

    api: ClassVar[Api] = DESCRIBE_TOPIC_PARTITIONS

    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Annotated[Cursor | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class TopicRequest(Struct):
    """One topic."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """Describe topics, () for all, with a limit on the partitions of one page.

    At most `response_partition_limit` partitions are returned, from `cursor` on; None for the first request.
    """

    api: ClassVar[Api] = DESCRIBE_TOPIC_PARTITIONS
    response_class: ClassVar[type[Response]] = DescribeTopicPartitionsResponse

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: Annotated[Cursor | None, nullable()] = None


DESCRIBE_LOG_DIRS = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DescribeLogDirsPartition(Struct):
    """The size of one replica and how far it lags behind.

    `partition_size` is in bytes. `offset_lag` is how many records a replica that is being moved is behind; `is_future_key`
    marks the copy in the directory that the replica is moving to.
    """

    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


@dataclass(frozen=True, slots=True)
class DescribeLogDirsTopic(Struct):
    """The replicas of one topic."""

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResult(Struct):
    """One data directory; -1 for sizes that are not known.

    `total_bytes` and `usable_bytes` are those of the volume, -1 if unknown (KIP-827). `is_cordoned`: the directory gets no
    new replicas (KIP-1066).
    """

    error_code: Int16 = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, since(4), IGNORABLE] = -1
    usable_bytes: Annotated[Int64, since(4), IGNORABLE] = -1
    is_cordoned: Annotated[bool, since(5), IGNORABLE] = False


@dataclass(frozen=True, slots=True)
class DescribeLogDirsResponse(Response):
    """The data directories of the broker."""

    api: ClassVar[Api] = DESCRIBE_LOG_DIRS

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(3), IGNORABLE] = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """List the replicas of some topics in the data directories; `topics` None for all."""

    api: ClassVar[Api] = DESCRIBE_LOG_DIRS
    response_class: ClassVar[type[Response]] = DescribeLogDirsResponse

    topics: Annotated[tuple[DescribableLogDirTopic, ...] | None, nullable()] = ()
