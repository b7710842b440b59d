"""Test the groups that assignors are checked with."""

import random
from collections import Counter
from collections.abc import Iterator

from assignors.cooperative_sticky import CooperativeStickyAssignor
from assignors.range import RangeAssignor
from groupsdk.assignment import Assignment, Cluster, Subscription
from groupsdk.assignment.check.cases import (
    GENERATION_ID,
    LARGE,
    SMALL,
    Case,
    Scale,
    after_assignment,
    fresh_case,
    later_case,
    smaller,
)


def pairs(number: int = 200, scale: Scale = SMALL) -> Iterator[tuple[Case, Case]]:
    make = CooperativeStickyAssignor
    for seed in range(number):
        source = random.Random(seed)
        case = fresh_case(source, scale)
        plan = make().assign(case.cluster, case.subscriptions)
        yield case, later_case(source, case, plan, make, scale)


def test_large_groups_are_larger() -> None:
    cases = [case for pair in pairs(40, LARGE) for case in pair]
    assert max(len(case.subscriptions) for case in cases) > 30
    assert max(len(case.cluster.partition_counts) for case in cases) > 10
    assert max(max(case.cluster.partition_counts.values()) for case in cases) == 300


def test_there_are_groups_of_all_kinds() -> None:
    seen: Counter[str] = Counter()
    for first, later in pairs():
        assert not any(each.owned_partitions for each in first.subscriptions.values())
        members = later.subscriptions.values()
        claims = [
            (topic, number)
            for each in members
            for topic, numbers in each.owned_partitions.items()
            for number in numbers
        ]
        counts = later.cluster.partition_counts
        seen["no members"] += not first.subscriptions
        seen["racks"] += bool(first.cluster.replica_racks)
        seen["static"] += any(each.group_instance_id for each in members)
        seen["different"] += len({each.topics for each in members}) > 1
        seen["without topics"] += any(not each.topics for each in members)
        seen["not known"] += any("not known" in each.topics for each in members)
        seen["claimed twice"] += len(claims) > len(set(claims))
        seen["gone"] += any(not 0 <= number < counts.get(topic, 0) for topic, number in claims)
        seen["stale"] += any(0 <= each.generation_id < GENERATION_ID for each in members)
        seen["sound"] += any(each.generation_id == GENERATION_ID for each in members)
    assert min(seen.values()) >= 4, seen


def test_a_case_is_written_as_python() -> None:
    for case in (case for pair in pairs(40) for case in pair):
        names: dict[str, object] = {"Cluster": Cluster, "Subscription": Subscription}
        exec(case.written(), names)
        assert names["cluster"] == case.cluster
        assert names["subscriptions"] == case.subscriptions


def test_shuffled_is_the_same_in_another_order() -> None:
    source = random.Random(1)
    orders = set()
    case = Case(
        Cluster({"t": 1, "u": 1, "v": 1}, {"t": [("a", "b")], "u": [()]}),
        {m: Subscription(("t",), owned_partitions={"t": (0,), "u": (1,)}) for m in "abc"},
    )

    for _ in range(20):
        other = case.shuffled(source)
        orders.add(
            (
                *(tuple(other.subscriptions), tuple(other.cluster.partition_counts)),
                tuple(other.subscriptions["a"].owned_partitions),
                tuple(other.cluster.replica_racks["t"][0]),
            )
        )
        assert other.subscriptions == case.subscriptions
        assert other.cluster.partition_counts == case.cluster.partition_counts
        assert sorted(other.cluster.replica_racks["t"][0]) == ["a", "b"]
    assert len(orders) > 10


def size(case: Case) -> int:
    return len(case.written()) + sum(case.cluster.partition_counts.values())


def test_smaller_has_less() -> None:
    for case in (case for pair in (*pairs(30), *pairs(3, LARGE)) for case in pair):
        for less in smaller(case):
            assert size(less) < size(case)


def test_nothing_is_the_smallest() -> None:
    assert list(smaller(Case(Cluster({}), {}))) == []


def test_next_subscription_after_an_assignment_carries_what_the_protocol_owes() -> None:
    share, before = Assignment({"t": [0, 1]}), Subscription(("t",), rack_id="r")

    eager = after_assignment(RangeAssignor(), before, share, 7)
    cooperative = after_assignment(CooperativeStickyAssignor(), before, share, 7)

    assert eager == before
    assert cooperative.owned_partitions == {"t": (0, 1)}
    assert (cooperative.generation_id, cooperative.rack_id) == (7, "r")
    assert cooperative.user_data == (7).to_bytes(4)
