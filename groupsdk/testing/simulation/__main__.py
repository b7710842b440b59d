"""Run simulations for a given time: `python -m groupsdk.testing.simulation --duration 60`."""

import argparse
import logging
import sys
from collections.abc import Sequence
from itertools import count, islice
from secrets import randbelow
from typing import Final

from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing.simulation.runs import Tally, play, play_consumer_groups


_CHUNK: Final = 20
_HARSH_EVERY: Final = 5
_MODERN_EVERY: Final = 3
_MAX_SHOWN: Final = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Play runs until the time is over, or one seed; the last line says how many and how well."""
    parser = argparse.ArgumentParser(
        prog="python -m groupsdk.testing.simulation",
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
        chosen = islice(seeds, left)
        if modern:
            played = play_consumer_groups(chosen, tally, harsh=harsh, extended=given.extended)
        else:
            played = play(chosen, tally, harsh=harsh)
        for violation in played:
            if tally.violations <= _MAX_SHOWN:
                print(violation, end="\n\n", flush=True)  # noqa: T201 - a command
    print(  # noqa: T201 - a command
        f"{tally.runs} runs, {tally.rebalances} rebalances, {tally.commits} commits,"
        f" {tally.violations} violations"
    )
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
