"""Let members live through random faults in virtual time, and check the invariants at every step.

A failure names its seed: ``random_run(seed)`` plays it again, step by step.
"""

import logging
import os
from collections.abc import Iterator

import pytest

from tests.simulation.faults import random_run


CHUNK = 50
QUICK = 2_000
QUICK_HARSH = 500
FULL = int(os.environ.get("GROUPSDK_SEEDS", "20000"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Members under faults log a lot, and nobody reads it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _chunks(first: int, count: int) -> range:
    return range(first, first + count, CHUNK)


@pytest.mark.parametrize("first", _chunks(0, QUICK))
def test_faults(first: int) -> None:
    for seed in range(first, first + CHUNK):
        random_run(seed)


@pytest.mark.parametrize("first", _chunks(0, QUICK_HARSH))
def test_requests_that_are_read_late(first: int) -> None:
    for seed in range(first, first + CHUNK):
        random_run(seed, harsh=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("harsh", [False, True])
@pytest.mark.parametrize("first", _chunks(1_000_000, FULL))
def test_many_faults(first: int, harsh: bool) -> None:
    for seed in range(first, first + CHUNK):
        random_run(seed, harsh=harsh)


def test_a_seed_is_a_run() -> None:
    one, two = random_run(7), random_run(7)
    assert one.report("") == two.report("")
    assert one.timeline.steps == two.timeline.steps > 100
    assert one.report("") != random_run(8).report("").replace("seed 8", "seed 7")
