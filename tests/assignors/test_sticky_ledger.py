"""Every bug that Kafka's sticky assignors had and fixed, by its number: none of them is ours.

What each was about is told by its ticket in Apache Kafka's tracker and the pull request that closed it.
"""

import random
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

import pytest

from assignors.cooperative_sticky import CooperativeStickyAssignor
from assignors.quality import measure
from assignors.sticky import StickyAssignor
from assignors.sticky.general_case import share_fairly
from assignors.sticky.ownership import find_owners
from assignors.sticky.partition_rows import make_partition_rows
from assignors.sticky.plan import share_evenly
from assignors.sticky.subscription_index import SubscriptionIndex
from assignors.sticky.user_data import encode_claim, encode_generation
from groupsdk.assignment import Cluster, GroupAssignment, Partitions, Subscription
from groupsdk.assignment.check.steps import StepLimit
from groupsdk.assignment.plan import Plan, find_problems
from tests.support.cases import each_case


Claims = Mapping[str, tuple[int, Mapping[str, Sequence[int]]]]
"""Member to the generation of its claim, and what it claims."""


def eager(cluster: Cluster, claims: Claims, topics: Sequence[str]) -> dict[str, Partitions]:
    """Lets `sticky` share out among members with equal subscriptions."""
    subscriptions = {
        member: Subscription(topics, encode_claim(owned, generation))
        for member, (generation, owned) in claims.items()
    }
    plan = StickyAssignor().assign(cluster, subscriptions)
    assert not list(find_problems(Plan(cluster, subscriptions, plan)))
    return {member: share.partitions for member, share in plan.items()}


def joined(claims: Claims, topics: Sequence[str]) -> dict[str, Subscription]:
    """Writes what members of a cooperative group join with."""
    return {
        member: Subscription(topics, None, owned, generation)
        for member, (generation, owned) in claims.items()
    }


def next_round(
    subscriptions: Mapping[str, Subscription], plan: GroupAssignment, generation_id: int
) -> dict[str, Subscription]:
    """Lets members give up what they were not given, and claim what they were."""
    return {
        member: replace(each, owned_partitions=plan[member].partitions, generation_id=generation_id)
        for member, each in subscriptions.items()
    }


