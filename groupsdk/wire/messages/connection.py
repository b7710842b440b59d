"""Messages that begin a connection: ApiVersions, SaslHandshake, SaslAuthenticate."""

from dataclasses import field
from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
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
    tagged,
)


API_VERSIONS = Api(ApiKey.API_VERSIONS, 0, 4, first_flexible=3)


@dataclass(frozen=True, slots=True)
class ApiVersion(Struct):
    """One API, with the range of versions that the broker supports."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(frozen=True, slots=True)
class SupportedFeatureKey(Struct):
    """One feature, with the range of levels that the broker supports."""

    name: Annotated[str, since(3)] = ""
    min_version: Annotated[Int16, since(3)] = 0
    max_version: Annotated[Int16, since(3)] = 0


@dataclass(frozen=True, slots=True)
class FinalizedFeatureKey(Struct):
    """One feature, with the range of levels that the cluster has finalized."""

    name: Annotated[str, since(3)] = ""
    max_version_level: Annotated[Int16, since(3)] = 0
    min_version_level: Annotated[Int16, since(3)] = 0


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse(Response):
    """The APIs that the broker supports, with their versions.

    `finalized_features_epoch` is -1 if the finalized features are unknown (KIP-584).
    """

    api: ClassVar[Api] = API_VERSIONS

    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, since(1), IGNORABLE] = 0
    supported_features: Annotated[
        tuple[SupportedFeatureKey, ...], since(3), IGNORABLE, tagged(0)
    ] = ()
    finalized_features_epoch: Annotated[Int64, since(3), IGNORABLE, tagged(1)] = -1
    finalized_features: Annotated[
        tuple[FinalizedFeatureKey, ...], since(3), IGNORABLE, tagged(2)
    ] = ()
    zk_migration_ready: Annotated[bool, since(3), IGNORABLE, tagged(3)] = False


@dataclass(frozen=True, slots=True)
class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """List the broker's APIs; the first request on a connection."""

    api: ClassVar[Api] = API_VERSIONS
    response_class: ClassVar[type[Response]] = ApiVersionsResponse

    client_software_name: Annotated[str, since(3), IGNORABLE] = ""
    client_software_version: Annotated[str, since(3), IGNORABLE] = ""


SASL_HANDSHAKE = Api(ApiKey.SASL_HANDSHAKE, 0, 1)


@dataclass(frozen=True, slots=True)
class SaslHandshakeResponse(Response):
    """The SASL mechanisms that the broker supports."""

    api: ClassVar[Api] = SASL_HANDSHAKE

    error_code: Int16 = 0
    mechanisms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """Choose a SASL mechanism."""

    api: ClassVar[Api] = SASL_HANDSHAKE
    response_class: ClassVar[type[Response]] = SaslHandshakeResponse

    mechanism: str = ""


SASL_AUTHENTICATE = Api(ApiKey.SASL_AUTHENTICATE, 0, 2, first_flexible=2)


@dataclass(frozen=True, slots=True)
class SaslAuthenticateResponse(Response):
    """The broker's next SASL message; `auth_bytes` is kept out of the repr.

    `session_lifetime_ms` is how long until the client has to re-authenticate, 0 for no limit (KIP-368).
    """

    api: ClassVar[Api] = SASL_AUTHENTICATE

    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    auth_bytes: bytes = field(default=b"", repr=False)
    session_lifetime_ms: Annotated[Int64, since(1), IGNORABLE] = 0


@dataclass(frozen=True, slots=True)
class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The client's next SASL message; `auth_bytes` is kept out of the repr."""

    api: ClassVar[Api] = SASL_AUTHENTICATE
    response_class: ClassVar[type[Response]] = SaslAuthenticateResponse

    auth_bytes: bytes = field(default=b"", repr=False)
