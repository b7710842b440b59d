"""Messages of classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    NOT_ASKED,
    Api,
    ApiKey,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
    until,
)


JOIN_GROUP = Api(ApiKey.JOIN_GROUP, 0, 9, first_flexible=6)


@dataclass(frozen=True, slots=True)
class JoinGroupResponseMember(Struct):
    """One member, as the leader sees it."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class JoinGroupResponse(Response):
    """The new generation; for the leader, with all members.

    Where the broker has no protocol name, it sends "" up to version 6 and null from version 7 on.
    With `skip_assignment` the leader does not assign, as the group keeps its assignment (KIP-814).
    """

    api: ClassVar[Api] = JOIN_GROUP

    throttle_time_ms: Annotated[Int32, since(2), IGNORABLE] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, since(7), nullable(7), IGNORABLE] = None
    protocol_name: Annotated[str | None, nullable(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinGroupRequestProtocol(Struct):
    """One supported protocol, with the member's metadata for the leader."""

    name: str = ""
    metadata: bytes = b""


@dataclass(frozen=True, slots=True)
class JoinGroupRequest(Request[JoinGroupResponse]):
    """Join a group, or rejoin it in a rebalance."""

    api: ClassVar[Api] = JOIN_GROUP
    response_class: ClassVar[type[Response]] = JoinGroupResponse

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, since(1), IGNORABLE] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5), nullable(5)] = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, since(8), nullable(8), IGNORABLE] = None


SYNC_GROUP = Api(ApiKey.SYNC_GROUP, 0, 5, first_flexible=4)


@dataclass(frozen=True, slots=True)
class SyncGroupResponse(Response):
    """The member's assignment."""

    api: ClassVar[Api] = SYNC_GROUP

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class SyncGroupRequestAssignment(Struct):
    """The assignment of one member."""

    member_id: str = ""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class SyncGroupRequest(Request[SyncGroupResponse]):
    """Get the assignment; the leader sends all of them."""

    api: ClassVar[Api] = SYNC_GROUP
    response_class: ClassVar[type[Response]] = SyncGroupResponse

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None
    protocol_type: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


HEARTBEAT = Api(ApiKey.HEARTBEAT, 0, 4, first_flexible=4)


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(Response):
    """The result: whether the member is still in its generation."""

    api: ClassVar[Api] = HEARTBEAT

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class HeartbeatRequest(Request[HeartbeatResponse]):
    """Keep the membership alive."""

    api: ClassVar[Api] = HEARTBEAT
    response_class: ClassVar[type[Response]] = HeartbeatResponse

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None


LEAVE_GROUP = Api(ApiKey.LEAVE_GROUP, 0, 5, first_flexible=4)


@dataclass(frozen=True, slots=True)
class MemberResponse(Struct):
    """The result for one leaving member."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = ""
    error_code: Annotated[Int16, since(3)] = 0


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse(Response):
    """The result; from version 3 on for each member."""

    api: ClassVar[Api] = LEAVE_GROUP

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], since(3)] = ()


@dataclass(frozen=True, slots=True)
class MemberIdentity(Struct):
    """One leaving member."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None
    reason: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None


@dataclass(frozen=True, slots=True)
class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """Leave a group: `member_id` up to version 2, `members` from version 3 on (KIP-345)."""

    api: ClassVar[Api] = LEAVE_GROUP
    response_class: ClassVar[type[Response]] = LeaveGroupResponse

    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], since(3)] = ()


DESCRIBE_GROUPS = Api(ApiKey.DESCRIBE_GROUPS, 0, 6, first_flexible=5)


@dataclass(frozen=True, slots=True)
class DescribedGroupMember(Struct):
    """One member of a group."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(4), nullable(4), IGNORABLE] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class DescribedGroup(Struct):
    """One group, with its members."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, since(6), nullable(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, since(3)] = NOT_ASKED


@dataclass(frozen=True, slots=True)
class DescribeGroupsResponse(Response):
    """The described groups."""

    api: ClassVar[Api] = DESCRIBE_GROUPS

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Describe groups."""

    api: ClassVar[Api] = DESCRIBE_GROUPS
    response_class: ClassVar[type[Response]] = DescribeGroupsResponse

    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, since(3)] = False
