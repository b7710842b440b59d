"""What members say and get, decoded once and never with a failure."""

from statistics import pstdev

import pytest
from hypothesis import given, strategies as st

from groupsdk.history.explain.timeline.member import (
    DecodedSubscription,
    Member,
    deviation,
    read_assignment,
    read_subscription,
)


SUBSCRIPTION = bytes.fromhex(
    "000300000002000174000175000000020102000000010001740000000200000000000000020000000700027231"
)
ASSIGNMENT = bytes.fromhex("000000000001000174000000020000000000000002ffffffff")


def test_a_subscription_tells_topics_partitions_and_rack() -> None:
    assert read_subscription(SUBSCRIPTION) == DecodedSubscription(
        ("t", "u"), (("t", (0, 2)),), "r1"
    )


def test_an_assignment_tells_partitions_in_order() -> None:
    assert read_assignment(ASSIGNMENT) == ((("t", (0, 2)),), None)
    reverse = ASSIGNMENT.replace(
        bytes.fromhex("0000000000000002"), bytes.fromhex("0000000200000000")
    )
    assert read_assignment(reverse) == ((("t", (0, 2)),), None)


def test_nothing_is_nothing() -> None:
    assert read_subscription(b"") == DecodedSubscription()
    assert read_assignment(b"") == ((), None)


@given(st.binary(min_size=1, max_size=60))
def test_unreadable_member_data_has_its_problem(data: bytes) -> None:
    wants = read_subscription(data)
    assert wants.problem is None or wants == DecodedSubscription(problem=wants.problem)
    assigned, problem = read_assignment(data)
    assert problem is None or assigned == ()
    assert read_assignment(ASSIGNMENT[:-6])[1]
    assert read_subscription(SUBSCRIPTION[:9]).problem


def test_a_member_counts_its_partitions() -> None:
    member = Member("a", None, "c", "/h", 1, 2, assigned=(("t", (0, 1)), ("u", (5,))))
    assert member.n_partitions == 3
    assert member.client == ("c", "/h")


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_how_uneven_loads_are_is_their_standard_deviation(loads: list[int]) -> None:
    assert deviation(loads) == pytest.approx(pstdev(loads), rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("loads", [[], [0], [7], [5] * 13])
def test_equal_loads_deviate_by_nothing(loads: list[int]) -> None:
    assert deviation(loads) == 0.0
