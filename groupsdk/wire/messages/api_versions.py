"""The ApiVersions API: list the APIs that a broker supports."""

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
    """List the broker's APIs; the first request on a connection."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ApiVersionsResponse

    client_software_name: Annotated[str, since(3), IGNORABLE] = ""
    client_software_version: Annotated[str, since(3), IGNORABLE] = ""
