"""Know which features there are, and the level of each that is in force (KIP-584)."""

from collections.abc import Mapping
from typing import Final

from groupsdk.broker.catalogue import Catalogue


SUPPORTED: Final = {"group.version": (0, 1), "transaction.version": (0, 2)}
"""The lowest and highest level of each feature that can be in force; 0 is without it."""
_DEFAULTS: Final = {"group.version": 1, "transaction.version": 2}
_FEATURES: Final = "features"


def finalized_levels(catalogue: Catalogue) -> Mapping[str, int]:
    """Return the level of each feature that is in force."""
    kept = catalogue.config(_FEATURES, "")
    return {name: int(kept.get(name, level)) for name, level in _DEFAULTS.items()}


def finalized_epoch(catalogue: Catalogue) -> int:
    """Return a number that grows with every change of a level; 0 before the first."""
    return int(catalogue.config(_FEATURES, "").get("epoch", 0))


def set_finalized_levels(catalogue: Catalogue, levels: Mapping[str, int]) -> None:
    """Let other levels be in force."""
    if dict(levels) == dict(finalized_levels(catalogue)):
        return
    texts = {name: str(level) for name, level in levels.items()}
    epoch = finalized_epoch(catalogue) + 1
    catalogue.set_config(_FEATURES, "", {**texts, "epoch": str(epoch)})
