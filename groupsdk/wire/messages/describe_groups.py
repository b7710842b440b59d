"""The DescribeGroups API: describe groups, with their state and members."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
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


NOT_ASKED = -0x80000000
"""What stands for authorized operations that were not asked for."""

API = Api(ApiKey.DESCRIBE_GROUPS, 0, 6, first_flexible=5)


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

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Describe groups."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeGroupsResponse

    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, since(3)] = False
