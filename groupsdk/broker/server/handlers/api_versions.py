"""Handle ApiVersions: the served APIs, their versions, and the features."""

from functools import lru_cache
from typing import Final

from groupsdk.broker.server.apis import APIS, newest_version
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.connection import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)


_API_VERSIONS: Final = 18
_FEATURES: Final = {"group.version": 1, "transaction.version": 2}
"""The level of each feature (KIP-584)."""


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the served APIs and features; needs no authentication.

    From version 3 on, clients send their software's name; as in Kafka, names that are invalid in a metric are answered
    INVALID_REQUEST.
    """
    if call.version >= 3 and not (
        _is_name(request.client_software_name) and _is_name(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _served(call.version, call.node.cluster.config.group_consumer_release)


@lru_cache(32)
def _served(version: int, release: str) -> ApiVersionsResponse:
    """Build the answer once for each version."""
    keys = tuple(
        ApiVersion(
            api_key=key,
            min_version=each.min_version if each.advertised_from is None else each.advertised_from,
            max_version=newest_version(key, release),
        )
        for key, each in sorted(APIS.items())
    )
    return ApiVersionsResponse(
        api_keys=keys,
        # before version 4, clients reject features whose lowest level is 0 (KAFKA-17011)
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in _FEATURES.items()
            if version >= 4
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in _FEATURES.items()
        ),
    )


def unsupported_version() -> ApiVersionsResponse:
    """Build the response to an unsupported version of ApiVersions: only its own served versions (KIP-511)."""
    own = APIS[_API_VERSIONS]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(_API_VERSIONS, own.min_version, own.max_version),),
    )


def _is_name(text: str) -> bool:
    inner = text.replace(".", "").replace("-", "")
    return inner.isascii() and inner.isalnum() and text[0].isalnum() and text[-1].isalnum()
