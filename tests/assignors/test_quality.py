"""Test the measures of a plan, and its bounds against trying all plans."""

from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings, strategies as st

from assignors.quality import measure, racks_of
from groupsdk.assignment import Assignment, Cluster, Subscription, TopicPartition
from groupsdk.assignment.plan import Plan
from tests.assignors.groups import cluster, racks, subscribed


def plan(
    group: Cluster, members: dict[str, Subscription], **given_to: dict[str, tuple[int, ...]]
) -> Plan:
    empty = {member_id: Assignment() for member_id in members}
    return Plan(group, members, empty | {m: Assignment(each) for m, each in given_to.items()})


def owning(topics: str, generation_id: int = 1, **owned: tuple[int, ...]) -> Subscription:
    return Subscription(tuple(topics.split()), owned_partitions=owned, generation_id=generation_id)


def test_a_fair_plan() -> None:
    quality = measure(
        plan(cluster(t=5), subscribed("a b", "t"), a={"t": (0, 1, 2)}, b={"t": (3, 4)})
    )

    assert quality.is_valid
    assert quality.is_fairest
    assert (quality.partitions, quality.withheld) == (5, 0)
    assert quality.loads == {"a": 3, "b": 2}
    assert (quality.most, quality.least_most, quality.fewest) == (3, 3, 2)
    assert (quality.moves, quality.least_moves) == (0, 0)
    assert quality.spread == 1.0


def test_an_unfair_plan() -> None:
    quality = measure(plan(cluster(t=4), subscribed("a b", "t"), a={"t": (0, 1, 2)}, b={"t": (3,)}))

    assert quality.is_valid
    assert not quality.is_fairest
    assert (quality.most, quality.least_most) == (3, 2)


def test_unfair_by_way_of_a_third_member() -> None:
    # a cannot give to c, but to b, which can give to c
    members = subscribed({"a": "t", "b": "t u", "c": "u"})

    unfair = plan(cluster(t=3, u=1), members, a={"t": (0, 1)}, b={"t": (2,), "u": (0,)})
    fair = plan(cluster(t=3, u=1), members, a={"t": (0, 1)}, b={"t": (2,)}, c={"u": (0,)})

    assert not measure(unfair).is_fairest
    assert measure(fair).is_fairest


def test_problems_are_named_and_the_rest_is_measured_all_the_same() -> None:
    quality = measure(plan(cluster(t=50), subscribed("a b", "t"), a={"t": (0, 99)}, b={"t": (0,)}))

    assert not quality.is_valid
    assert quality.problems[0] == "member 'a' is given t-99, which does not exist"
    assert len(quality.problems) == 20


def test_a_plan_with_members_that_are_none() -> None:
    strange = Plan(cluster(t=1), subscribed("a", "t"), {"z": Assignment({"t": (0,)})})

    quality = measure(strange)

    assert quality.loads == {"a": 0}
    assert quality.withheld == 1


def test_moves_count_what_leaves_an_owner() -> None:
    members = {"a": owning("t", t=(0, 1, 2, 3)), "b": owning("t"), "c": owning("t", t=(4,))}

    quality = measure(
        plan(cluster(t=6), members, a={"t": (0, 4)}, b={"t": (1, 2)}, c={"t": (3, 5)})
    )

    # 1, 2 and 3 left a, and 4 left c; b and c had room for two of them at least
    assert (quality.moves, quality.least_moves) == (4, 2)


def test_withheld_partition_counts_as_a_move() -> None:
    members = {"a": owning("t", t=(0, 1)), "b": owning("t")}

    quality = measure(plan(cluster(t=2), members, a={"t": (0,)}), may_withhold=True)

    assert quality.is_valid
    assert (quality.withheld, quality.moves) == (1, 1)


def test_quality_counts_partitions_off_their_racks() -> None:
    members = subscribed("a b", "t", rack={"a": "a", "b": "b"})

    quality = measure(plan(racks(t="abz"), members, a={"t": (0, 2)}, b={"t": (1,)}))

    assert (quality.off_rack, quality.least_off_rack, quality.with_racks) == (1, 1, 3)
    assert quality.cross_rack == 1 / 3


