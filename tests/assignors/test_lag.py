"""The assignor `lag`: counts as sticky's, swaps by lag beyond a threshold, rounds that end, and noise that moves nothing."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from assignors import LagAssignor, StickyAssignor, check_assignor, resolve
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    MemberReport,
    Subscription,
    TopicPartition,
)
from groupsdk.assignment.member_report import merged_lags, split_report, with_report
from groupsdk.assignment.plan import Plan, find_problems
from groupsdk.errors import ConfigError
from tests.support.cases import each_case


Lags = dict[str, dict[int, int]]


@dataclass
class Group:
    """Members that apply what they are given, in the eager or the cooperative protocol."""

    counts: dict[str, int]
    topics: dict[str, tuple[str, ...]]
    cooperative: bool = True
    most_swaps: int | None = None
    generation: int = 0
    owned: dict[str, set[TopicPartition]] = field(default_factory=dict)
    makers: dict[str, LagAssignor] = field(default_factory=dict)

    def rebalance(self, lags: Lags) -> int:
        """Rebalance until nobody has to revoke anything. Return how many partitions changed their owner."""
        before = {place: member for member, mine in self.owned.items() for place in mine}
        for round_number in range(3):
            assert round_number < 2, "a third round"
            if not self._round(lags):
                break
        after = {place: member for member, mine in self.owned.items() for place in mine}
        assert len(after) == sum(map(len, self.owned.values()))
        return sum(before[place] != member for place, member in after.items() if place in before)

    def _round(self, lags: Lags) -> bool:
        self.generation += 1
        self.owned = {each: self.owned.get(each, set()) for each in self.topics}
        for member in self.topics:
            self.makers.setdefault(member, LagAssignor(most_swaps=self.most_swaps))
        subscriptions = {
            member: Subscription(
                topics,
                user_data=self.makers[member].subscription_user_data(topics),
                owned_partitions=by_topic(self.owned[member]) if self.cooperative else {},
                generation_id=self.generation - 1,
            )
            for member, topics in self.topics.items()
        }
        cluster = Cluster(self.counts, lags=lags)
        plan = next(iter(self.makers.values())).assign(cluster, subscriptions)
        made = Plan(cluster, subscriptions, plan)
        assert not list(find_problems(made, may_withhold=self.cooperative))
        revoked = False
        for member, share in plan.items():
            new = set(share)
            revoked = revoked or bool(self.owned[member] - new)
            self.owned[member] = new
            self.makers[member].on_assignment(share, self.generation)
        return revoked and self.cooperative

    def loads(self, lags: Lags) -> dict[str, int]:
        return {
            member: sum(lags.get(each.topic, {}).get(each.partition, 0) for each in mine)
            for member, mine in self.owned.items()
        }


def by_topic(places: set[TopicPartition]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def group_of(members: int, partitions: int) -> Group:
    names = [f"m-{number}" for number in range(members)]
    return Group({"t": partitions}, dict.fromkeys(names, ("t",)))


def assign(lags: Lags, owned: Mapping[str, tuple[int, ...]], **arguments: float) -> GroupAssignment:
    """Assign one topic to members that own it."""
    subscriptions = {
        member: Subscription(("t",), owned_partitions={"t": numbers}, generation_id=1)
        for member, numbers in owned.items()
    }
    count = sum(map(len, owned.values()))
    assignor = LagAssignor(**arguments)  # type: ignore[arg-type]  # of several types
    return assignor.assign(Cluster({"t": count}, lags=lags), subscriptions)


def test_lag_assignor_is_a_partition_assignor() -> None:
    assert check_assignor(LagAssignor, cases=60)
    assert resolve("lag").name == "lag"


@given(
    st.integers(1, 6),
    st.integers(0, 20),
    st.booleans(),
)
def test_without_lags_it_assigns_as_sticky_does(members: int, partitions: int, none: bool) -> None:
    lags = {} if none else {"t": dict.fromkeys(range(partitions), 0)}
    subscriptions = {f"m-{number}": Subscription(("t",)) for number in range(members)}
    cluster = Cluster({"t": partitions}, lags=lags)
    plain = StickyAssignor().assign(Cluster({"t": partitions}), subscriptions)
    assert LagAssignor().assign(cluster, subscriptions) == plain


def test_heavy_partitions_of_one_member_are_swapped_for_light_ones() -> None:
    heavy = {"t": {0: 90_000, 1: 90_000, 2: 0, 3: 0, 4: 0, 5: 0}}
    plan = assign(heavy, {"a": (0, 1, 2), "b": (3, 4, 5)})
    # b gets one of the heavy ones once a has revoked it, and a one of b's
    assert {each: len(share) for each, share in plan.items()} == {"a": 2, "b": 2}
    assert len({0, 1} & set(plan["a"].partitions["t"])) == 1


@each_case(
    ("lags", "arguments"),
    [
        ({0: 140, 1: 60}, {"least_lag": 0}),  # within the threshold
        ({0: 1_900, 1: 0, 2: 900, 3: 0}, {}),  # the heaviest partition alone makes it up
        ({0: 400, 1: 400}, {}),  # less than least_lag
        ({0: 90_000, 1: 90_000}, {"most_swaps": 0}),
    ],
)
def test_nothing_moves_within_the_bounds(lags: dict[int, int], arguments: dict[str, float]) -> None:
    owned = {"a": (0, 1), "b": (2, 3)}
    plan = assign({"t": {2: 0, 3: 0} | lags}, owned, **arguments)
    assert {each: share.partitions.get("t") for each, share in plan.items()} == owned


def test_unknown_lags_count_as_the_mean() -> None:
    owned = {"a": (0, 1), "b": (2, 3)}
    plan = assign({"t": {2: 50_000, 3: 50_000}}, owned)
    assert {each: share.partitions.get("t") for each, share in plan.items()} == owned


@each_case(("lag", "swapped"), [(20_000, False), (60_000, True)])
def test_a_swap_that_gains_little_is_not_made(lag: int, swapped: bool) -> None:
    # each reads a topic of its own, and only one partition of the third can be swapped
    owned = {
        "a": {"heavy": (0, 1), "shared": (0,)},
        "b": {"light": (0, 1), "shared": (1,)},
    }
    members = {each: Subscription(tuple(mine), None, mine, 1) for each, mine in owned.items()}
    lags = {"heavy": {0: 100_000, 1: 100_000}, "light": {0: 0, 1: 0}, "shared": {0: lag, 1: 0}}
    cluster = Cluster({"heavy": 2, "light": 2, "shared": 2}, lags=lags)
    plan = LagAssignor().assign(cluster, members)
    assert ("shared" not in plan["b"].partitions) == swapped


def test_no_more_is_swapped_than_may_be() -> None:
    group = group_of(4, 40)
    group.rebalance({})
    heaviest = max(group.owned, key=str)
    lags: Lags = {"t": dict.fromkeys(range(40), 10)}
    for place in group.owned[heaviest]:
        lags["t"][place.partition] = 50_000
    group.most_swaps = 2
    group.makers = {}
    assert group.rebalance(lags) == 4
    assert group.loads(lags)[heaviest] == 8 * 50_000 + 2 * 10


def test_a_new_member_gets_its_count_whatever_the_lags() -> None:
    group = group_of(2, 9)
    group.rebalance({})
    group.topics["m-9"] = ("t",)
    group.rebalance({"t": {0: 1_000_000}})
    assert sorted(map(len, group.owned.values())) == [3, 3, 3]


@settings(max_examples=60)
@given(st.data(), st.booleans())
def test_any_group_settles_in_two_rounds_with_sticky_counts(
    data: st.DataObject, cooperative: bool
) -> None:
    counts = {
        topic: data.draw(st.integers(0, 12)) for topic in data.draw(st.sampled_from(["t", "tu"]))
    }
    subscription = st.sampled_from([("t",), ("u",), ("t", "u")])
    names = [f"m-{number}" for number in range(data.draw(st.integers(1, 5)))]
    group = Group(counts, {each: data.draw(subscription) for each in names}, cooperative)
    for _ in range(4):
        lag = st.integers(0, 2**40)
        lags = {
            topic: {number: data.draw(lag) for number in range(count)}
            for topic, count in counts.items()
        }
        if data.draw(st.booleans()):
            group.topics[data.draw(st.sampled_from(names))] = data.draw(subscription)
        group.rebalance(lags)
        subscriptions = {each: Subscription(topics) for each, topics in group.topics.items()}
        fair = StickyAssignor().assign(Cluster(counts), subscriptions)
        assert sorted(map(len, group.owned.values())) == sorted(map(len, fair.values()))
        # nor do more swaps, if the first rebalance was not allowed to make all of them, add to the greatest lag
        greatest = max(group.loads(lags).values())
        group.rebalance(lags)
        assert max(group.loads(lags).values()) <= greatest


def noisy(lags: dict[int, int], noise: float, draws: random.Random) -> Lags:
    """Measure lags anew, each wrong by up to this part of it."""
    factors = [draws.uniform(1 - noise, 1 + noise) for _ in lags]
    return {"t": {n: round(lag * by) for (n, lag), by in zip(lags.items(), factors, strict=True)}}


@pytest.mark.parametrize("seed", range(5))
def test_noisy_lags_do_not_make_it_flap(seed: int) -> None:
    """A hundred rebalances without any cause but the noise: each lag is measured anew."""
    draws = random.Random(seed)
    group = group_of(6, 48)
    group.most_swaps = 48
    group.rebalance({})
    lags = {number: round(draws.lognormvariate(9, 1)) for number in range(48)}
    for place in group.owned["m-0"]:
        lags[place.partition] *= 10
    assert group.rebalance({"t": lags}) > 0
    loads = group.loads({"t": lags}).values()
    assert max(loads) <= 1.1 * max(sum(loads) / 6, *lags.values())
    assert not any(group.rebalance(noisy(lags, 0.15, draws)) for _ in range(50))
    assert sum(group.rebalance(noisy(lags, 0.5, draws)) > 0 for _ in range(50)) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_lags_that_are_noise_alone_move_nothing(seed: int) -> None:
    """Consumers that keep up: every lag is what came in since the last fetch."""
    draws = random.Random(seed)
    group = group_of(5, 30)
    group.rebalance({})
    assert (
        sum(
            group.rebalance({"t": {n: draws.randrange(300) for n in range(30)}}) for _ in range(100)
        )
        == 0
    )


def test_a_swap_takes_no_partition_off_its_rack() -> None:
    racks = {"t": [{"x"}, {"x"}, {"y"}, {"y"}]}
    lags: Lags = {"t": {0: 90_000, 1: 90_000, 2: 0, 3: 0}}
    members = {
        name: Subscription(("t",), owned_partitions={"t": numbers}, generation_id=1, rack_id=rack)
        for name, numbers, rack in (("a", (0, 1), "x"), ("b", (2, 3), "y"))
    }
    plan = LagAssignor().assign(Cluster({"t": 4}, racks, lags), members)
    assert plan == {"a": Assignment({"t": (0, 1)}), "b": Assignment({"t": (2, 3)})}


def test_reports_of_members_carry_the_lags() -> None:
    report = MemberReport("c-1", 0.5, {"t": {0: 90_000}})
    _, found = split_report(with_report(b"own", report))
    assert found is not None
    assert merged_lags({"m": found, "n": None})["t"][0] == pytest.approx(90_000, rel=1e-3)


@each_case(
    ("arguments", "told"),
    [
        ({"threshold": 0.01}, "threshold is 0.01; it must be 0.05 to 100"),
        ({"tolerance": 0.3}, "tolerance is 0.3; it must be 0 to 0.25, half the threshold"),
        ({"least_lag": -1}, "least_lag is -1; it must be 0 or more"),
        ({"most_swaps": -1}, "most_swaps is -1; it must be 0 or more, or None"),
    ],
)
def test_arguments_out_of_bounds_are_refused(arguments: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        LagAssignor(**arguments)  # type: ignore[arg-type]  # of several types
