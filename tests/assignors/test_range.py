"""Holds range to the tables of Kafka's rules, racks included."""

import pytest

from assignors.range import RangeAssignor
from groupsdk.assignment import Cluster, Subscription
from tests.assignors.groups import racks, subscribed, written


Members = dict[str, Subscription]
ABC = {"C0": "a", "C1": "b", "C2": "c"}


def ranged(group: Cluster, members: Members) -> dict[str, str]:
    return written(RangeAssignor().assign(group, members))


@pytest.mark.parametrize(
    ("group", "members", "expected"),
    [
        pytest.param(
            racks(t1="cab", t2="cab"),
            subscribed("C0 C1 C2", "t1 t2", rack=ABC),
            {"C0": "t1-1 t2-1", "C1": "t1-2 t2-2", "C2": "t1-0 t2-0"},
            id="co-partitioned topics are matched together",
        ),
        pytest.param(
            racks(t1="cab", t2="abc"),
            subscribed("C0 C1 C2", "t1 t2", rack=ABC),
            {"C0": "t1-0 t2-0", "C1": "t1-1 t2-1", "C2": "t1-2 t2-2"},
            id="without a common rack they stay together all the same",
        ),
        pytest.param(
            racks(t1="cabc", t2="cab"),
            subscribed("C0 C1 C2", "t1 t2", rack=ABC),
            {"C0": "t1-1 t2-1", "C1": "t1-2 t2-2", "C2": "t1-0 t1-3 t2-0"},
            id="topics of different sizes are matched each by itself",
        ),
        pytest.param(
            racks(t1="abc abc abc", t2="abc abc abc"),
            subscribed("C0 C1 C2", "t1 t2", rack=ABC),
            {"C0": "t1-0 t2-0", "C1": "t1-1 t2-1", "C2": "t1-2 t2-2"},
            id="replicas everywhere need no care",
        ),
        pytest.param(
            racks(t1="baab"),
            subscribed("C0 C1", "t1", rack={"C0": "a"}),
            {"C0": "t1-1 t1-2", "C1": "t1-0 t1-3"},
            id="a member without a rack takes any",
        ),
        pytest.param(
            racks(t1="cab"),
            subscribed("C0 C1 C2", "t1", rack=dict.fromkeys(ABC, "elsewhere")),
            {"C0": "t1-0", "C1": "t1-1", "C2": "t1-2"},
            id="racks that nobody shares are nothing to go by",
        ),
        pytest.param(
            racks(t1="ba"),
            subscribed("C0 C1", "t1", rack={"C0": "", "C1": "b"}),
            {"C0": "t1-0", "C1": "t1-1"},
            id="an empty rack is none",
        ),
    ],
)
def test_range_with_racks_prefers_partitions_in_the_rack(
    group: Cluster, members: Members, expected: dict[str, str]
) -> None:
    assert ranged(group, members) == expected


def test_fewer_racks_than_partitions_are_known() -> None:
    group = Cluster({"t": 3}, {"t": [("b",)]})

    plan = RangeAssignor().assign(group, subscribed("C0 C1", "t", rack={"C0": "a", "C1": "b"}))

    assert written(plan) == {"C0": "t-1 t-2", "C1": "t-0"}


def test_more_racks_than_partitions_are_known() -> None:
    group = Cluster({"t": 1}, {"t": [("a",), ("b",), ("c",)]})

    plan = RangeAssignor().assign(group, subscribed("C0", "t", rack={"C0": "b"}))

    assert written(plan) == {"C0": "t-0"}


@pytest.mark.parametrize("rack", [{}, ABC])
def test_members_come_in_kafkas_order(rack: dict[str, str]) -> None:
    plan = RangeAssignor().assign(
        racks(t="ab"), subscribed("C2 C1 C0", "t", rack=rack, instance={"C2": "i"})
    )

    assert list(plan) == ["C2", "C0", "C1"]


def test_topics_come_in_the_order_of_javas_hash_map() -> None:
    counts = dict.fromkeys(["C0", "C1", "C2", "C10", "Aa", "BB"], 1)

    plan = RangeAssignor().assign(Cluster(counts), {"m": Subscription(tuple(counts))})

    assert list(plan["m"].partitions) == ["Aa", "BB", "C10", "C0", "C1", "C2"]
