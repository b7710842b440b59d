"""The DescribeTopicPartitions API: describe topics in pages (KIP-966)."""

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
    Request,
    Response,
    Struct,
    nullable,
)


NOT_ASKED = -0x80000000
"""What stands for authorized operations that were not asked for."""

API = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, first_flexible=0)


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

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeTopicPartitionsResponse

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: Annotated[Cursor | None, nullable()] = None
