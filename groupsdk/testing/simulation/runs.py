"""Play many runs, one seed after the other: `python -m groupsdk.testing.simulation --duration 60`."""

import argparse
import gc
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from secrets import randbelow
from typing import Any, Final

from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing.simulation.classic_world import ClassicWorld, play_classic
from groupsdk.testing.simulation.consumer_world import ConsumerWorld, play_consumers
from groupsdk.testing.simulation.world import InvariantError, World


_RUNS_PER_COLLECTION: Final = 25
_CHUNK: Final = 20
_HARSH_EVERY: Final = 5
_MODERN_EVERY: Final = 3
_MAX_SHOWN: Final = 5


def random_run(seed: int, *, harsh: bool = False) -> ClassicWorld:
    """Run some members of a classic group through some faults."""
    return play_classic(ClassicWorld(seed, harsh=harsh))


def random_consumer_run(seed: int, *, harsh: bool = False, extended: bool = False) -> ConsumerWorld:
    """Run some consumers of either protocol through some faults."""
    return play_consumers(ConsumerWorld(seed, harsh=harsh, extended=extended))


@dataclass
class Tally:
    """Counts the `runs`, and the `assignments`, `commits` and `violations` of invariants in them."""

    runs: int = 0
    assignments: int = 0
    commits: int = 0
    violations: int = 0


def play(
    run: Callable[[int], World[Any]], seeds: Iterable[int], tally: Tally
) -> Iterator[InvariantError]:
    """Play runs and yield the violations; a run without any yields nothing."""
    enabled = gc.isenabled()
    # a run is all garbage when it is over, and next to none before
    gc.disable()
    try:
        for seed in seeds:
            tally.runs += 1
            try:
                world = run(seed)
            except InvariantError as violation:
                tally.violations += 1
                yield violation
            else:
                tally.assignments += world.assignments
                tally.commits += world.commits
            if tally.runs % _RUNS_PER_COLLECTION == 0:
                gc.collect()
    finally:
        if enabled:
            gc.enable()


def main(
    arguments: Sequence[str] | None = None,
    *,
    command: str = "groupsdk.testing.simulation",
    classic: Callable[..., World[Any]] = random_run,
    consumers: Callable[..., World[Any]] = random_consumer_run,
) -> int:
    """Play runs until the time is over, or one seed; the last line says how many and how well."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {command}",
        description="Run members and brokers under random faults on a virtual clock, and check what must hold.",
    )
    parser.add_argument("--duration", type=float, default=60.0, help="for how many seconds")
    parser.add_argument("--runs", type=int, help="stop after so many runs")
    parser.add_argument("--seed", type=int, help="the first seed; a random one if not given")
    parser.add_argument(
        "--harsh", action="store_true", help="only runs in which requests are read late"
    )
    parser.add_argument(
        "--consumer-groups", action="store_true", help="only runs of consumer groups (KIP-848)"
    )
    parser.add_argument(
        "--extended",
        action="store_true",
        help="let some runs of consumer groups have two groups, and some commit with retries or in transactions",
    )
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    first = randbelow(2**40) if given.seed is None else given.seed
    print(f"from seed {first}")  # noqa: T201 - a command
    deadline = Deadline(SystemClock(), int(given.duration * 1000))
    tally = Tally()
    seeds = count(first)
    for number in count():
        left = _CHUNK if given.runs is None else min(_CHUNK, given.runs - tally.runs)
        if left <= 0 or deadline.expired:
            break
        modern = given.consumer_groups or (
            given.seed is None and not given.harsh and number % _MODERN_EVERY == 1
        )
        harsh = given.harsh or (given.seed is None and number % _HARSH_EVERY == 0)
        run = partial(consumers, extended=given.extended) if modern else classic
        for violation in play(partial(run, harsh=harsh), islice(seeds, left), tally):
            if tally.violations <= _MAX_SHOWN:
                print(violation, end="\n\n", flush=True)  # noqa: T201 - a command
    print(  # noqa: T201 - a command
        f"{tally.runs} runs, {tally.assignments} assignments, {tally.commits} commits,"
        f" {tally.violations} violations"
    )
    return 1 if tally.violations else 0
