"""The Heartbeat API: keep a group membership alive."""

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
    nullable,
    since,
)


API = Api(ApiKey.HEARTBEAT, 0, 4, first_flexible=4)


@dataclass(frozen=True, slots=True)
class HeartbeatResponse(Response):
    """The result: whether the member is still in its generation."""

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class HeartbeatRequest(Request[HeartbeatResponse]):
    """Keep the membership alive."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = HeartbeatResponse

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3)] = None
