"""Groups of shard workers in virtual time, under random faults; a failure names its seed: ``random_run(seed)`` repeats it.

Invariants: no shard has two holders by their own clocks (51), epochs rise (52), every shard is owned soon after faults
stop (53), what the user's code was told is what the worker holds (54), who drains leaves (55), and a rebalance without
a reason moves nothing (56), a shard that is handed over waits for no longer than its release took (57), a group at rest
does not rebalance (58).
"""

import logging
from collections.abc import Iterator

import pytest

from tests.shards.simulated import random_run, rolling_restart


CHUNK = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Workers under faults log a lot, and nobody reads it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_faults(first: int) -> None:
    for seed in range(first, first + CHUNK):
        random_run(seed)


@pytest.mark.parametrize("seed", [500_215, 500_452])
def test_seeds_that_failed(seed: int) -> None:
    # a static leader came back to a plan that had failed; a static member that drained came back from a pause
    random_run(seed)


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_rolling_restart_leaves_no_shard_without_an_owner_for_longer_than_its_release(
    first: int,
) -> None:
    for seed in range(first, first + 6):
        rolling_restart(seed)


@pytest.mark.parametrize("seed", [1_046, 1_058, 1_092])
def test_rolling_restart_waits_for_no_standby_of_a_drained_worker(seed: int) -> None:
    # the last shard of a worker that drained waited for its on_standby_gained or on_standby_released
    rolling_restart(seed)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("first", range(100_000, 104_000, 10 * CHUNK))
def test_many_faults(first: int) -> None:
    for seed in range(first, first + 10 * CHUNK):
        random_run(seed)


def test_a_seed_is_a_run() -> None:
    one, two = random_run(7), random_run(7)
    assert one.report("") == two.report("")
    assert one.timeline.steps == two.timeline.steps > 100
