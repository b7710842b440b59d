"""Test the waits between attempts."""

import asyncio
import logging
import random
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from groupsdk.errors import AuthenticationError, ConfigError, DisconnectedError
from groupsdk.settings.backoff import ExponentialBackoff, retry_strategy, tenacity_wait


class _FixedRandom(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    @override
    def random(self) -> float:
        return self._value


MIDDLE = _FixedRandom(0.5)
"""Makes the factor 1: no jitter."""


def test_the_wait_doubles_up_to_the_limit() -> None:
    backoff = ExponentialBackoff(100, 1000)
    waits = [backoff.backoff_ms(attempts, MIDDLE) for attempts in range(7)]
    assert waits == [100, 200, 400, 800, 1000, 1000, 1000]


def test_backoff_grows_by_its_multiplier() -> None:
    backoff = ExponentialBackoff(1, 300_000, multiplier=40, jitter=0.0)
    waits = [backoff.backoff_ms(attempts, MIDDLE) for attempts in range(5)]
    assert waits == [1, 40, 1600, 64_000, 300_000]


@pytest.mark.parametrize(("value", "expected"), [(0.0, 320), (0.75, 440)])
def test_jitter_spreads_the_wait(value: float, expected: int) -> None:
    assert ExponentialBackoff(100, 1000).backoff_ms(2, _FixedRandom(value)) == expected


def test_jitter_never_exceeds_the_limit() -> None:
    assert ExponentialBackoff(100, 1000).backoff_ms(9, _FixedRandom(0.99)) == 1000


@pytest.mark.parametrize(
    ("initial_ms", "max_ms", "expected"), [(100, 100, 100), (500, 100, 100), (0, 0, 0)]
)
def test_no_growth_and_no_jitter_without_room(initial_ms: int, max_ms: int, expected: int) -> None:
    backoff = ExponentialBackoff(initial_ms, max_ms)
    assert {backoff.backoff_ms(attempts, _FixedRandom(0.0)) for attempts in range(4)} == {expected}


@given(
    initial_ms=st.integers(0, 10**6),
    max_ms=st.integers(0, 10**9),
    attempts=st.integers(0, 10**30),
    seed=st.integers(),
)
def test_the_wait_is_bounded_for_any_number_of_attempts(
    initial_ms: int, max_ms: int, attempts: int, seed: int
) -> None:
    backoff = ExponentialBackoff(initial_ms, max_ms)
    wait_ms = backoff.backoff_ms(attempts, random.Random(seed))
    assert min(int(initial_ms * 0.8), max_ms) - 1 <= wait_ms <= max_ms


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({"initial_ms": -1, "max_ms": 1}, "initial_ms"),
        ({"initial_ms": 1, "max_ms": -1}, "max_ms"),
        ({"initial_ms": 1, "max_ms": 2, "multiplier": 1}, "multiplier"),
        ({"initial_ms": 1, "max_ms": 2, "jitter": 1.5}, "jitter"),
    ],
)
def test_arguments_out_of_bounds_are_named(kwargs: dict[str, int], name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ExponentialBackoff(**kwargs)


def test_a_negative_number_of_attempts_is_refused() -> None:
    with pytest.raises(ValueError, match="attempts must not be negative, but is -1"):
        ExponentialBackoff(1, 2).backoff_ms(-1, MIDDLE)


def test_tenacity_counts_from_one_and_waits_in_seconds() -> None:
    import tenacity

    wait = tenacity_wait(ExponentialBackoff(100, 1000), MIDDLE)
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    assert wait(state) == 0.1
    state.attempt_number = 3
    assert wait(state) == 0.4


class _Operation:
    """Fails with the errors given, then returns "done"; keeps the waits between."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.waits: list[float] = []

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def run(self) -> str:
        strategy = retry_strategy(
            ExponentialBackoff(100, 1000),
            MIDDLE,
            "group g: discovery",
            sleep=self.sleep,
        )
        return asyncio.run(strategy(self))


def test_a_retriable_error_is_retried() -> None:
    operation = _Operation(DisconnectedError("one"), DisconnectedError("two"))
    assert operation.run() == "done"
    assert operation.calls == 3
    assert operation.waits == [0.1, 0.2]


@pytest.mark.parametrize("error", [AuthenticationError("no"), KeyError("bug")])
def test_any_other_error_is_raised_at_once(error: Exception) -> None:
    operation = _Operation(error)
    with pytest.raises(type(error)) as caught:
        operation.run()
    assert caught.value is error
    assert operation.waits == []


def test_failures_are_logged_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "groupsdk.settings.backoff")
    _Operation(*(DisconnectedError("refused") for _ in range(20))).run()
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == ("group g: discovery failed (attempt 1), next attempt in 100 ms: refused")
    assert [message.split("attempt ")[1].split(")")[0] for message in messages] == [
        "1",
        "2",
        "4",
        "8",
        "16",
    ]


def test_tenacity_is_not_loaded_before_it_is_used() -> None:
    code = "import sys, groupsdk.settings.backoff; sys.exit('tenacity' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
