"""Handle UpdateFeatures: change and store the finalized levels of features (KIP-584)."""

from typing import Final

from groupsdk.broker.catalogue import SUPPORTED_FEATURES, finalized_levels, set_finalized_levels
from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_LAST_WITH_RESULTS: Final = 1
_FAILED: Final = "The update failed for all features since the following feature had an error: "


def update_features(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change feature levels, all or none (Kafka: FeatureControlManager); requires "alter" on the cluster.

    An unknown feature, an unsupported level, or a downgrade that is not requested as such is answered
    INVALID_UPDATE_VERSION.
    """
    if not cluster_allowed(call, "alter"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=code, error_message=code.text)
    catalogue = call.node.cluster.catalogue
    before = finalized_levels(catalogue)
    levels = dict(before)
    for each in request.feature_updates:
        problem = _problem(call, each, before.get(each.feature, 0))
        if problem is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"{_FAILED}Invalid update version {each.max_version_level}"
                f" for feature {each.feature}. {problem}",
            )
        levels[each.feature] = each.max_version_level
    if not request.validate_only:
        set_finalized_levels(catalogue, levels)
    results: tuple[UpdatableFeatureResult, ...] = ()
    if call.version <= _LAST_WITH_RESULTS:
        results = tuple(
            UpdatableFeatureResult(each.feature, 0, "NONE") for each in request.feature_updates
        )
    return UpdateFeaturesResponse(error_message=None, results=results)


def _problem(call: Call, asked: FeatureUpdateKey, level: int) -> str | None:
    wanted = asked.max_version_level
    upgrade_type = asked.upgrade_type
    if not call.version and asked.allow_downgrade:
        upgrade_type = _SAFE_DOWNGRADE
    if upgrade_type not in {_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE}:
        return "The controller does not support the given upgrade type."
    if asked.feature not in SUPPORTED_FEATURES:
        return "The broker does not support this feature."
    if wanted < 0:
        return "A feature version cannot be less than 0."
    low, high = SUPPORTED_FEATURES[asked.feature]
    if not low <= wanted <= high:
        return f"The broker only supports versions {low}-{high}"
    if wanted < level and upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    return None
