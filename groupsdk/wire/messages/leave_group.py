"""The LeaveGroup API: leave a group."""

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
    until,
)


API = Api(ApiKey.LEAVE_GROUP, 0, 5, first_flexible=4)


@dataclass(frozen=True, slots=True)
class MemberResponse(Struct):
    """The result for one leaving member."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = ""
    error_code: Annotated[Int16, since(3)] = 0


@dataclass(frozen=True, slots=True)
class LeaveGroupResponse(Response):
    """The result; from version 3 on for each member."""

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = LeaveGroupResponse

    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], since(3)] = ()
