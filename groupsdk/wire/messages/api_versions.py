"""Declare ApiVersions: ask a broker which APIs it has."""

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
    since,
    tagged,
)


API = Api(ApiKey.API_VERSIONS, 0, 4, first_flexible=3)


@dataclass(frozen=True, slots=True)
class ApiVersion(Struct):
    """Name one API and the versions of it that the broker offers."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(frozen=True, slots=True)
class SupportedFeatureKey(Struct):
    """Name a feature and the levels of it that the broker supports."""

    name: Annotated[str, since(3)] = ""
    min_version: Annotated[Int16, since(3)] = 0
    max_version: Annotated[Int16, since(3)] = 0


@dataclass(frozen=True, slots=True)
class FinalizedFeatureKey(Struct):
    """Name a feature and the levels of it that the whole cluster has agreed on."""

    name: Annotated[str, since(3)] = ""
    max_version_level: Annotated[Int16, since(3)] = 0
    min_version_level: Annotated[Int16, since(3)] = 0


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse(Response):
    """Tell which APIs the broker has, and in which versions."""

    api: ClassVar[Api] = API

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
    """Ask the broker for its APIs; the first request on a connection."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ApiVersionsResponse

    client_software_name: Annotated[str, since(3), IGNORABLE] = ""
    client_software_version: Annotated[str, since(3), IGNORABLE] = ""
