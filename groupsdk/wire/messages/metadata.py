"""Messages by which clients find brokers: Metadata, FindCoordinator."""

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
    Request,
    Response,
    Struct,
    between,
    nullable,
    since,
    until,
)


METADATA = Api(ApiKey.METADATA, 0, 13, first_flexible=9)


@dataclass(frozen=True, slots=True)
class MetadataResponseBroker(Struct):
    """The address of a broker."""

    node_id: Int32 = 0
    host: str = ""
    port: Int32 = 0
    rack: Annotated[str | None, since(1), nullable(1), IGNORABLE] = None


@dataclass(frozen=True, slots=True)
class MetadataResponsePartition(Struct):
    """One partition, with its leader and replicas."""

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, since(7), IGNORABLE] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], since(5), IGNORABLE] = ()


@dataclass(frozen=True, slots=True)
class MetadataResponseTopic(Struct):
    """One topic, with its partitions."""

    error_code: Int16 = 0
    name: Annotated[str | None, nullable(12)] = ""
    topic_id: Annotated[UUID, since(10), IGNORABLE] = NO_UUID
    is_internal: Annotated[bool, since(1), IGNORABLE] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, since(8)] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class MetadataResponse(Response):
    """The cluster: its brokers, and the requested topics."""

    api: ClassVar[Api] = METADATA

    throttle_time_ms: Annotated[Int32, since(3), IGNORABLE] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, since(2), nullable(2), IGNORABLE] = None
    controller_id: Annotated[Int32, since(1), IGNORABLE] = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = NOT_ASKED
    error_code: Annotated[Int16, since(13), IGNORABLE] = 0


@dataclass(frozen=True, slots=True)
class MetadataRequestTopic(Struct):
    """One topic, by name or, from version 10 on, by id."""

    topic_id: Annotated[UUID, since(10), IGNORABLE] = NO_UUID
    name: Annotated[str | None, nullable(10)] = ""


@dataclass(frozen=True, slots=True)
class MetadataRequest(Request[MetadataResponse]):
    """List brokers and topics.

    `topics` is None for all topics and () for none; version 0 has only () and means all by it.
    `allow_auto_topic_creation` lets the broker create missing topics if auto.create.topics.enable is set.
    """

    api: ClassVar[Api] = METADATA
    response_class: ClassVar[type[Response]] = MetadataResponse

    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, nullable(1)] = ()
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


FIND_COORDINATOR = Api(ApiKey.FIND_COORDINATOR, 0, 6, first_flexible=3)


@dataclass(frozen=True, slots=True)
class Coordinator(Struct):
    """The coordinator of one key, or the error."""

    key: Annotated[str, since(4)] = ""
    node_id: Annotated[Int32, since(4)] = 0
    host: Annotated[str, since(4)] = ""
    port: Annotated[Int32, since(4)] = 0
    error_code: Annotated[Int16, since(4)] = 0
    error_message: Annotated[str | None, since(4), nullable(4), IGNORABLE] = ""


@dataclass(frozen=True, slots=True)
class FindCoordinatorResponse(Response):
    """The coordinators: a single one up to version 3, a list from version 4 on."""

    api: ClassVar[Api] = FIND_COORDINATOR

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Annotated[Int16, until(3)] = 0
    error_message: Annotated[str | None, between(1, 3), nullable(1), IGNORABLE] = ""
    node_id: Annotated[Int32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[Int32, until(3)] = 0
    coordinators: Annotated[tuple[Coordinator, ...], since(4)] = ()


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """Find the coordinator of a group, transactional id or share group.

    `key` up to version 3, `coordinator_keys` from version 4 on (KIP-699).
    `key_type` is 0 for a group, 1 for a transactional id, 2 for a partition of a share group ("group:topic id:partition").
    """

    api: ClassVar[Api] = FIND_COORDINATOR
    response_class: ClassVar[type[Response]] = FindCoordinatorResponse

    key: Annotated[str, until(3)] = ""
    key_type: Annotated[Int8, since(1)] = 0
    coordinator_keys: Annotated[tuple[str, ...], since(4)] = ()
