"""Test what assignors without a memory have in common, and range and roundrobin on the same groups."""

import pytest

from assignors.base import StatelessAssignor
from assignors.range import RangeAssignor
from assignors.roundrobin import RoundRobinAssignor
from groupsdk.assignment import (
    Assignment,
    Cluster,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from tests.assignors.groups import cluster, flat, subscribed, written


Members = dict[str, Subscription]
BOTH = pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()])


def test_nothing_is_told_and_nothing_is_noted() -> None:
    assignor = StatelessAssignor()

    assignor.on_assignment(Assignment({"t": [1]}), 3)

    assert assignor.subscription_user_data(["t"]) is None
    assert assignor.version == 0
    assert assignor.supported_protocols == frozenset({RebalanceProtocol.EAGER})


@pytest.mark.parametrize(
    ("group", "members", "ranges", "in_turn"),
    [
        (
            cluster(t0=3, t1=3),
            subscribed("C0 C1", "t0 t1"),
            {"C0": "t0-0 t0-1 t1-0 t1-1", "C1": "t0-2 t1-2"},
            {"C0": "t0-0 t0-2 t1-1", "C1": "t0-1 t1-0 t1-2"},
        ),
        (
            cluster(t=10),
            subscribed("C0 C1 C2", "t"),
            {"C0": "t-0 t-1 t-2 t-3", "C1": "t-4 t-5 t-6", "C2": "t-7 t-8 t-9"},
            {"C0": "t-0 t-3 t-6 t-9", "C1": "t-1 t-4 t-7", "C2": "t-2 t-5 t-8"},
        ),
        (
            cluster(t=2),
            subscribed("C0 C1 C2 C3", "t"),
            {"C0": "t-0", "C1": "t-1", "C2": "", "C3": ""},
            {"C0": "t-0", "C1": "t-1", "C2": "", "C3": ""},
        ),
        (
            cluster(t0=1, t1=2, t2=3),
            subscribed({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1 t2"}),
            {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"},
            {"C0": "t0-0", "C1": "t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"},
        ),
        (
            cluster(t0=1, t1=2, t2=3),
            subscribed({"C1": "t0 t1", "C2": "t0 t1 t2"}),
            {"C1": "t0-0 t1-0", "C2": "t1-1 t2-0 t2-1 t2-2"},
            {"C1": "t0-0 t1-1", "C2": "t1-0 t2-0 t2-1 t2-2"},
        ),
        (
            cluster(t0=5, t1=2),
            subscribed({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1"}),
            {"C0": "t0-0 t0-1", "C1": "t0-2 t0-3 t1-0", "C2": "t0-4 t1-1"},
            {"C0": "t0-0 t0-3", "C1": "t0-1 t0-4 t1-1", "C2": "t0-2 t1-0"},
        ),
        (
            cluster(t=4),
            subscribed("m-0 m-a m-z", "t", instance={"m-z": "a", "m-a": "b"}),
            {"m-z": "t-0 t-1", "m-a": "t-2", "m-0": "t-3"},
            {"m-z": "t-0 t-3", "m-a": "t-1", "m-0": "t-2"},
        ),
        (
            cluster(t=3),
            subscribed("aa Bb ZZ", "t"),
            {"Bb": "t-0", "ZZ": "t-1", "aa": "t-2"},
            {"Bb": "t-0", "ZZ": "t-1", "aa": "t-2"},
        ),
        (
            cluster(t=3),
            subscribed("C0 C1", "gone t"),
            {"C0": "t-0 t-1", "C1": "t-2"},
            {"C0": "t-0 t-2", "C1": "t-1"},
        ),
        (
            cluster(t0=2, t1=2, t2=2, t3=2),
            subscribed("C0 C2", "t0 t1 t2 t3"),
            {"C0": "t0-0 t1-0 t2-0 t3-0", "C2": "t0-1 t1-1 t2-1 t3-1"},
            {"C0": "t0-0 t1-0 t2-0 t3-0", "C2": "t0-1 t1-1 t2-1 t3-1"},
        ),
    ],
)
def test_range_assigns_consecutive_partitions_and_roundrobin_deals_them_in_turn(
    group: Cluster, members: Members, ranges: dict[str, str], in_turn: dict[str, str]
) -> None:
    assert written(RangeAssignor().assign(group, members)) == ranges
    assert written(RoundRobinAssignor().assign(group, members)) == in_turn


@BOTH
def test_stateless_assignor_is_an_eager_partition_assignor(assignor: PartitionAssignor) -> None:
    assert isinstance(assignor, PartitionAssignor)
    assert assignor.name == type(assignor).__name__.removesuffix("Assignor").lower()
    assert assignor.version == 0
    assert assignor.supported_protocols == {RebalanceProtocol.EAGER}
    assert assignor.subscription_user_data(["t"]) is None


@BOTH
def test_without_members_nothing_is_assigned(assignor: PartitionAssignor) -> None:
    assert assignor.assign(cluster(t=2), {}) == {}


@BOTH
def test_members_without_topics_are_in_the_result(assignor: PartitionAssignor) -> None:
    plan = assignor.assign(cluster(t=2), subscribed({"C0": "", "C1": "t"}))

    assert written(plan) == {"C0": "", "C1": "t-0 t-1"}


def test_a_topic_that_is_named_twice_counts_once() -> None:
    # Kafka's range gives such a member two shares, and some of them to nobody
    members = subscribed({"C0": "t t", "C1": "t"})

    assert written(RangeAssignor().assign(cluster(t=4), members)) == {
        "C0": "t-0 t-1",
        "C1": "t-2 t-3",
    }
    assert written(RoundRobinAssignor().assign(cluster(t=4), members)) == {
        "C0": "t-0 t-2",
        "C1": "t-1 t-3",
    }


@BOTH
@pytest.mark.parametrize("with_racks", [False, True])
def test_every_partition_is_assigned_once_in_a_large_group(
    assignor: PartitionAssignor, with_racks: bool
) -> None:
    topics = [f"topic-{number}" for number in range(7)]
    counts = {topic: 200 + number // 3 for number, topic in enumerate(topics)}
    located = {t: [("ab"[p % 2], "bc"[p % 2]) for p in range(n)] for t, n in counts.items()}
    members = {
        f"m{n}": Subscription(topics[n % 3 :], rack_id="abc"[n % 3] if with_racks else None)
        for n in range(90)
    }

    plan = assignor.assign(Cluster(counts, located), members)

    assert flat(plan) == sorted((t, p) for t, n in counts.items() for p in range(n))
    for member_id, share in plan.items():
        assert set(share.partitions) <= set(members[member_id].topics)