def test_without_racks_nothing_crosses_them() -> None:
    quality = measure(plan(cluster(t=1), subscribed("a", "t"), a={"t": (0,)}))

    assert (quality.with_racks, quality.cross_rack) == (0, 0.0)
    assert racks_of(racks(t="ab"), TopicPartition("t", 2)) == frozenset()


def test_a_member_without_a_rack_is_near_to_everything() -> None:
    members = subscribed("a b", "t", rack={"a": "x"})

    quality = measure(plan(racks(t="ab"), members, a={"t": (0,)}, b={"t": (1,)}))

    assert (quality.off_rack, quality.least_off_rack, quality.with_racks) == (1, 0, 1)


def test_the_spread_of_topics() -> None:
    members = subscribed("a b", "t u")

    quality = measure(plan(cluster(t=2, u=2), members, a={"t": (0, 1)}, b={"u": (0, 1)}))

    assert quality.is_fairest
    assert quality.spread == 2.0


def test_nothing_to_share_out() -> None:
    quality = measure(Plan(cluster(t=2), {}, {}))

    assert quality.is_valid
    assert quality.is_fairest
    assert (quality.most, quality.least_most, quality.fewest, quality.spread) == (0, 0, 0, 0.0)


members_and_owners = st.lists(
    st.tuples(
        st.sets(st.sampled_from("tu")),
        st.dictionaries(
            st.sampled_from("tu"), st.sets(st.integers(0, 3)).map(lambda s: tuple(sorted(s)))
        ),
        st.integers(-1, 2),
    ),
    min_size=1,
    max_size=3,
)


def all_plans(group: Cluster, members: dict[str, Subscription]) -> Iterator[Plan]:
    """Tries everything."""
    partitions = [
        (topic, number)
        for topic, count in group.partition_counts.items()
        for number in range(count)
    ]
    choices: list[list[str | None]] = [
        [*(member_id for member_id, each in members.items() if topic in each.topics)] or [None]
        for topic, _ in partitions
    ]
    for chosen in product(*choices):
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in members}
        for (topic, number), member_id in zip(partitions, chosen, strict=True):
            if member_id is not None:
                shares[member_id].setdefault(topic, []).append(number)
        yield Plan(group, members, {m: Assignment(share) for m, share in shares.items()})


@given(st.integers(0, 3), st.integers(0, 3), members_and_owners)
@settings(max_examples=150, deadline=None)
def test_bounds_and_fairness_against_all_plans(
    t: int, u: int, described: list[tuple[set[str], dict[str, tuple[int, ...]], int]]
) -> None:
    members = {
        f"m{number}": Subscription(sorted(topics), None, owned, generation_id)
        for number, (topics, owned, generation_id) in enumerate(described)
    }
    measured = [measure(each) for each in all_plans(cluster(t=t, u=u), members)]

    assert all(quality.is_valid for quality in measured)
    fairest = min(sorted(quality.loads.values(), reverse=True) for quality in measured)
    for quality in measured:
        loads = sorted(quality.loads.values(), reverse=True)
        assert quality.is_fairest == (loads == fairest)
        assert quality.least_most <= fairest[0]
        alike = [
            other.moves
            for other in measured
            if (other.is_fairest if quality.is_fairest else other.most <= quality.most)
        ]
        assert quality.least_moves <= min(alike)


@given(st.integers(0, 4), st.integers(0, 3), st.integers(1, 3), st.data())
@settings(max_examples=40, deadline=None)
def test_with_equal_subscriptions_the_bounds_are_reached(
    t: int, u: int, size: int, data: st.DataObject
) -> None:
    owners = data.draw(st.lists(st.integers(-1, size - 1), min_size=t, max_size=t))
    members = {
        f"m{m}": owning("t u", t=tuple(p for p, owner in enumerate(owners) if owner == m))
        for m in range(size)
    }
    fair = [q for q in map(measure, all_plans(cluster(t=t, u=u), members)) if q.is_fairest]

    assert {quality.most for quality in fair} == {fair[0].least_most}
    assert min(quality.moves for quality in fair) == fair[0].least_moves
