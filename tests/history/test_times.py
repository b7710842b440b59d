"""Checks which numbers of a log are times."""

import pytest

from groupsdk.history.times import LAST_MS, micros, valid_ms


@pytest.mark.parametrize("time_ms", [0, 1_700_000_000_000, LAST_MS])
def test_a_time_up_to_the_year_9999_is_valid(time_ms: int) -> None:
    assert valid_ms(time_ms) == time_ms
    assert micros(time_ms) == 1000 * time_ms


@pytest.mark.parametrize("number", [-1, LAST_MS + 1, 2**63 - 1])
def test_a_missing_or_impossible_time_is_none(number: int) -> None:
    assert valid_ms(number) is None
    assert micros(number) is None
