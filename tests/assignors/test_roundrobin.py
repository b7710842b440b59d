"""Holds roundrobin to the tables of Kafka's rules."""

import pytest

from assignors.roundrobin import RoundRobinAssignor
from groupsdk.assignment import Cluster, PartitionAssignor, RebalanceProtocol, Subscription
from tests.assignors.groups import cluster, flat, subscribed, written


def test_roundrobin_assignor_is_an_eager_partition_assignor() -> None:
    assignor: PartitionAssignor = RoundRobinAssignor()

    assert isinstance(assignor, PartitionAssignor)
    assert (assignor.name, assignor.version) == ("roundrobin", 0)
    assert assignor.supported_protocols == {RebalanceProtocol.EAGER}
    assert assignor.subscription_user_data(["t"]) is None


@pytest.mark.parametrize(
    ("group", "members", "expected"),
    [
        (
            cluster(t0=3, t1=3),
            subscribed("C0 C1", "t0 t1"),
            {"C0": "t0-0 t0-2 t1-1", "C1": "t0-1 t1-0 t1-2"},
        ),
        (
            cluster(t=10),
            subscribed("C0 C1 C2", "t"),
            {"C0": "t-0 t-3 t-6 t-9", "C1": "t-1 t-4 t-7", "C2": "t-2 t-5 t-8"},
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
            {"C1": "t0-0 t1-1", "C2": "t1-0 t2-0 t2-1 t2-2"},
        ),
        (
            cluster(t0=5, t1=2),
            subscribed({"C0": "t0", "C1": "t0 t1", "C2": "t0 t1"}),
            {"C0": "t0-0 t0-3", "C1": "t0-1 t0-4 t1-1", "C2": "t0-2 t1-0"},
        ),
        (
            cluster(t=4),
            subscribed("m-0 m-a m-z", "t", instance={"m-z": "a", "m-a": "b"}),
            {"m-z": "t-0 t-3", "m-a": "t-1", "m-0": "t-2"},
        ),
        (cluster(t=3), subscribed("C0 C1", "gone t"), {"C0": "t-0 t-2", "C1": "t-1"}),
        (
            cluster(t0=2, t1=2, t2=2, t3=2),
            subscribed("C0 C2", "t0 t1 t2 t3"),
            {"C0": "t0-0 t1-0 t2-0 t3-0", "C2": "t0-1 t1-1 t2-1 t3-1"},
        ),
    ],
)
def test_roundrobin_deals_partitions_in_turn(
    group: Cluster, members: dict[str, Subscription], expected: dict[str, str]
) -> None:
    assert written(RoundRobinAssignor().assign(group, members)) == expected


def test_topics_are_sorted_by_utf16_code_units() -> None:
    group = Cluster({"\ufffd": 1, "\U0001f600": 1, "t": 1})

    plan = RoundRobinAssignor().assign(group, {"C0": Subscription(tuple(group.partition_counts))})

    assert list(plan["C0"].partitions) == ["t", "\U0001f600", "\ufffd"]


def test_roundrobin_counts_a_topic_named_twice_once() -> None:
    plan = RoundRobinAssignor().assign(cluster(t=4), subscribed({"C0": "t t", "C1": "t"}))

    assert written(plan) == {"C0": "t-0 t-2", "C1": "t-1 t-3"}


def test_roundrobin_without_members_assigns_nothing() -> None:
    assert RoundRobinAssignor().assign(cluster(t=2), {}) == {}


def test_roundrobin_result_has_members_without_topics() -> None:
    plan = RoundRobinAssignor().assign(cluster(t=2), subscribed({"C0": "", "C1": "t"}))

    assert written(plan) == {"C0": "", "C1": "t-0 t-1"}


def test_roundrobin_assigns_every_partition_once_in_a_large_group() -> None:
    topics = [f"topic-{number}" for number in range(7)]
    counts = {topic: 7 + 40 * number for number, topic in enumerate(topics)}
    members = {f"m{n}": Subscription(topics[n % 3 :]) for n in range(90)}

    plan = RoundRobinAssignor().assign(Cluster(counts), members)

    assert flat(plan) == sorted((t, p) for t, n in counts.items() for p in range(n))
    for member_id, share in plan.items():
        assert set(share.partitions) <= set(members[member_id].topics)
