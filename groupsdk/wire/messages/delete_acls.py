"""The DeleteAcls API: delete ACLs."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


API = Api(ApiKey.DELETE_ACLS, 1, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DeleteAclsMatchingAcl(Struct):
    """One rule that was removed, or the error."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True)
class DeleteAclsFilterResult(Struct):
    """The ACLs that one filter matched and the broker deleted."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAclsResponse(Response):
    """The results, in the order of the filters."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    filter_results: tuple[DeleteAclsFilterResult, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteAclsFilter(Struct):
    """One filter of the ACLs to delete; None and the code 1 (ANY) match everything."""

    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, nullable()] = ""
    pattern_type_filter: Int8 = 3
    principal_filter: Annotated[str | None, nullable()] = ""
    host_filter: Annotated[str | None, nullable()] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True)
class DeleteAclsRequest(Request[DeleteAclsResponse]):
    """Delete the ACLs that match any of the filters."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DeleteAclsResponse

    filters: tuple[DeleteAclsFilter, ...] = ()
