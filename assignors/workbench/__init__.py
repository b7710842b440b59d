"""Try assignors on what happens to a group, side by side."""

from assignors.workbench.events import (
    Event,
    Join,
    Leave,
    RemoveTopic,
    SetPartitions,
    Subscribe,
    Together,
)
from assignors.workbench.simulation import Outcome, Simulation, simulate


__all__ = [
    "Event",
    "Join",
    "Leave",
    "Outcome",
    "RemoveTopic",
    "SetPartitions",
    "Simulation",
    "Subscribe",
    "Together",
    "simulate",
]
