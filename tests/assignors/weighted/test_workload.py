"""Test how reports become weights, and the bound that no plan can be below."""

import pytest

from assignors.sticky.ownership import Ownership
from assignors.weighted.report import WeightReport
from assignors.weighted.workload import LIGHTEST, Workload, counted_capacity, merged_weights


def weights_of(*members: tuple[dict[str, tuple[int, ...]], dict[str, dict[int, float]]]) -> object:
    return merged_weights(
        {"t": 2, "u": 1},
        [WeightReport(weights=weights) for _, weights in members],
        [owned for owned, _ in members],
    )


def test_without_reports_all_are_equal() -> None:
    assert weights_of() == {"t": [1.0, 1.0], "u": [1.0]}


def test_the_owner_knows_best() -> None:
    assert weights_of(({"t": (0,)}, {"t": {0: 2.0}}), ({"t": (1,)}, {"t": {0: 9.0, 1: 4.0}})) == {
        "t": [2.0, 4.0],
        "u": [3.0],
    }


def test_without_the_owner_the_most_counts() -> None:
    assert weights_of(({}, {"u": {0: 3.0}}), ({}, {"u": {0: 5.0}})) == {
        "t": [5.0, 5.0],
        "u": [5.0],
    }


def test_a_partition_without_report_counts_as_the_mean_of_its_topic() -> None:
    assert weights_of(({}, {"t": {0: 6.0}, "u": {0: 2.0}})) == {"t": [6.0, 6.0], "u": [2.0]}


def test_reports_on_what_does_not_exist_count_for_nothing() -> None:
    assert weights_of(({}, {"t": {2: 6.0, -1: 6.0}, "gone": {0: 7.0}})) == {
        "t": [1.0, 1.0],
        "u": [1.0],
    }


def test_nothing_is_without_cost() -> None:
    assert weights_of(({}, {"t": {0: 0.0, 1: 3.0}, "u": {0: 0.0}})) == {
        "t": [LIGHTEST, 3.0],
        "u": [LIGHTEST],
    }
    assert weights_of(({}, {"t": {0: 0.0, 1: 0.0}, "u": {0: 0.0}})) == {
        "t": [1.0, 1.0],
        "u": [1.0],
    }


def work(
    weights: dict[str, list[float]], subscribers: dict[str, list[int]], capacities: list[float]
) -> Workload:
    return Workload(capacities, weights, subscribers, Ownership([], [], {}))


@pytest.mark.parametrize(
    ("weights", "capacities", "expected"),
    [
        pytest.param([1.0] * 6, [1.0, 1.0], 3.0, id="the mean"),
        pytest.param([5.0, 1.0], [1.0, 1.0], 5.0, id="the heaviest"),
        pytest.param([5.0, 1.0], [1.0, 5.0], 1.0, id="the heaviest on the strongest"),
        pytest.param([1.0] * 6, [1.0, 2.0], 2.0, id="the mean by capacity"),
    ],
)
def test_the_least_load(weights: list[float], capacities: list[float], expected: float) -> None:
    everyone = [0, 1]

    assert work({"t": weights}, {"t": everyone}, capacities).least_load() == expected


def test_the_least_load_with_different_subscriptions() -> None:
    one = work({"t": [8.0, 8.0], "u": [1.0]}, {"t": [0, 1], "u": [0, 1, 2, 3]}, [1.0] * 4)

    assert one.least_load() == 8.0
    assert one.alike is None


def test_members_that_may_get_everything() -> None:
    some = [0, 2]

    assert work({"t": [1.0], "u": [1.0]}, {"t": some, "u": some}, [1.0] * 3).alike is some


@pytest.mark.parametrize(("capacity", "counted"), [(1.0, 1.0), (1.2345, 1.2), (99.9, 100.0)])
def test_capacities_count_with_two_digits(capacity: float, counted: float) -> None:
    assert counted_capacity(capacity) == counted
