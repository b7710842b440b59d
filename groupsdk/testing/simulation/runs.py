"""Play many runs, one seed after the other."""

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from groupsdk.testing.simulation.faults import random_run
from groupsdk.testing.simulation.world import InvariantError


_RUNS_PER_COLLECTION: Final = 25


@dataclass
class Tally:
    """Count what was played."""

    runs: int = 0
    rebalances: int = 0
    commits: int = 0
    violations: int = 0


def play(seeds: Iterable[int], tally: Tally, *, harsh: bool = False) -> Iterator[InvariantError]:
    """Play runs and yield what went wrong; a run that goes well yields nothing.

    Args:
        seeds: which runs.
        tally: counts them.
        harsh: see `Simulation`.
    """
    enabled = gc.isenabled()
    # a run is all garbage when it is over, and next to none before
    gc.disable()
    try:
        for seed in seeds:
            tally.runs += 1
            try:
                world = random_run(seed, harsh=harsh)
            except InvariantError as violation:
                tally.violations += 1
                yield violation
            else:
                tally.rebalances += world.watch.rebalances
                tally.commits += world.watch.ledger.count
            if tally.runs % _RUNS_PER_COLLECTION == 0:
                gc.collect()
    finally:
        if enabled:
            gc.enable()
