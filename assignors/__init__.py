"""Partition assignors: Kafka's own, improved ones, and tools to measure and explain assignments.

Names are imported lazily, on first use.
"""

from typing import TYPE_CHECKING

from assignors.items import assign_range, assign_round_robin
from groupsdk.lazy_imports import lazy_attributes


if TYPE_CHECKING:
    from assignors.cooperative_sticky import CooperativeStickyAssignor
    from assignors.explanation import Explanation, explain
    from assignors.lag import LagAssignor
    from assignors.quality import Quality, measure
    from assignors.range import RangeAssignor
    from assignors.registry import known_assignors, resolve
    from assignors.roundrobin import RoundRobinAssignor
    from assignors.sticky import StickyAssignor
    from assignors.weighted import WeightedAssignor
    from assignors.workbench import Simulation, simulate
    from groupsdk.assignment.check import check_assignor
    from groupsdk.assignment.plan import Plan


__all__ = [
    "CooperativeStickyAssignor",
    "Explanation",
    "LagAssignor",
    "Plan",
    "Quality",
    "RangeAssignor",
    "RoundRobinAssignor",
    "Simulation",
    "StickyAssignor",
    "WeightedAssignor",
    "assign_range",
    "assign_round_robin",
    "check_assignor",
    "explain",
    "known_assignors",
    "measure",
    "resolve",
    "simulate",
]

_PLACES = {
    "CooperativeStickyAssignor": "assignors.cooperative_sticky",
    "Explanation": "assignors.explanation",
    "LagAssignor": "assignors.lag",
    "Plan": "groupsdk.assignment.plan",
    "Quality": "assignors.quality",
    "RangeAssignor": "assignors.range",
    "RoundRobinAssignor": "assignors.roundrobin",
    "Simulation": "assignors.workbench",
    "StickyAssignor": "assignors.sticky",
    "WeightedAssignor": "assignors.weighted",
    "check_assignor": "groupsdk.assignment.check",
    "explain": "assignors.explanation",
    "known_assignors": "assignors.registry",
    "measure": "assignors.quality",
    "resolve": "assignors.registry",
    "simulate": "assignors.workbench",
}


__getattr__ = lazy_attributes(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
