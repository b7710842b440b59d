"""Messages that administer groups: ListGroups, ConsumerGroupDescribe, ShareGroupDescribe, DeleteGroups, OffsetDelete."""

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
    nullable,
    since,
)


LIST_GROUPS = Api(ApiKey.LIST_GROUPS, 0, 5, first_flexible=3)


@dataclass(frozen=True, slots=True)
class ListedGroup(Struct):
    """One group."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, since(4), IGNORABLE] = ""
    group_type: Annotated[str, since(5), IGNORABLE] = ""


@dataclass(frozen=True, slots=True)
class ListGroupsResponse(Response):
    """The groups that the broker coordinates."""

    api: ClassVar[Api] = LIST_GROUPS

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ListGroupsRequest(Request[ListGroupsResponse]):
    """List the groups of a broker; an empty filter matches all."""

    api: ClassVar[Api] = LIST_GROUPS
    response_class: ClassVar[type[Response]] = ListGroupsResponse

    states_filter: Annotated[tuple[str, ...], since(4)] = ()
    types_filter: Annotated[tuple[str, ...], since(5)] = ()


CONSUMER_GROUP_DESCRIBE = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, first_flexible=0)


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

    api: ClassVar[Api] = CONSUMER_GROUP_DESCRIBE

    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """Describe groups of the consumer protocol."""

    api: ClassVar[Api] = CONSUMER_GROUP_DESCRIBE
    response_class: ClassVar[type[Response]] = ConsumerGroupDescribeResponse

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


SHARE_GROUP_DESCRIBE = Api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1, first_flexible=0)


@dataclass(frozen=True, slots=True)
class ShareMember(Struct):
    """One member of a share group (KIP-932); several members may have the same partition."""

    member_id: str = ""
    rack_id: Annotated[str | None, nullable()] = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    assignment: Assignment = Assignment()


@dataclass(frozen=True, slots=True)
class DescribedShareGroup(Struct):
    """One share group, with its members."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[ShareMember, ...] = ()
    authorized_operations: Int32 = NOT_ASKED


@dataclass(frozen=True, slots=True)
class ShareGroupDescribeResponse(Response):
    """The described groups."""

    api: ClassVar[Api] = SHARE_GROUP_DESCRIBE

    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedShareGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse]):
    """Describe share groups."""

    api: ClassVar[Api] = SHARE_GROUP_DESCRIBE
    response_class: ClassVar[type[Response]] = ShareGroupDescribeResponse

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


DELETE_GROUPS = Api(ApiKey.DELETE_GROUPS, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DeletableGroupResult(Struct):
    """The result of deleting one group."""

    group_id: str = ""
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse(Response):
    """The results, group by group."""

    api: ClassVar[Api] = DELETE_GROUPS

    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """Delete groups that have no members."""

    api: ClassVar[Api] = DELETE_GROUPS
    response_class: ClassVar[type[Response]] = DeleteGroupsResponse

    groups_names: tuple[str, ...] = ()


OFFSET_DELETE = Api(ApiKey.OFFSET_DELETE, 0, 0)


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponsePartition(Struct):
    """The result of deleting the offset of one partition."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponseTopic(Struct):
    """The results for one topic."""

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteResponse(Response):
    """The results, partition by partition."""

    api: ClassVar[Api] = OFFSET_DELETE

    error_code: Int16 = 0
    throttle_time_ms: Annotated[Int32, IGNORABLE] = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: Int32 = 0


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = ""
    partitions: tuple[OffsetDeleteRequestPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """Delete a group's offsets of topics that no member subscribes to."""

    api: ClassVar[Api] = OFFSET_DELETE
    response_class: ClassVar[type[Response]] = OffsetDeleteResponse

    group_id: str = ""
    topics: tuple[OffsetDeleteRequestTopic, ...] = ()
