"""The ConsumerGroupDescribe API: describe groups of the consumer protocol (KIP-848)."""

from typing import Annotated, ClassVar
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NO_UUID,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


NOT_ASKED = -0x80000000
"""What stands for authorized operations that were not asked for."""

API = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: UUID = NO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment(Struct):
    """The partitions of one member."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class Member(Struct):
    """One member, with its current and its target assignment.

    `member_type` is 0 for the classic protocol, 1 for the consumer protocol and -1 where it is not known.
    """

    member_id: str = ""
    instance_id: Annotated[str | None, nullable()] = None
    rack_id: Annotated[str | None, nullable()] = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: Annotated[str | None, nullable()] = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, since(1), IGNORABLE] = -1


@dataclass(frozen=True, slots=True)
class DescribedGroup(Struct):
    """One group, with its members."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = NOT_ASKED


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeResponse(Response):
    """The described groups."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """Describe groups of the consumer protocol."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ConsumerGroupDescribeResponse

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False
