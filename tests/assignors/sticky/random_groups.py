"""Random small groups of every kind, honest and not."""

import random
from collections.abc import Sequence

from groupsdk.assignment import Cluster, Partitions, Subscription
from tests.assignors.sticky.oracle import Group


RACKS = ("a", "b", "c")


def random_group(chance: random.Random, *, racks: bool | None = None, size: int = 1) -> Group:
    """Make a group: topics, members with subscriptions of some shape, and claims of some kind.

    Args:
        racks: whether members and replicas are in racks; by chance where None.
    """
    topics = [f"t{index}" for index in range(chance.randint(1, 4 * size))]
    counts = {topic: chance.randint(1, chance.choice((2, 4, 7)) * size) for topic in topics}
    with_racks = chance.random() < 0.4 if racks is None else racks
    replica_racks = {}
    if with_racks:
        for topic in topics:
            if chance.random() < 0.9:
                length = counts[topic] + chance.choice((0, 0, 0, 1, -1))
                replica_racks[topic] = [
                    frozenset(chance.sample(RACKS, chance.choice((0, 1, 1, 2, 2, 3))))
                    for _ in range(length)
                ]
    members = [f"m{index}" for index in range(chance.randint(1, 6 * size))]
    subscriptions = {
        member: Subscription(
            wanted,
            rack_id=chance.choice((None, *RACKS, "elsewhere")) if with_racks else None,
        )
        for member, wanted in zip(members, _subscriptions(chance, topics, members), strict=True)
    }
    cluster = Cluster(counts, replica_racks)
    claims, generations = _claims(chance, cluster, subscriptions)
    return Group(cluster, subscriptions, claims, generations)


def _subscriptions(
    chance: random.Random, topics: Sequence[str], members: Sequence[str]
) -> list[list[str]]:
    shape = chance.choice(("uniform", "random", "chain", "nested", "star", "sparse", "tiers"))
    few = max(1, len(topics) // 2)
    tiers = [chance.sample(topics, chance.randint(1, len(topics))) for _ in range(2)]
    result = []
    for index, _ in enumerate(members):
        if shape == "uniform":
            wanted = list(topics)
        elif shape == "chain":
            start = index % len(topics)
            wanted = list(topics[start : start + 2])
        elif shape == "nested":
            wanted = list(topics[: 1 + index % len(topics)])
        elif shape == "star":
            wanted = list({topics[0], chance.choice(topics)})
        elif shape == "tiers":
            wanted = chance.choice(tiers)
        elif shape == "sparse":
            wanted = chance.sample(topics, chance.randint(1, few))
        else:
            wanted = chance.sample(topics, chance.randint(0, len(topics)))
        if chance.random() < 0.05:
            wanted = [*wanted, "unknown"]
        if chance.random() < 0.03:
            wanted = []
        result.append(wanted)
    return result


def _claims(
    chance: random.Random, cluster: Cluster, subscriptions: dict[str, Subscription]
) -> tuple[dict[str, Partitions], dict[str, int]]:
    """Let members own partitions: at random, or with a bias to some, so that loads are uneven."""
    claims: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
    generations = dict.fromkeys(subscriptions, 5)
    kind = chance.choice(("none", "some", "most", "skewed", "lies", "lies"))
    if kind == "none":
        return dict(claims), generations
    members = sorted(subscriptions)
    favourites = chance.sample(members, max(1, len(members) // 3))
    for topic, count in cluster.partition_counts.items():
        for number in range(count):
            if chance.random() < (0.5 if kind == "some" else 0.1):
                continue
            pool = favourites if kind == "skewed" and chance.random() < 0.8 else members
            readers = [m for m in pool if topic in subscriptions[m].topics] or pool
            claims[chance.choice(readers)].setdefault(topic, []).append(number)
    if kind == "lies":
        generations = {member: chance.choice((5, 5, 4, -1)) for member in members}
        _lie(chance, [*cluster.partition_counts, "unknown"], claims)
    for claim in claims.values():
        for numbers in claim.values():
            chance.shuffle(numbers)
    return dict(claims), generations


def _lie(
    chance: random.Random, topics: Sequence[str], claims: dict[str, dict[str, list[int]]]
) -> None:
    """Let members claim what others own, what does not exist, something twice, or nothing of a topic."""
    for claim in claims.values():
        for _ in range(chance.randint(0, 3)):
            number = chance.choice((-1, 0, 1, 2, 3, 50, 2**31 - 1))
            claim.setdefault(chance.choice(topics), []).append(number)
        if chance.random() < 0.1:
            claim.setdefault("t0", [])
