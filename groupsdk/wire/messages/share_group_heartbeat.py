"""The ShareGroupHeartbeat API: join, stay in or leave a share group (KIP-932)."""

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
)


API = Api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1, first_flexible=0)


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
class ShareGroupHeartbeatResponse(Response):
    """The member's epoch, and its assignment if that changed (else None)."""

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ShareGroupHeartbeatResponse

    group_id: str = ""
    member_id: str = ""
    member_epoch: Int32 = 0
    rack_id: Annotated[str | None, nullable()] = None
    subscribed_topic_names: Annotated[tuple[str, ...] | None, nullable()] = None
