"""Test that work is compared between a group and a larger one of the same kind."""

from collections.abc import Callable, Collection

import pytest

from groupsdk.assignment.check.cases import Case
from groupsdk.assignment.check.steps import growth_problem


def _members(case: Case) -> Collection[object]:
    return case.subscriptions


def _topics(case: Case) -> Collection[object]:
    return case.cluster.partition_counts


def _partitions(case: Case) -> Collection[object]:
    return range(max(case.cluster.partition_counts.values()))


def _walk(some: Collection[object], others: Collection[object]) -> None:
    for _ in some:
        for _ in others:
            pass


@pytest.mark.parametrize(
    ("kind", "things"), [("members", _members), ("topics", _topics), ("partitions", _partitions)]
)
def test_the_square_of_one_kind_is_told(
    kind: str, things: Callable[[Case], Collection[object]]
) -> None:
    problem = growth_problem(lambda case: lambda: _walk(things(case), things(case)))

    assert problem is not None
    assert problem.endswith(f"4 times the {kind}")


def test_the_product_of_two_kinds_is_accepted() -> None:
    assert growth_problem(lambda case: lambda: _walk(_members(case), _topics(case))) is None
