"""The DeleteGroups API: remove empty groups."""

from typing import ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import Api, ApiKey, Int16, Int32, Request, Response, Struct


API = Api(ApiKey.DELETE_GROUPS, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DeletableGroupResult(Struct):
    """The result of deleting one group."""

    group_id: str = ""
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True)
class DeleteGroupsResponse(Response):
    """The results, group by group."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """Delete groups that have no members."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DeleteGroupsResponse

    groups_names: tuple[str, ...] = ()