def rounds_until_settled(cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> int:
    """Plays cooperative rounds; returns in which one everybody has what it keeps."""
    before = None
    for number in count():
        plan = CooperativeStickyAssignor().assign(cluster, subscriptions)
        if plan == before:
            return number
        assert number < 10, "does not come to an end"
        before = plan
        subscriptions = next_round(subscriptions, plan, 10 + number)
    raise AssertionError


def test_kafka_7026_a_partition_with_two_claims_goes_to_one_member() -> None:
    # A was away for a generation and comes back with its old claim; 0 and 3 are B's and C's by now.
    claims: Claims = {
        "A": (1, {"t": (0, 3)}),
        "B": (2, {"t": (0, 1, 4)}),
        "C": (2, {"t": (2, 3, 5)}),
    }

    found = eager(Cluster({"t": 6}), claims, ["t"])

    assert sorted(len(each["t"]) for each in found.values()) == [2, 2, 2]
    assert set(found["B"]["t"]) < {0, 1, 4}
    assert set(found["C"]["t"]) < {2, 3, 5}


@each_case("seed", range(50))
def test_kafka_9987_the_fast_way_for_equal_subscriptions_is_as_good_as_the_other(seed: int) -> None:
    chance = random.Random(seed)
    counts = {f"t{index}": chance.randint(1, 9) for index in range(chance.randint(1, 4))}
    members = chance.randint(1, 5)
    claims: list[dict[str, list[int]]] = [{} for _ in range(members)]
    for topic, number in ((t, n) for t, size in counts.items() for n in range(size)):
        if chance.random() < 0.8:
            owner = chance.choice([0, chance.randrange(members)])
            claims[owner].setdefault(topic, []).append(number)
    subscribed = [frozenset(counts)] * members

    def kept(hands: Sequence[Partitions]) -> tuple[list[int], int]:
        loads = sorted(sum(map(len, hand.values())) for hand in hands)
        own = [
            len(set(hand.get(topic, ())) & set(numbers))
            for hand, claim in zip(hands, claims, strict=True)
            for topic, numbers in claim.items()
        ]
        return loads, sum(own)

    ownership = find_owners(claims, [1] * members, SubscriptionIndex(subscribed, counts), counts)
    fast = share_evenly(ownership, sum(counts.values())).holdings
    rows = make_partition_rows(SubscriptionIndex(subscribed, counts), counts, [None] * members, {})
    assert kept(fast) == kept(share_fairly(ownership, rows, moves_first=False).holdings)


def test_kafka_9987_equal_subscriptions_are_equal_in_any_order() -> None:
    cluster = Cluster({"t": 3, "u": 3})
    plain = {"a": Subscription(["t", "u"]), "b": Subscription(["t", "u"])}
    other = {"a": Subscription(["u", "t", "u"]), "b": Subscription(["gone", "t", "u"])}

    assert StickyAssignor().assign(cluster, other) == StickyAssignor().assign(cluster, plain)


@pytest.mark.parametrize(
    ("claimed", "limit"),
    [pytest.param(False, 90_000, id="first"), pytest.param(True, 150_000, id="one left")],
)
def test_kafka_12464_equal_subscriptions_take_about_a_step_a_partition(
    claimed: bool, limit: int
) -> None:
    cluster = Cluster({f"topic-{index:03}": 1000 for index in range(100)})
    topics = tuple(cluster.partition_counts)
    subscriptions = {f"m{index:04}": Subscription(topics) for index in range(1000)}
    if claimed:
        plan = CooperativeStickyAssignor().assign(cluster, subscriptions)
        subscriptions = next_round(subscriptions, plan, 1)
        del subscriptions["m0500"]

    with StepLimit(limit):
        plan = CooperativeStickyAssignor().assign(cluster, subscriptions)

    assert sum(map(len, plan.values())) == 100_000


def test_kafka_12675_different_subscriptions_stay_within_steps_and_memory() -> None:
    # Java's class took minutes and gigabytes where every member reads some of many topics.
    chance = random.Random(1)
    cluster = Cluster({f"topic-{index:03}": 50 for index in range(400)})
    topics = list(cluster.partition_counts)
    subscriptions = {
        f"m{index:03}": Subscription(chance.sample(topics, chance.randint(1, 200)))
        for index in range(200)
    }
    first = CooperativeStickyAssignor().assign(cluster, subscriptions)
    subscriptions = next_round(subscriptions, first, 1)
    for index in range(20):
        del subscriptions[f"m{index:03}"]

    tracemalloc.start()
    with StepLimit(1_000_000):
        plan = CooperativeStickyAssignor().assign(cluster, subscriptions)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert measure(Plan(cluster, subscriptions, plan)).is_fairest
    assert most < 20_000 * 500


def test_kafka_12984_claims_alike_in_one_generation_are_both_void() -> None:
    claims: Claims = {"a": (3, {"t": (0, 1)}), "b": (3, {"t": (0, 1)}), "c": (3, {"t": (2,)})}

    found = eager(Cluster({"t": 3}), claims, ["t"])

    # Dealt anew in order; had b owned both it would have kept 0.
    assert found == {"a": {"t": (0,)}, "b": {"t": (1,)}, "c": {"t": (2,)}}


def test_kafka_12984_cooperative_members_tell_their_generation_in_the_user_data() -> None:
    # Versions 0 and 1 of the subscription have no field for it.
    subscriptions = {
        "old": Subscription(["t"], encode_generation(1), {"t": (0, 1)}),
        "new": Subscription(["t"], encode_generation(2), {"t": (1, 2)}),
    }

    plan = CooperativeStickyAssignor().assign(Cluster({"t": 4}), subscriptions)

    # 1 is new's own, which old has to give up first
    assert plan["old"].partitions == {"t": (0, 3)}
    assert plan["new"].partitions == {"t": (2,)}


def test_kafka_12984_a_claim_on_more_than_there_is_does_not_keep_the_group_from_going_on() -> None:
    # Java threw "No more unfilled consumers to be assigned" when a topic was made anew with fewer.
    claims: Claims = {
        "a": (1, {"t": tuple(range(20))}),
        "b": (1, {"t": tuple(range(20, 40))}),
        "c": (1, {"t": tuple(range(40, 60))}),
    }

    found = eager(Cluster({"t": 4}), claims, ["t"])

    assert sorted(len(each["t"]) for each in found.values()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("generation_of_b", "of_a"),
    [
        pytest.param(4, {0, 1, 2}, id="the older claim of b holds where it is alone"),
        pytest.param(5, {0, 2}, id="claimed by both in one generation: by nobody"),
    ],
)
def test_kafka_14639_nothing_is_given_out_in_the_round_in_which_it_is_revoked(
    generation_of_b: int, of_a: set[int]
) -> None:
    # b missed a rebalance, so that it still reads what a was given since.
    cluster = Cluster({"t": 6})
    claims: Claims = {"a": (5, {"t": (0, 1, 2)}), "b": (generation_of_b, {"t": (1, 3, 4)})}
    subscriptions = joined(claims, ["t"])

    plan = CooperativeStickyAssignor().assign(cluster, subscriptions)

    given = {member: set(share.partitions.get("t", ())) for member, share in plan.items()}
    assert given["a"] <= of_a
    # 1 is with nobody: in a's hands b would still be reading it
    assert 1 not in given["a"] | given["b"]
    # and what b alone claims, though in an older generation, it keeps
    assert {3, 4} <= given["b"]
    second = CooperativeStickyAssignor().assign(cluster, next_round(subscriptions, plan, 6))
    assert sorted(n for share in second.values() for n in share.partitions["t"]) == [*range(6)]


@each_case("seed", range(100))
def test_kafka_15106_a_group_does_not_rebalance_without_end(seed: int) -> None:
    # Java took loads for unbalanced that could not be better, and moved partitions round after round.
    chance = random.Random(f"15106 {seed}")
    topics = {f"t{index}": chance.randint(1, 12) for index in range(chance.randint(2, 6))}
    cluster = Cluster(topics)
    subscriptions = {
        f"m{index}": Subscription(chance.sample(sorted(topics), chance.randint(1, len(topics))))
        for index in range(chance.randint(2, 8))
    }
    plan = CooperativeStickyAssignor().assign(cluster, subscriptions)
    later = next_round(subscriptions, plan, 1)
    gone = chance.choice(sorted(later))
    later["newcomer"] = replace(later.pop(gone), owned_partitions={}, generation_id=-1)

    assert rounds_until_settled(cluster, later) <= 2


def test_kafka_15170_what_moves_for_its_rack_is_revoked_first() -> None:
    # Each member owns what has its replicas in the rack of the other.
    cluster = Cluster({"t": 6}, {"t": [["a"], ["a"], ["b"], ["b"], ["c"], ["c"]]})
    subscriptions = {
        "C0": Subscription(["t"], None, {"t": (2, 3)}, 1, rack_id="a"),
        "C1": Subscription(["t"], None, {"t": (0, 1)}, 1, rack_id="b"),
    }

    plan = CooperativeStickyAssignor().assign(cluster, subscriptions)

    assert {member: dict(share.partitions) for member, share in plan.items()} == {
        "C0": {"t": (4,)},
        "C1": {"t": (5,)},
    }
    second = CooperativeStickyAssignor().assign(cluster, next_round(subscriptions, plan, 2))
    assert second["C0"].partitions == {"t": (0, 1, 4)}
    assert second["C1"].partitions == {"t": (2, 3, 5)}


@each_case("seed", range(50))
def test_kafka_15170_racks_leave_nobody_with_more_than_its_share(seed: int) -> None:
    chance = random.Random(f"15170 {seed}")
    counts = {f"t{index}": chance.randint(1, 9) for index in range(3)}
    racks = {t: [chance.sample("abc", 2) for _ in range(n)] for t, n in counts.items()}
    subscriptions = {
        f"m{index}": Subscription(sorted(counts), rack_id=chance.choice("abc"))
        for index in range(chance.randint(2, 7))
    }

    plan = StickyAssignor().assign(Cluster(counts, racks), subscriptions)

    loads = [len(share) for share in plan.values()]
    assert max(loads) - min(loads) <= 1


def test_kafka_16277_who_joins_gets_some_of_every_topic() -> None:
    # Java gave the second member all of one topic, as the first kept the first ones by topic.
    claims: Claims = {"a": (1, {"t": tuple(range(8)), "u": tuple(range(8))}), "b": (-1, {})}

    found = eager(Cluster({"t": 8, "u": 8}), claims, ["t", "u"])

    assert {topic: len(numbers) for topic, numbers in found["a"].items()} == {"t": 4, "u": 4}
    assert {topic: len(numbers) for topic, numbers in found["b"].items()} == {"t": 4, "u": 4}
