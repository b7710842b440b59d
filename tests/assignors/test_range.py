"""Holds range to the tables of Kafka's rules, racks included."""

import pytest

from assignors.range import RangeAssignor
from groupsdk.assignment import Cluster, PartitionAssignor, RebalanceProtocol, Subscription
from tests.assignors.groups import cluster, flat, racks, subscribed, written


Members = dict[str, Subscription]
ABC = {"C0": "a", "C1": "b", "C2": "c"}


def ranged(group: Cluster, members: Members) -> dict[str, str]:
    return written(RangeAssignor().assign(group, members))


def test_range_assignor_is_an_eager_partition_assignor() -> None:
    assignor: PartitionAssignor = RangeAssignor()

    assert isinstance(assignor, PartitionAssignor)
    assert (assignor.name, assignor.version) == ("range", 0)
    assert assignor.supported_protocols == {RebalanceProtocol.EAGER}
    assert assignor.subscription_user_data(["t"]) is None


@pytest.mark.parametrize(
    ("group", "members", "expected"),
    [
        (
            cluster(t0=3, t1=3),
            subscribed("C0 C1", "t0 t1"),
            {"C0": "t0-0 t0-1 t1-0 t1-1", "C1": "t0-2 t1-2"},
        ),
        (
            cluster(t=10),
            subscribed("C0 C1 C2", "t"),
            {"C0": "t-0 t-1 t-2 t-3", "C1": "t-4 t-5 t-6", "C2": "t-7 t-8 t-9"},
        ),
        (
            cluster(t=2),
            subscribed("C0 C1 C2 C3", "t"),
            {"C0": "t-0", "C1": "t-1", "C2": "", "C3": ""},
        ),
        (
            cluster(t0=1, t1=2, t2=3),
            subscribed({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}),
            {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"},
        ),
        (
            cluster(t0=1, t1=2, t2=3),
            subscribed({"C1": "t0 t1", "C2": "t0 t1 t2"}),
            {"C1": "t0-0 t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"},
        ),
        (
            cluster(t0=5, t1=2),
            subscribed({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1"}),
            {"C0": "t0-0 t0-1", "C1": "t0-2 t0-3 t1-0", "C2": "t0-4 t1-1"},
        ),
        (
            cluster(t=4),
            subscribed("m-0 m-a m-z", "t", instance={"m-z": "a", "m-a": "b"}),
            {"m-z": "t-0 t-1", "m-a": "t-2", "m-0": "t-3"},
        ),
        (
            cluster(t=3),
            subscribed("aa Bb ZZ", "t"),
            {"Bb": "t-0", "ZZ": "t-1", "aa": "t-2"},
        ),
        (cluster(t=3), subscribed("C0 C1", "gone t"), {"C0": "t-0 t-1", "C1": "t-2"}),
        (
            cluster(t0=2, t1=2, t2=2, t3=2),
            subscribed("C0 C2", "t0 t1 t2 t3"),
            {"C0": "t0-0 t1-0 t2-0 t3-0", "C2": "t0-1 t1-1 t2-1 t3-1"},
        ),
    ],
)
def test_range_assigns_consecutive_partitions(
    group: Cluster, members: Members, expected: dict[str, str]
) -> None:
    assert ranged(group, members) == expected


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


def test_range_counts_a_topic_named_twice_once() -> None:
    # Kafka's class gives such a member two shares, and some of them to nobody
    plan = RangeAssignor().assign(cluster(t=4), subscribed({"C0": "t t", "C1": "t"}))

    assert written(plan) == {"C0": "t-0 t-1", "C1": "t-2 t-3"}


def test_range_without_members_assigns_nothing() -> None:
    assert RangeAssignor().assign(cluster(t=2), {}) == {}


def test_range_result_has_members_without_topics() -> None:
    plan = RangeAssignor().assign(cluster(t=2), subscribed({"C0": "", "C1": "t"}))

    assert written(plan) == {"C0": "", "C1": "t-0 t-1"}


@pytest.mark.parametrize("with_racks", [False, True])
def test_range_assigns_every_partition_once_in_a_large_group(with_racks: bool) -> None:
    topics = [f"topic-{number}" for number in range(7)]
    counts = {topic: 200 + number // 3 for number, topic in enumerate(topics)}
    located = {t: [("ab"[p % 2], "bc"[p % 2]) for p in range(n)] for t, n in counts.items()}
    members = {
        f"m{n}": Subscription(topics[n % 3 :], rack_id="abc"[n % 3] if with_racks else None)
        for n in range(90)
    }

    plan = RangeAssignor().assign(Cluster(counts, located), members)

    assert flat(plan) == sorted((t, p) for t, n in counts.items() for p in range(n))
    for member_id, share in plan.items():
        assert set(share.partitions) <= set(members[member_id].topics)
