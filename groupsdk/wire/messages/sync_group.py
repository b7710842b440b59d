"""The SyncGroup API: distribute the leader's assignments."""

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


API = Api(ApiKey.SYNC_GROUP, 0, 5, first_flexible=4)


@dataclass(frozen=True, slots=True)
class SyncGroupResponse(Response):
    """The member's assignment."""

    api: ClassVar[Api] = API

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

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = SyncGroupResponse

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None
    protocol_type: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    protocol_name: Annotated[str | None, since(5), nullable(5), IGNORABLE] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()
