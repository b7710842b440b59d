"""The CreateAcls API: create ACLs."""

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


API = Api(ApiKey.CREATE_ACLS, 1, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class AclCreationResult(Struct):
    """The result for one rule."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class CreateAclsResponse(Response):
    """The results, in the order of the request."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...] = ()


@dataclass(frozen=True, slots=True)
class AclCreation(Struct):
    """One ACL to create; `resource_pattern_type` 3 is LITERAL, 4 is PREFIXED."""

    resource_type: Int8 = 0
    resource_name: str = ""
    resource_pattern_type: Int8 = 3
    principal: str = ""
    host: str = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


@dataclass(frozen=True, slots=True)
class CreateAclsRequest(Request[CreateAclsResponse]):
    """Create ACLs."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = CreateAclsResponse

    creations: tuple[AclCreation, ...] = ()
