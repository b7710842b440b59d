"""Generate groups to check assignors with: new groups, and groups with a true or forged history."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
)


GENERATION_ID = 5
"""The generation in which the members of a group with a past got what they own."""

_TOPICS = ("t", "u", "v", "Aa", "BB", "topic-10", "topic-2", "\U0001f600", "\ufffd")
_MEMBERS = ("a", "b", "B", "c", "consumer-1", "consumer-10", "consumer-2", "\U0001f600", "\ufffd")
_RACKS = ("r1", "r2", "r3")
_HOSTILE = 0.3
_FEW = 3
_REDUCTIONS = 400

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Scale:
    """The size limits of generated groups: names and numbers to choose from; one that comes twice is chosen more often."""

    topics: tuple[str, ...]
    most_topics: int
    members: tuple[str, ...]
    most_members: int
    partitions: tuple[int, ...]


SMALL = Scale(_TOPICS, 5, _MEMBERS, 6, (0, 1, 1, 2, 3, 4, 6))
"""Enough for most faults, and little to read where there is one."""

LARGE = Scale(
    (*_TOPICS, *(f"topic-{number}" for number in range(11, 25))),
    14,
    (*_MEMBERS, *(f"consumer-{number}" for number in range(11, 48))),
    40,
    (0, 1, 2, 7, 8, 9, 10, 11, 12, 16, 20, 32, 33, 64, 100, 128, 300),
)
"""For faults that depend on the size: numbers of two and three digits, more members than partitions."""

MakeAssignor = Callable[[], PartitionAssignor]


@dataclass(frozen=True, slots=True)
class Case:
    cluster: Cluster
    subscriptions: Mapping[str, Subscription]

    def written(self) -> str:
        """Return the case as Python source to paste into a test; defaults are left out."""
        lines = [f"cluster = Cluster({dict(self.cluster.partition_counts)!r}"]
        if self.cluster.replica_racks:
            lines[-1] += f", {dict(self.cluster.replica_racks)!r}"
        lines[-1] += ")"
        lines.append("subscriptions = {")
        lines += [f"    {m!r}: {_written(each)}," for m, each in self.subscriptions.items()]
        return "\n".join([*lines, "}"])

    def shuffled(self, source: random.Random) -> "Case":
        """Return the same group with every mapping, set and list of topics in another order."""
        racks = {
            topic: [_shuffled(source, each) for each in listed]
            for topic, listed in self.cluster.replica_racks.items()
        }
        return Case(
            Cluster(_turned(source, self.cluster.partition_counts), _turned(source, racks)),
            {
                member_id: replace(
                    subscription,
                    topics=tuple(_shuffled(source, subscription.topics)),
                    owned_partitions=_turned(source, subscription.owned_partitions),
                )
                for member_id, subscription in _turned(source, self.subscriptions).items()
            },
        )


def fresh_case(source: random.Random, scale: Scale = SMALL) -> Case:
    """Generate a group whose members own nothing yet."""
    topics = source.sample(scale.topics, source.randrange(1, scale.most_topics + 1))
    cluster = Cluster({topic: source.choice(scale.partitions) for topic in topics})
    if source.random() < 0.4:
        cluster = replace(cluster, replica_racks=_replica_racks(source, cluster.partition_counts))
    wanted = [*topics, "not known"]
    shared = [_some(source, wanted) for _ in range(source.randrange(1, 4))]
    return Case(
        cluster,
        {
            member_id: _member(source, source.choice(shared), cluster)
            for member_id in source.sample(
                scale.members, source.randrange(0, scale.most_members + 1)
            )
        },
    )


def later_case(
    source: random.Random,
    case: Case,
    plan: GroupAssignment,
    make: MakeAssignor,
    scale: Scale = SMALL,
) -> Case:
    """Generate the next group after a plan: members own what it assigned, some leave or join, topics change.

    Some members lie, or come back from long ago: claims of partitions that do not exist or that others own, older
    generations, user data that cannot be parsed.
    """
    counts = dict(case.cluster.partition_counts)
    for topic in counts:
        if source.random() < 0.3:
            counts[topic] = source.choice(scale.partitions)
    racks = {topic: listed[: counts[topic]] for topic, listed in case.cluster.replica_racks.items()}
    cluster = Cluster(counts, racks)
    subscriptions = {
        member_id: after_assignment(make(), subscription, plan[member_id], GENERATION_ID)
        for member_id, subscription in case.subscriptions.items()
        if source.random() < 0.8
    }
    topics = [*counts, "not known"]
    for member_id in source.sample(scale.members, 2):
        if member_id not in subscriptions:
            subscriptions[member_id] = _member(source, _some(source, topics), cluster)
    for member_id, subscription in subscriptions.items():
        if source.random() < 0.2:
            subscription = replace(subscription, topics=_some(source, topics))
        if source.random() < _HOSTILE:
            subscription = _lying(source, subscription, counts)
        subscriptions[member_id] = subscription
    return Case(cluster, subscriptions)


def after_assignment(
    assignor: PartitionAssignor, subscription: Subscription, share: Assignment, generation_id: int
) -> Subscription:
    """Return a member's next subscription, after its assignor has seen the assignment and returned user data.

    With an eager protocol alone, a member has given up everything by then.
    """
    assignor.on_assignment(share, generation_id)
    user_data = assignor.subscription_user_data(subscription.topics)
    if RebalanceProtocol.COOPERATIVE not in assignor.supported_protocols:
        return replace(subscription, user_data=user_data)
    return replace(
        subscription,
        user_data=user_data,
        owned_partitions={topic: tuple(each) for topic, each in share.partitions.items()},
        generation_id=generation_id,
    )


def shrunk(case: Case, failure: str, failure_of: Callable[[Case], str | None]) -> tuple[Case, str]:
    """Shrink a group while it still fails in the same way, which is what stands before a failure's first colon."""
    left, is_reduced = _REDUCTIONS, True
    while is_reduced:
        is_reduced = False
        for less in islice(smaller(case), left):
            left -= 1
            again = failure_of(less)
            if again is not None and again.partition(":")[0] == failure.partition(":")[0]:
                case, failure, is_reduced = less, again, True
                break
    return case, failure


