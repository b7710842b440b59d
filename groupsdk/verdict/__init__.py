"""One verdict over a group: rules over its state, its lag, its members and its last hour.

`judge` is pure: an `Observation` goes in, a `GroupVerdict` comes out. `VerdictKeeper` makes observations of the
views that `groupsdk.admin.watching` yields.
"""

from groupsdk.verdict.judge import RULES, judge
from groupsdk.verdict.keeper import VerdictKeeper
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
