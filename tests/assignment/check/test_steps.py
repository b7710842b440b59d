"""Test that code that runs away is stopped."""

import sys
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from groupsdk.assignment.check.steps import StepLimit, TooManySteps


def spin(turns: int) -> int:
    done = 0
    for _ in range(turns):
        done += 1
    return done


@pytest.fixture(autouse=True)
def _nobody_traces() -> None:
    assert sys.gettrace() is None, "run these tests without a debugger or coverage"


def test_code_within_the_step_limit_runs_and_leaves_no_trace_function() -> None:
    with StepLimit(1000):
        assert spin(100) == 100
    assert sys.gettrace() is None


def test_code_beyond_the_step_limit_is_stopped() -> None:
    with pytest.raises(TooManySteps), StepLimit(1000):
        spin(10_000)
    assert sys.gettrace() is None


def test_the_limit_is_one_for_all_functions_together() -> None:
    def often() -> None:
        for _ in range(10):
            spin(100)

    with pytest.raises(TooManySteps), StepLimit(1000):
        often()


def test_step_limit_is_not_caught_by_except_exception() -> None:
    def stubborn() -> None:
        with suppress(Exception):
            spin(10_000)

    with pytest.raises(TooManySteps), StepLimit(100):
        stubborn()


def test_a_tracer_that_is_there_is_left_in_place() -> None:
    seen: list[str] = []

    def tracer(frame: FrameType, event: str, argument: Any) -> None:
        seen.append(event)

    sys.settrace(tracer)
    try:
        with StepLimit(1):
            spin(100)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    assert "call" in seen
