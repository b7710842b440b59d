"""Test the weighted assignor as a group uses it: reports in, shares out."""

import logging
import random
from collections.abc import Callable

import pytest

from assignors.weighted import WeightedAssignor, WeightReport
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.errors import ConfigError
from tests.assignors.groups import flat


TOPICS = ("t", "u")
CLUSTER = Cluster({"t": 40, "u": 25})
WEIGHTS = {
    topic: {p: float(1 + (p * 7 + len(topic)) % 13) for p in range(count)}
    for topic, count in CLUSTER.partition_counts.items()
}


def member(assignor: WeightedAssignor) -> Subscription:
    return Subscription(TOPICS, user_data=assignor.subscription_user_data(TOPICS))


def load(share: Assignment) -> float:
    return sum(WEIGHTS[topic][partition] for topic, partition in share)


def moves(before: GroupAssignment, after: GroupAssignment) -> int:
    """Counts what a member that is still there had and has no more."""
    return sum(len(set(before[m]) - set(after[m])) for m in before if m in after)


def test_weighted_assignor_is_an_eager_partition_assignor() -> None:
    assignor: PartitionAssignor = WeightedAssignor()

    assert isinstance(assignor, PartitionAssignor)
    assert (assignor.name, assignor.version) == ("weighted", 0)
    assert assignor.supported_protocols == {RebalanceProtocol.EAGER}


def test_a_group_over_several_rebalances() -> None:
    members = {f"m{n}": WeightedAssignor(weights=lambda: WEIGHTS) for n in range(5)}
    mean = sum(sum(weights.values()) for weights in WEIGHTS.values()) / 5

    first = members["m0"].assign(CLUSTER, {m: member(each) for m, each in members.items()})

    assert flat(first) == sorted(
        (t, p) for t, n in CLUSTER.partition_counts.items() for p in range(n)
    )
    assert max(map(load, first.values())) <= 1.02 * mean
    for member_id, share in first.items():
        members[member_id].on_assignment(share, 1)

    again = members["m0"].assign(CLUSTER, {m: member(each) for m, each in members.items()})
    assert again == first

    # a member leaves: what the others have stays theirs
    del members["m4"]
    without = members["m0"].assign(CLUSTER, {m: member(each) for m, each in members.items()})
    assert max(map(load, without.values())) <= 1.02 * mean * 5 / 4
    assert moves(first, without) <= 3


def test_weighted_member_reports_its_capacity_weights_and_ownership() -> None:
    assignor = WeightedAssignor(capacity=2.0, weights=lambda: {"t": {3: 1.5}})
    assignor.on_assignment(Assignment({"t": (3,)}), 9)

    data = assignor.subscription_user_data(TOPICS)

    assert data is not None
    assert WeightReport.decode(data) == WeightReport(2.0, {"t": (3,)}, 9, {"t": {3: 1.5}})


def test_a_weight_that_cannot_be_is_named() -> None:
    with pytest.raises(ValueError, match=r"the weight of t-3 is -1\.0; it must be 0 to 1e"):
        WeightedAssignor(weights=lambda: {"t": {3: -1.0}}).subscription_user_data(TOPICS)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: WeightedAssignor(capacity=0), "capacity is 0; it must be 0.01 to 100"),
        (lambda: WeightedAssignor(tolerance=2), "tolerance is 2; it must be 0 to 1"),
        (lambda: WeightedAssignor(rack_moves=-1), "rack_moves is -1; it must be 0 or more"),
    ],
)
def test_arguments_out_of_bounds(make: Callable[[], WeightedAssignor], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()


def test_a_report_that_cannot_be_read_counts_for_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    members = {
        "bad": Subscription(TOPICS, user_data=b"\x01\x02"),
        "good": Subscription(TOPICS, user_data=WeightReport(3.0).encode()),
    }

    with caplog.at_level(logging.WARNING):
        plan = WeightedAssignor().assign(CLUSTER, members)

    assert abs(len(plan["good"]) - 3 * len(plan["bad"])) <= 3
    assert "member bad: its weight report cannot be read" in caplog.text


def test_a_member_from_another_assignor_keeps_what_its_subscription_says() -> None:
    owned = {"t": tuple(range(0, 40, 2)), "u": tuple(range(13))}
    members = {
        "a": Subscription(TOPICS, owned_partitions=owned, generation_id=3),
        "b": Subscription(TOPICS),
    }

    assert WeightedAssignor().assign(CLUSTER, members)["a"].partitions == owned


@pytest.mark.parametrize(
    "owned",
    [
        {"t": (0, 99, -1)},
        {"gone": (0,)},
        {"t": (0, 0, 1)},
    ],
)
def test_claims_that_cannot_be_true(owned: dict[str, tuple[int, ...]]) -> None:
    report = WeightReport(owned_partitions=owned, generation_id=1).encode()
    members = {m: Subscription(TOPICS, user_data=report) for m in "ab"}

    plan = WeightedAssignor().assign(CLUSTER, members)

    assert flat(plan) == sorted(
        (t, p) for t, n in CLUSTER.partition_counts.items() for p in range(n)
    )


def test_the_newer_claim_counts() -> None:
    members = {
        "a": Subscription(("t",), user_data=WeightReport(1.0, {"t": (0,)}, 3).encode()),
        "b": Subscription(("t",), user_data=WeightReport(1.0, {"t": (0,)}, 4).encode()),
    }

    plan = WeightedAssignor().assign(Cluster({"t": 2}), members)

    assert plan["b"].partitions == {"t": (0,)}


def test_no_members_and_no_topics() -> None:
    assert WeightedAssignor().assign(CLUSTER, {}) == {}
    assert WeightedAssignor().assign(CLUSTER, {"m": Subscription(())}) == {"m": Assignment()}
    assert WeightedAssignor().assign(Cluster({}), {"m": Subscription(TOPICS)}) == {
        "m": Assignment()
    }


def test_no_order_of_the_input_matters() -> None:
    source = random.Random(5)
    racks = {t: [("ab"[p % 2],) for p in range(n)] for t, n in CLUSTER.partition_counts.items()}
    owned = {"m1": {"t": (1, 2, 3, 9), "u": (4, 5)}, "m2": {"u": tuple(range(6, 20))}}
    members = {
        f"m{n}": Subscription(
            TOPICS[: 1 + n % 2],
            user_data=WeightReport(1.0 + n, owned.get(f"m{n}", {}), 4, WEIGHTS).encode(),
            rack_id="abc"[n % 3],
        )
        for n in range(6)
    }
    first = WeightedAssignor(rack_moves=3).assign(Cluster(CLUSTER.partition_counts, racks), members)

    for _ in range(5):
        shuffled = dict(source.sample(list(members.items()), len(members)))
        turned = dict(reversed(list(CLUSTER.partition_counts.items())))
        again = WeightedAssignor(rack_moves=3).assign(
            Cluster(turned, dict(reversed(racks.items()))), shuffled
        )
        assert again == first
        assert [list(share.partitions) for share in again.values()] == [
            list(share.partitions) for share in first.values()
        ]
