"""Play runs of the simulation: all of them keep the invariants, or one of them notices a mutant."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pytest

from groupsdk.testing.simulation import runs
from groupsdk.testing.simulation.runs import Tally
from groupsdk.testing.simulation.world import InvariantError
from tests.simulation.watched_consumers import random_consumer_run
from tests.simulation.watched_tasks import random_run


Play = Callable[[Sequence[int], Tally], Iterator[AssertionError]]
"""Play these seeds, and yield what they violate."""

NOTICED = ("invariant ", "time stands still", "the machine spins", "nothing was handed over")
"""How a violation begins that a mutant causes; the last is what the machine itself asserts of an answer."""


def play(seeds: Iterable[int], tally: Tally, *, harsh: bool = False) -> Iterator[InvariantError]:
    """Play runs of members that share tasks, and yield the violations."""
    return runs.play(partial(random_run, harsh=harsh), seeds, tally)


def play_consumer_groups(
    seeds: Iterable[int], tally: Tally, *, harsh: bool = False, extended: bool = False
) -> Iterator[InvariantError]:
    """Play runs of consumer groups (KIP-848), and yield the violations."""
    run = partial(random_consumer_run, harsh=harsh, extended=extended)
    return runs.play(run, seeds, tally)


def chunks(first: int, count: int, size: int) -> range:
    """Return the first seed of each chunk."""
    return range(first, first + count, size)


def check_runs(play: Play, first: int, size: int) -> None:
    """Check that so many seeds violate nothing, and that things happen in them.

    The same seeds each time, so that a failure is of the change at hand; `make simulate` plays fresh ones.
    """
    tally = Tally()
    for violation in play(range(first, first + size), tally):
        pytest.fail(str(violation))
    assert tally.runs == size
    assert tally.assignments > size
    assert tally.commits > size


def check_noticed(play: Play, seeds: Sequence[int], noticed: tuple[str, ...] = NOTICED[:1]) -> None:
    """Check that some seed notices the mutant that is in place, as a violation that begins like one of `noticed`."""
    tally = Tally()
    for violation in play(seeds, tally):
        what = str(violation).splitlines()[0]
        print(f"caught by run {tally.runs}: {what}")
        assert any(each in what for each in noticed), "the mutant itself is broken"
        return
    pytest.fail(f"{tally.runs} seeds, and none noticed")
