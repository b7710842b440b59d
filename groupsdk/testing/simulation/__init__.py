"""Simulate groups: members and brokers as they are, on one virtual clock, network and disk, under faults."""

from groupsdk.testing.simulation.classic_run import random_run
from groupsdk.testing.simulation.world import InvariantError, Simulation


__all__ = ["InvariantError", "Simulation", "random_run"]
