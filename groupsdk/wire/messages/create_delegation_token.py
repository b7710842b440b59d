"""The CreateDelegationToken API: ask for a token that stands for a user (KIP-48)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


API = Api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class CreateDelegationTokenResponse(Response):
    """The token."""

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: Int32 = 0


@dataclass(frozen=True, slots=True)
class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: str = ""
    principal_name: str = ""


@dataclass(frozen=True, slots=True)
class CreateDelegationTokenRequest(Request[CreateDelegationTokenResponse]):
    """Create a token of an owner; None for the owner is the client itself, -1 the longest lifetime."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = CreateDelegationTokenResponse

    owner_principal_type: Annotated[str | None, since(3), nullable(3)] = ""
    owner_principal_name: Annotated[str | None, since(3), nullable(3)] = ""
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: Int64 = 0
