"""Simulate groups under faults: real members and brokers on a virtual clock, network and disk.

A `World` is one run, and what happens in it follows from its `seed`. A kind of member has a class of its own (`MemberProcess`) and
a world that starts it and says when all is well. Names that mean the same in all modules:

- `now_ms`, `start_ms`, `at_ms`, fields that end with `since_ms`: virtual times in milliseconds; `duration_ms`, `outage_ms`, `delay_ms`,
  `by_ms`, `at_most_ms`, `tick_ms`: durations.
- `place`, `places`: partitions.
- `invariant`: the number of a check, which its docstring names; `what`: how it was violated.
- `durable_end`: an offset in the group's log; what lies behind it may be lost when the power fails.
- `raises`, `slow`: probabilities from 0 to 1.
"""

from groupsdk.testing.simulation.classic_world import ClassicWorld
from groupsdk.testing.simulation.consumer_world import ConsumerWorld
from groupsdk.testing.simulation.world import InvariantError, World


__all__ = ["ClassicWorld", "ConsumerWorld", "InvariantError", "World"]
