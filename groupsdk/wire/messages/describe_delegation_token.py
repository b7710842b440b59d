"""The DescribeDelegationToken API: list delegation tokens (KIP-48)."""

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


API = Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, first_flexible=2)


@dataclass(frozen=True, slots=True)
class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew a token."""

    principal_type: str = ""
    principal_name: str = ""


@dataclass(frozen=True, slots=True)
class DescribedDelegationToken(Struct):
    """A token; times in milliseconds."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: Annotated[str, since(3)] = ""
    token_requester_principal_name: Annotated[str, since(3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeDelegationTokenResponse(Response):
    """The tokens."""

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: Int32 = 0


@dataclass(frozen=True, slots=True)
class DescribeDelegationTokenOwner(Struct):
    """An owner of tokens."""

    principal_type: str = ""
    principal_name: str = ""


@dataclass(frozen=True, slots=True)
class DescribeDelegationTokenRequest(Request[DescribeDelegationTokenResponse]):
    """List the tokens of some owners; None for all."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = DescribeDelegationTokenResponse

    owners: Annotated[tuple[DescribeDelegationTokenOwner, ...] | None, nullable()] = ()
