"""Heartbeats of consumer groups (KIP-848) and share groups (KIP-932)."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    NO_UUID,
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


CONSUMER_GROUP_HEARTBEAT = Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = NO_UUID
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment(Struct):
    """The partitions of a member."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatResponse(Response):
    """The member's epoch, and its assignment if that changed (else None)."""

    api: ClassVar[Api] = CONSUMER_GROUP_HEARTBEAT

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    member_id: Annotated[str | None, nullable()] = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[Assignment | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    """Join, stay in or leave a group.

    `member_epoch` is 0 to join, -1 to leave and -2 to leave for a while as a static member. What did not
    change since the last heartbeat is None, and a `rebalance_timeout_ms` of -1.
    `subscribed_topic_regex` is in RE2's syntax. `server_assignor` names one of the broker's group.consumer.assignors.
    `topic_partitions` are the owned ones. None means unchanged since the last heartbeat.
    """

    api: ClassVar[Api] = CONSUMER_GROUP_HEARTBEAT
    response_class: ClassVar[type[Response]] = ConsumerGroupHeartbeatResponse

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    instance_id: Annotated[str | None, nullable()] = None
    rack_id: Annotated[str | None, nullable()] = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Annotated[tuple[str, ...] | None, nullable()] = None
    subscribed_topic_regex: Annotated[str | None, since(1), nullable(1)] = None
    server_assignor: Annotated[str | None, nullable()] = None
    topic_partitions: Annotated[tuple[TopicPartitions, ...] | None, nullable()] = None


SHARE_GROUP_HEARTBEAT = Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ShareGroupHeartbeatResponse(Response):
    """The member's epoch, and its assignment if that changed (else None)."""

    api: ClassVar[Api] = SHARE_GROUP_HEARTBEAT

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    member_id: Annotated[str | None, nullable()] = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Annotated[Assignment | None, nullable()] = None


@dataclass(frozen=True, slots=True)
class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    """Join, stay in or leave a share group, with a `member_epoch` of 0 and -1 as in ConsumerGroupHeartbeat."""

    api: ClassVar[Api] = SHARE_GROUP_HEARTBEAT
    response_class: ClassVar[type[Response]] = ShareGroupHeartbeatResponse

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: Annotated[str | None, nullable()] = None
    subscribed_topic_names: Annotated[tuple[str, ...] | None, nullable()] = None
