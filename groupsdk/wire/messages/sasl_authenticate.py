"""The SaslAuthenticate API: exchange SASL messages."""

from dataclasses import field
from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int16,
    Int64,
    Request,
    Response,
    nullable,
    since,
)


API = Api(ApiKey.SASL_AUTHENTICATE, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class SaslAuthenticateResponse(Response):
    """The broker's next SASL message; `auth_bytes` is kept out of the repr.

    `session_lifetime_ms` is how long until the client has to re-authenticate, 0 for no limit (KIP-368).
    """

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    auth_bytes: bytes = field(default=b"", repr=False)
    session_lifetime_ms: Annotated[Int64, since(1), IGNORABLE] = 0


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The client's next SASL message; `auth_bytes` is kept out of the repr."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = SaslAuthenticateResponse

    auth_bytes: bytes = field(default=b"", repr=False)
