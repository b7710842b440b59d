"""Simulate groups under faults: real members and brokers on a virtual clock, network and disk."""

from groupsdk.testing.simulation.classic_run import random_run
from groupsdk.testing.simulation.world import InvariantError, Simulation


__all__ = ["InvariantError", "Simulation", "random_run"]