def smaller(case: Case) -> Iterator[Case]:
    """Yield smaller variants of a group: half of its members or topics, or one element fewer of each kind."""
    yield from _halves(case)
    cluster = case.cluster
    for member_id in case.subscriptions:
        yield replace(case, subscriptions=_without(case.subscriptions, member_id))
    for topic, count in cluster.partition_counts.items():
        racks = cluster.replica_racks
        yield replace(case, cluster=Cluster(_without(cluster.partition_counts, topic), racks))
        for fewer in sorted({count // 2, count - 1} - {0, -1}):
            changed = {**cluster.partition_counts, topic: fewer}
            yield replace(case, cluster=Cluster(changed, racks))
    if cluster.replica_racks:
        yield replace(case, cluster=Cluster(cluster.partition_counts))
    for member_id, subscription in case.subscriptions.items():
        for less in _less(subscription):
            yield replace(case, subscriptions={**case.subscriptions, member_id: less})


def _halves(case: Case) -> Iterator[Case]:
    """Yield either half of many members, and of many topics."""
    for some in _split(list(case.subscriptions)):
        yield replace(case, subscriptions={each: case.subscriptions[each] for each in some})
    counts, racks = case.cluster.partition_counts, case.cluster.replica_racks
    for some in _split(list(counts)):
        yield replace(case, cluster=Cluster({topic: counts[topic] for topic in some}, racks))


def _split(names: list[str]) -> list[list[str]]:
    middle = len(names) // 2
    return [names[:middle], names[middle:]] if len(names) > _FEW else []


def _less(subscription: Subscription) -> Iterator[Subscription]:
    if subscription.owned_partitions:
        yield replace(subscription, owned_partitions={}, generation_id=-1)
    if subscription.user_data is not None:
        yield replace(subscription, user_data=None)
    if subscription.rack_id is not None:
        yield replace(subscription, rack_id=None)
    if subscription.group_instance_id is not None:
        yield replace(subscription, group_instance_id=None)
    for topic in subscription.topics:
        left = tuple(each for each in subscription.topics if each != topic)
        yield replace(subscription, topics=left)
    for topic in subscription.owned_partitions:
        yield replace(subscription, owned_partitions=_without(subscription.owned_partitions, topic))


def _without(mapping: Mapping[str, V], key: str) -> dict[str, V]:
    return {other: value for other, value in mapping.items() if other != key}


def _turned(source: random.Random, mapping: Mapping[str, V]) -> dict[str, V]:
    return dict(_shuffled(source, mapping.items()))


def _shuffled(source: random.Random, things: Iterable[V]) -> list[V]:
    listed = list(things)
    source.shuffle(listed)
    return listed


def _some(source: random.Random, topics: list[str]) -> tuple[str, ...]:
    if source.random() < 0.4:
        return tuple(topics)
    return tuple(topic for topic in topics if source.random() < 0.5)


def _member(source: random.Random, topics: tuple[str, ...], cluster: Cluster) -> Subscription:
    return Subscription(
        topics,
        rack_id=source.choice((*_RACKS, None)) if cluster.replica_racks else None,
        group_instance_id=f"i{source.randrange(1000)}" if source.random() < 0.2 else None,
    )


def _replica_racks(
    source: random.Random, counts: Mapping[str, int]
) -> dict[str, list[tuple[str, ...]]]:
    replicas = source.randrange(1, 3)
    return {
        topic: [tuple(source.sample(_RACKS, replicas)) for _ in range(count)]
        for topic, count in counts.items()
        if source.random() < 0.9
    }


def _lying(
    source: random.Random, subscription: Subscription, counts: Mapping[str, int]
) -> Subscription:
    topics = [*counts, "not known"]
    claims = {
        topic: tuple(
            source.choice((-1, 0, 1, 2, 3, 7, 2**31 - 1)) for _ in range(source.randrange(4))
        )
        for topic in source.sample(topics, source.randrange(1, len(topics) + 1))
    }
    data = subscription.user_data
    broken = bytearray(data or b"\x00\x00\x00\x01")
    broken[source.randrange(len(broken))] ^= 1 << source.randrange(8)
    return replace(
        subscription,
        owned_partitions=claims,
        generation_id=source.choice((-1, 0, GENERATION_ID - 2, GENERATION_ID, GENERATION_ID + 1)),
        user_data=source.choice((data, bytes(broken), (data or b"")[:-1], b"", b"\xff" * 9)),
    )


def _written(subscription: Subscription) -> str:
    default = Subscription(())
    parts = [repr(tuple(subscription.topics))]
    for name in ("user_data", "owned_partitions", "generation_id", "rack_id", "group_instance_id"):
        value = getattr(subscription, name)
        if value != getattr(default, name):
            parts.append(f"{name}={value!r}")
    return f"Subscription({', '.join(parts)})"
