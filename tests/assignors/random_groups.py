"""Make random groups: topics with racks, members static and not, names that Java and Python sort apart."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from groupsdk.assignment import Cluster, Subscription
from groupsdk.utf16 import utf16_sorted


RACKS = ("a", "b", "c", "d")
# "Aa" and "BB" have one hash in Java; U+FFFD sorts behind U+1F600 by UTF-16 code units only
_TOPICS = (
    "Aa",
    "BB",
    "AaAa",
    "BBBB",
    "AaBB",
    "ß",
    "語",
    "\U0001f600",
    "\ufffd",
    "t-1",
    "t-10",
    "t-2",
)
_MEMBERS = ("C0", "C1", "C10", "ZZ", "aa", "Bb", "Aa", "BB", "\U0001f600m", "\ufffdm", "consumer-1")


@dataclass(frozen=True, slots=True)
class RandomGroup:
    """One group to assign in."""

    cluster: Cluster
    subscriptions: dict[str, Subscription]

    def question(self, assignor: str) -> dict[str, Any]:
        """Put it the way the Java program reads it."""
        return {
            "assignor": assignor,
            "topics": {
                topic: [
                    list(racks) for racks in self.cluster.replica_racks.get(topic, [()] * count)
                ]
                for topic, count in self.cluster.partition_counts.items()
            },
            # in the order in which the assignors take members and topics to be put into Java's maps
            "members": [
                {
                    "id": member_id,
                    "topics": utf16_sorted(self.subscriptions[member_id].topics),
                    "instance": self.subscriptions[member_id].group_instance_id,
                    "rack": self.subscriptions[member_id].rack_id,
                }
                for member_id in utf16_sorted(self.subscriptions)
            ],
        }


def random_groups(number: int, seed: int) -> Iterator[RandomGroup]:
    """Make `number` groups, the same on every run and every version of Python for one seed."""
    source = random.Random(seed)
    for _ in range(number):
        yield _group(source)


def _group(source: random.Random) -> RandomGroup:
    topics = _names(source, _TOPICS, "topic-", 14 if source.random() < 0.2 else 4)
    # few different counts, so that topics are co-partitioned
    sizes = [source.randrange(13) for _ in range(2)]
    counts = {topic: source.choice(sizes) for topic in topics if source.random() < 0.95}
    with_racks = source.random() < 0.7
    cluster = Cluster(counts, _replica_racks(source, counts) if with_racks else {})
    member_ids = _names(source, _MEMBERS, "consumer-", 9)
    shared = [_some(source, topics) for _ in range(source.randrange(1, 4))]
    subscriptions = {
        member_id: Subscription(
            source.choice(shared),
            rack_id=_member_rack(source) if with_racks else None,
            group_instance_id=f"i{source.randrange(100)}-{place}"
            if source.random() < 0.2
            else None,
        )
        for place, member_id in enumerate(member_ids)
    }
    return RandomGroup(cluster, subscriptions)


def _names(source: random.Random, odd: tuple[str, ...], stem: str, at_most: int) -> list[str]:
    number = source.randrange(1, at_most + 1)
    choice = [*odd, *(f"{stem}{index}" for index in range(14))]
    return source.sample(choice, number)


def _some(source: random.Random, topics: list[str]) -> tuple[str, ...]:
    if source.random() < 0.5:
        return tuple(topics)
    return tuple(topic for topic in topics if source.random() < 0.6)


def _replica_racks(source: random.Random, counts: dict[str, int]) -> dict[str, list[list[str]]]:
    racks = RACKS[: source.randrange(1, 5)]
    replicas = source.randrange(0, 4)
    alike = source.random() < 0.3
    drawn = [
        [source.choice(racks) for _ in range(min(replicas, 1 + source.randrange(3)))]
        for _ in range(13)
    ]
    result = {}
    for topic, count in counts.items():
        if not alike:
            source.shuffle(drawn)
        if source.random() < 0.9:
            result[topic] = [list(each) for each in drawn[:count]]
    return result


def _member_rack(source: random.Random) -> str | None:
    return source.choice((*RACKS, *RACKS, "elsewhere", "", None))
