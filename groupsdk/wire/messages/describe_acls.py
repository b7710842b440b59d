"""The DescribeAcls API: look up ACLs."""

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


API = Api(ApiKey.DESCRIBE_ACLS, 1, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class AclDescription(Struct):
    """One ACL of a resource: principal, host, operation, and allowed or denied."""

    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True)
class DescribeAclsResource(Struct):
    """The ACLs of one resource."""

    resource_type: Int8 = 0
    resource_name: str = ""
    pattern_type: Int8 = 3
    acls: tuple[AclDescription, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeAclsResponse(Response):
    """The ACLs that match the filter."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    resources: tuple[DescribeAclsResource, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """Look up ACLs; None and the code 1 (ANY) match everything."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeAclsResponse

    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, nullable()] = ""
    pattern_type_filter: Int8 = 3
    principal_filter: Annotated[str | None, nullable()] = ""
    host_filter: Annotated[str | None, nullable()] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
