"""Messages about ACLs, SCRAM credentials and client quotas."""

from dataclasses import field
from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Float64,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
)


DESCRIBE_ACLS = Api(ApiKey.DESCRIBE_ACLS, 1, 3, first_flexible=2)


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

    api: ClassVar[Api] = DESCRIBE_ACLS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    resources: tuple[DescribeAclsResource, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """Look up ACLs; None and the code 1 (ANY) match everything."""

    api: ClassVar[Api] = DESCRIBE_ACLS
    response_class: ClassVar[type[Response]] = DescribeAclsResponse

    resource_type_filter: Int8 = 0
    resource_name_filter: Annotated[str | None, nullable()] = ""
    pattern_type_filter: Int8 = 3
    principal_filter: Annotated[str | None, nullable()] = ""
    host_filter: Annotated[str | None, nullable()] = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


CREATE_ACLS = Api(ApiKey.CREATE_ACLS, 1, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class AclCreationResult(Struct):
    """The result for one rule."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class CreateAclsResponse(Response):
    """The results, in the order of the request."""

    api: ClassVar[Api] = CREATE_ACLS

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

    api: ClassVar[Api] = CREATE_ACLS
    response_class: ClassVar[type[Response]] = CreateAclsResponse

    creations: tuple[AclCreation, ...] = ()


DELETE_ACLS = Api(ApiKey.DELETE_ACLS, 1, 3, first_flexible=2)


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

    api: ClassVar[Api] = DELETE_ACLS

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

    api: ClassVar[Api] = DELETE_ACLS
    response_class: ClassVar[type[Response]] = DeleteAclsResponse

    filters: tuple[DeleteAclsFilter, ...] = ()


DESCRIBE_USER_SCRAM_CREDENTIALS = Api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, first_flexible=0
)


@dataclass(frozen=True, slots=True)
class CredentialInfo(Struct):
    """The mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and iterations of one credential."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsResponse(Response):
    """The credentials, without their secrets."""

    api: ClassVar[Api] = DESCRIBE_USER_SCRAM_CREDENTIALS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class UserName(Struct):
    """One user."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """List the credentials of some users; None and () for all."""

    api: ClassVar[Api] = DESCRIBE_USER_SCRAM_CREDENTIALS
    response_class: ClassVar[type[Response]] = DescribeUserScramCredentialsResponse

    users: Annotated[tuple[UserName, ...] | None, nullable()] = ()


ALTER_USER_SCRAM_CREDENTIALS = Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, first_flexible=0)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsResponse(Response):
    """The results of the change, user by user."""

    api: ClassVar[Api] = ALTER_USER_SCRAM_CREDENTIALS

    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


@dataclass(frozen=True, slots=True)
class ScramCredentialDeletion(Struct):
    """One credential to remove; `mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str = ""
    mechanism: Int8 = 0


@dataclass(frozen=True, slots=True)
class ScramCredentialUpsertion(Struct):
    """One credential to set; salt and salted password are kept out of the repr.

    `mechanism` 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512. `salted_password` is the result of `iterations` rounds of PBKDF2
    (RFC 5802).
    """

    name: str = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: bytes = field(default=b"", repr=False)
    salted_password: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Set and remove SCRAM credentials."""

    api: ClassVar[Api] = ALTER_USER_SCRAM_CREDENTIALS
    response_class: ClassVar[type[Response]] = AlterUserScramCredentialsResponse

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


DESCRIBE_CLIENT_QUOTAS = Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, first_flexible=1)


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity(Struct):
    """One part of an entity: "user", "client-id" or "ip", and its name; None is the default entity of the type."""

    entity_type: str = ""
    entity_name: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class ClientQuota(Struct):
    """One quota of an entity, such as "producer_byte_rate" in bytes per second."""

    key: str = ""
    value: Float64 = 0.0


@dataclass(frozen=True, slots=True)
class ClientQuotaEntry(Struct):
    """The quotas of one entity."""

    entity: tuple[ClientQuotaEntity, ...] = ()
    values: tuple[ClientQuota, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasResponse(Response):
    """The quotas by entity; None if there is an error."""

    api: ClassVar[Api] = DESCRIBE_CLIENT_QUOTAS

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    entries: Annotated[tuple[ClientQuotaEntry, ...] | None, nullable()] = ()


@dataclass(frozen=True, slots=True)
class ClientQuotaFilter(Struct):
    """A filter on the names of one entity type; `match_type`: 0 the name `match`, 1 the default entity, 2 any name."""

    entity_type: str = ""
    match_type: Int8 = 0
    match: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """List the quotas of entities that match all filters and, with `strict`, have no other types."""

    api: ClassVar[Api] = DESCRIBE_CLIENT_QUOTAS
    response_class: ClassVar[type[Response]] = DescribeClientQuotasResponse

    components: tuple[ClientQuotaFilter, ...] = ()
    strict: bool = False
