"""The JoinGroup API: join a group, or rejoin it in a rebalance."""

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


API = Api(ApiKey.JOIN_GROUP, 0, 9, first_flexible=6)


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

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = JoinGroupResponse

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, since(1), IGNORABLE] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5), nullable(5)] = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, since(8), nullable(8), IGNORABLE] = None
