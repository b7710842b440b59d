"""How even loads are."""

from statistics import pstdev

import pytest
from hypothesis import given, strategies as st

from groupsdk.history.groups.loads import deviation


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_it_is_the_standard_deviation(loads: list[int]) -> None:
    assert deviation(loads) == pytest.approx(pstdev(loads), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("loads", [[], [0], [7], [5] * 13])
def test_equal_loads_deviate_by_nothing(loads: list[int]) -> None:
    assert deviation(loads) == 0.0
