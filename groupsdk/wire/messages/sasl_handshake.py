"""The SaslHandshake API: choose a SASL mechanism."""

from typing import ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import Api, ApiKey, Int16, Request, Response


API = Api(ApiKey.SASL_HANDSHAKE, 0, 1)


@dataclass(frozen=True, slots=True)
class SaslHandshakeResponse(Response):
    """The SASL mechanisms that the broker supports."""

    api: ClassVar[Api] = API

    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Choose a SASL mechanism."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = SaslHandshakeResponse

    mechanism: str = ""
