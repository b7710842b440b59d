"""The RenewDelegationToken API: prolong a delegation token (KIP-48)."""

from typing import ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
)


API = Api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class RenewDelegationTokenResponse(Response):
    """The time at which the token ends, in milliseconds."""

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0


@dataclass(frozen=True, slots=True)
class RenewDelegationTokenRequest(Request[RenewDelegationTokenResponse]):
    """Let a token live for a further period."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = RenewDelegationTokenResponse

    hmac: bytes = b""
    renew_period_ms: Int64 = 0
