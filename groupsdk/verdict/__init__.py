"""One verdict over a group: rules over its state, its lag, its members and its last hour.

`judge` is pure: an `Observation` goes in, a `GroupVerdict` comes out. `VerdictKeeper` makes observations of the
views that `groupsdk.admin.watching` yields.
"""

from typing import TYPE_CHECKING

from groupsdk.lazy_imports import lazy_attributes
from groupsdk.verdict.judge import RULES, judge
from groupsdk.verdict.observation import (
    KnownLog,
    LoggedGroup,
    Observation,
    Obstacle,
    ObstacleKind,
    Past,
    PastAdvice,
    PastGeneration,
    PastMembership,
    Sample,
    Thresholds,
)
from groupsdk.verdict.values import Finding, GroupVerdict, Severity


if TYPE_CHECKING:
    from groupsdk.verdict.keeper import VerdictKeeper

# it imports connections, and the report on a log does not need them
__getattr__ = lazy_attributes(__name__, {"VerdictKeeper": "groupsdk.verdict.keeper"})

__all__ = [
    "RULES",
    "Finding",
    "GroupVerdict",
    "KnownLog",
    "LoggedGroup",
    "Observation",
    "Obstacle",
    "ObstacleKind",
    "Past",
    "PastAdvice",
    "PastGeneration",
    "PastMembership",
    "Sample",
    "Severity",
    "Thresholds",
    "VerdictKeeper",
    "judge",
]
