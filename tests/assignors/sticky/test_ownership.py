"""Ownership is what of the claims can be true."""

import random

import pytest

from assignors.sticky.ownership import Ownership, find_owners
from assignors.sticky.subscription_index import SubscriptionIndex
from groupsdk.assignment import Partitions
from tests.assignors.sticky.oracle import owners
from tests.assignors.sticky.random_groups import random_group
from tests.support.cases import each_case


def _settle(claims: list[Partitions], generations: list[int], topics: dict[str, int]) -> Ownership:
    return find_owners(
        claims, generations, SubscriptionIndex([frozenset(topics)] * len(claims), topics), topics
    )


def test_claims_that_hold_are_handed_back_as_they_are() -> None:
    claims: list[Partitions] = [{"t": (0, 2)}, {"t": (1,), "u": (0,)}, {}]
    found = _settle(claims, [1, 1, 1], {"t": 5, "u": 1})
    assert all(own is claim for own, claim in zip(found.owned, claims, strict=True))
    assert found.sizes == [2, 2, 0]
    assert found.free == {"t": [3, 4]}
    assert not found.disputed


def test_tells_which_claims_are_hands() -> None:
    claims: list[Partitions] = [
        {"t": (0, 2), "u": (1,)},
        {"t": (1,), "u": (2,)},
        {"u": (0,), "t": (3,)},
        {"t": (5, 4)},
        {"t": (7, 6)},
        {"t": (), "u": (3,)},
        {},
        {"t": (8,), "gone": (0,)},
    ]
    found = _settle(claims, [1] * len(claims), {"t": 9, "u": 4})
    assert found.holdings == {0, 1, 7}
    assert found.owned[7] == {"t": (8,)}


def test_lists_are_copied_once_and_are_hands_then() -> None:
    claims: list[Partitions] = [{"t": [0, 2], "u": [1]}, {"t": [3, 1]}, {"t": range(4, 5)}]
    subscription_index = SubscriptionIndex([["t", "u"]] * 3, ["t", "u"])

    ownership = find_owners(claims, [1, 1, 1], subscription_index, {"t": 5, "u": 2})

    assert ownership.owned == [{"t": (0, 2), "u": (1,)}, {"t": (3, 1)}, {"t": (4,)}]
    assert ownership.holdings == {0, 2}
    assert claims == [{"t": [0, 2], "u": [1]}, {"t": [3, 1]}, {"t": range(4, 5)}]


def test_resolved_ownership_keeps_no_holdings() -> None:
    found = _settle([{"t": (0, 1)}, {"t": (1, 2)}], [1, 1], {"t": 3})
    assert not found.holdings


def test_nobody_claims_anything() -> None:
    found = _settle([{}, {}], [-1, -1], {"t": 3})
    assert found.free == {"t": range(3)}
    assert found.sizes == [0, 0]


@pytest.mark.parametrize(
    ("generations", "first", "second", "third", "free"),
    [
        ([5, 4, 4], [0, 1], [2], [], [3]),
        ([4, 5, 4], [0], [1, 2], [], [3]),
        # Two at the newest generation: neither, even if an older claim is alone.
        ([5, 5, 4], [0], [2], [], [1, 3]),
        ([-1, -1, 0], [0], [2], [1], [3]),
        ([4, 4, 5], [0], [2], [1], [3]),
    ],
)
def test_newest_claim_wins_if_it_is_alone(
    generations: list[int], first: list[int], second: list[int], third: list[int], free: list[int]
) -> None:
    found = _settle([{"t": [0, 1]}, {"t": [1, 2]}, {"t": [1]}], generations, {"t": 4})
    assert [list(own.get("t", [])) for own in found.owned] == [first, second, third]
    assert found.free == {"t": free}


def test_claimed_partition_that_does_not_exist_is_not_owned() -> None:
    claims: list[Partitions] = [{"t": [-1, 0, 7, 0], "gone": [0], "u": [0]}]
    found = find_owners(claims, [1], SubscriptionIndex([{"t"}], {"t"}), {"t": 2})
    assert found.owned == [{"t": [0]}]
    assert found.sizes == [1]
    assert found.free == {"t": [1]}
    assert claims == [{"t": [-1, 0, 7, 0], "gone": [0], "u": [0]}]
    assert found.disputed == {"t", "gone", "u"}


def test_subscriber_wins_against_a_newer_claim_of_one_that_is_not() -> None:
    found = find_owners(
        [{"t": [0]}, {"t": [0]}], [9, 1], SubscriptionIndex([{"u"}, {"t"}], "tu"), {"t": 1, "u": 1}
    )
    assert found.owned == [{}, {"t": (0,)}]


@each_case("seed", range(300))
def test_agrees_with_a_plain_way_to_tell(seed: int) -> None:
    group = random_group(random.Random(seed))
    members = sorted(group.subscriptions)
    counts = {
        topic: count
        for topic, count in group.cluster.partition_counts.items()
        if any(topic in each.topics for each in group.subscriptions.values())
    }
    found = find_owners(
        [group.claims[member] for member in members],
        [group.generations[member] for member in members],
        SubscriptionIndex(
            [frozenset(group.subscriptions[member].topics) & counts.keys() for member in members],
            counts,
        ),
        counts,
    )
    expected = owners(group)
    owned = {
        (topic, number): member
        for member, own in zip(members, found.owned, strict=True)
        for topic, numbers in own.items()
        for number in numbers
    }
    assert owned == expected
    assert found.sizes == [list(owned.values()).count(member) for member in members]
    free = {(topic, number) for topic, numbers in found.free.items() for number in numbers}
    assert free == {(t, n) for t, count in counts.items() for n in range(count)} - owned.keys()
