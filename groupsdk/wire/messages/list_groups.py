"""The ListGroups API: list the groups of a broker."""

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
    since,
)


API = Api(ApiKey.LIST_GROUPS, 0, 5, first_flexible=3)


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

    api: ClassVar[Api] = API

    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class ListGroupsRequest(Request[ListGroupsResponse]):
    """List the groups of a broker; an empty filter matches all."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ListGroupsResponse

    states_filter: Annotated[tuple[str, ...], since(4)] = ()
    types_filter: Annotated[tuple[str, ...], since(5)] = ()
