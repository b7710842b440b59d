"""With equal subscriptions the closed form is reached."""

import random

from assignors.sticky.ownership import find_owners
from assignors.sticky.plan import share_evenly
from assignors.sticky.subscription_index import SubscriptionIndex
from groupsdk.assignment import Partitions
from tests.support.cases import each_case


def test_fresh_is_dealt_as_round_robin_does() -> None:
    counts = {"t0": 3, "t1": 3}
    ownership = find_owners(
        [{}, {}], [-1, -1], SubscriptionIndex([counts.keys()] * 2, counts), counts
    )
    assert share_evenly(ownership, 6).holdings == [
        {"t0": (0, 2), "t1": (1,)},
        {"t0": (1,), "t1": (0, 2)},
    ]


@each_case("seed", range(200))
def test_keeps_as_many_as_the_bound_allows(seed: int) -> None:
    chance = random.Random(seed)
    counts = {f"t{index}": chance.randint(1, 9) for index in range(chance.randint(1, 5))}
    members = chance.randint(1, 8)
    claims: list[dict[str, list[int]]] = [{} for _ in range(members)]
    for topic, count in counts.items():
        for number in range(count):
            if chance.random() < 0.7:
                member = min(chance.randrange(members), chance.randrange(members))
                claims[member].setdefault(topic, []).append(number)
    owned: list[Partitions] = list(claims)
    total = sum(counts.values())
    holdings = share_evenly(
        find_owners(
            owned, [1] * members, SubscriptionIndex([counts.keys()] * members, counts), counts
        ),
        total,
    ).holdings
    quota, longer = divmod(total, members)
    loads = [sum(map(len, holding.values())) for holding in holdings]
    assert sorted(loads) == [quota] * (members - longer) + [quota + 1] * longer
    kept = sum(
        len(set(claim.get(topic, ())) & set(numbers))
        for claim, holding in zip(claims, holdings, strict=True)
        for topic, numbers in holding.items()
    )
    sizes = [sum(map(len, claim.values())) for claim in claims]
    assert kept == sum(min(size, quota) for size in sizes) + min(
        longer, sum(size > quota for size in sizes)
    )
    dealt = [(t, n) for holding in holdings for t, numbers in holding.items() for n in numbers]
    assert sorted(dealt) == sorted((t, n) for t, count in counts.items() for n in range(count))


def test_a_fresh_group_spreads_each_topic() -> None:
    counts = {f"t{index}": 10 for index in range(7)}
    ownership = find_owners(
        [{}] * 5, [-1] * 5, SubscriptionIndex([counts.keys()] * 5, counts), counts
    )
    for holding in share_evenly(ownership, 70).holdings:
        assert {len(numbers) for numbers in holding.values()} == {2}


def test_a_newcomer_does_not_read_one_topic_only() -> None:
    counts = {f"t{index}": 10 for index in range(10)}
    before = share_evenly(
        find_owners([{}] * 10, [-1] * 10, SubscriptionIndex([counts.keys()] * 10, counts), counts),
        100,
    ).holdings
    owned: list[Partitions] = [*before, {}]
    holdings = share_evenly(
        find_owners(owned, [1] * 11, SubscriptionIndex([counts.keys()] * 11, counts), counts), 100
    ).holdings
    assert len(holdings[-1]) == 9
