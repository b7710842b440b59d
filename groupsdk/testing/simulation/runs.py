"""Play many runs, one seed after the other."""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from groupsdk.testing.simulation.broker_world import InvariantError
from groupsdk.testing.simulation.classic_run import random_run
from groupsdk.testing.simulation.consumer_run import random_consumer_run


_RUNS_PER_COLLECTION: Final = 25


@dataclass
class Tally:
    """Counts the `runs`, and the `rebalances`, `commits` and `violations` of invariants in them."""

    runs: int = 0
    rebalances: int = 0
    commits: int = 0
    violations: int = 0


def play(seeds: Iterable[int], tally: Tally, *, harsh: bool = False) -> Iterator[InvariantError]:
    """Play runs and yield the violations; a run without any yields nothing."""

    def run(seed: int) -> tuple[int, int]:
        world = random_run(seed, harsh=harsh)
        return world.watch.rebalances, world.watch.offset_model.count

    return _play(seeds, tally, run)


def play_consumer_groups(
    seeds: Iterable[int], tally: Tally, *, harsh: bool = False, extended: bool = False
) -> Iterator[InvariantError]:
    """Play runs of consumer groups (KIP-848) and yield what went wrong; epochs count as rebalances."""

    def run(seed: int) -> tuple[int, int]:
        world = random_consumer_run(seed, harsh=harsh, extended=extended)
        return world.watches.epochs, world.watches.commits

    return _play(seeds, tally, run)


def _play(
    seeds: Iterable[int], tally: Tally, run: Callable[[int], tuple[int, int]]
) -> Iterator[InvariantError]:
    enabled = gc.isenabled()
    # a run is all garbage when it is over, and next to none before
    gc.disable()
    try:
        for seed in seeds:
            tally.runs += 1
            try:
                rebalances, commits = run(seed)
            except InvariantError as violation:
                tally.violations += 1
                yield violation
            else:
                tally.rebalances += rebalances
                tally.commits += commits
            if tally.runs % _RUNS_PER_COLLECTION == 0:
                gc.collect()
    finally:
        if enabled:
            gc.enable()
