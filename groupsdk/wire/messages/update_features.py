"""The UpdateFeatures API: change the finalized levels of features (KIP-584)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    IGNORABLE,
    Api,
    ApiKey,
    Int8,
    Int16,
    Int32,
    Request,
    Response,
    Struct,
    nullable,
    since,
    until,
)


API = Api(ApiKey.UPDATE_FEATURES, 0, 2, first_flexible=0)


@dataclass(frozen=True, slots=True)
class UpdatableFeatureResult(Struct):
    """The result for one feature."""

    feature: str = ""
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""


@dataclass(frozen=True, slots=True)
class UpdateFeaturesResponse(Response):
    """The result of the request, and up to version 1 of each feature."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, nullable()] = ""
    results: Annotated[tuple[UpdatableFeatureResult, ...], until(1), IGNORABLE] = ()


@dataclass(frozen=True, slots=True)
class FeatureUpdateKey(Struct):
    """The new level of a feature; 0 disables it. `upgrade_type`: 1 upgrade, 2 safe and 3 unsafe downgrade.

    `allow_downgrade` is what version 0 has in place of `upgrade_type`.
    """

    feature: str = ""
    max_version_level: Int16 = 0
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[Int8, since(1)] = 1


@dataclass(frozen=True, slots=True)
class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """Change the finalized levels of features."""

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = UpdateFeaturesResponse

    timeout_ms: Int32 = 60_000
    feature_updates: tuple[FeatureUpdateKey, ...] = ()
    validate_only: Annotated[bool, since(1)] = False
