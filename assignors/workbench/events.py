"""Name what can happen to a group."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from groupsdk.assignment import Cluster, Subscription
from groupsdk.lazy_imports import override


@dataclass(slots=True)
class Group:
    """A group and its topics, as they are at one time; events change it."""

    cluster: Cluster
    members: dict[str, Subscription] = field(default_factory=dict)


class Event(Protocol):
    """Something that happens; as text, what to call it."""

    def apply(self, group: Group) -> None:
        """Change the group. Raises ValueError if the event cannot happen to it."""
        ...


@dataclass(frozen=True, slots=True)
class Join:
    """A member joins.

    Attributes:
        member_id: must be new.
        topics: what it wants; None for all topics that there are.
    """

    member_id: str
    topics: Sequence[str] | None = None
    rack_id: str | None = None
    group_instance_id: str | None = None

    @override
    def __str__(self) -> str:
        return f"{self.member_id} joins"

    def apply(self, group: Group) -> None:
        if self.member_id in group.members:
            raise ValueError(f"member {self.member_id!r} cannot join: it is in the group")
        topics = sorted(group.cluster.partition_counts) if self.topics is None else self.topics
        group.members[self.member_id] = Subscription(
            tuple(topics), rack_id=self.rack_id, group_instance_id=self.group_instance_id
        )


@dataclass(frozen=True, slots=True)
class Leave:
    """A member leaves."""

    member_id: str

    @override
    def __str__(self) -> str:
        return f"{self.member_id} leaves"

    def apply(self, group: Group) -> None:
        if group.members.pop(self.member_id, None) is None:
            raise ValueError(f"member {self.member_id!r} cannot leave: it is not in the group")


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A member changes its subscription."""

    member_id: str
    topics: Sequence[str]

    @override
    def __str__(self) -> str:
        return f"{self.member_id} wants {', '.join(self.topics) or 'nothing'}"

    def apply(self, group: Group) -> None:
        if self.member_id not in group.members:
            raise ValueError(f"member {self.member_id!r} cannot subscribe: it is not in the group")
        group.members[self.member_id] = replace(
            group.members[self.member_id], topics=tuple(self.topics)
        )


@dataclass(frozen=True, slots=True)
class SetPartitions:
    """A topic is created, grows, or is recreated with fewer partitions; subscriptions do not change."""

    topic: str
    count: int
    """The new number of partitions."""

    @override
    def __str__(self) -> str:
        return f"{self.topic} has {self.count} partitions"

    def apply(self, group: Group) -> None:
        counts = {**group.cluster.partition_counts, self.topic: self.count}
        racks = dict(group.cluster.replica_racks)
        if self.topic in racks:
            racks[self.topic] = racks[self.topic][: self.count]
        group.cluster = Cluster(counts, racks)


@dataclass(frozen=True, slots=True)
class RemoveTopic:
    """A topic is deleted."""

    topic: str

    @override
    def __str__(self) -> str:
        return f"{self.topic} is deleted"

    def apply(self, group: Group) -> None:
        counts = dict(group.cluster.partition_counts)
        if counts.pop(self.topic, None) is None:
            raise ValueError(f"topic {self.topic!r} cannot be deleted: no topic has this name")
        racks = {t: each for t, each in group.cluster.replica_racks.items() if t != self.topic}
        group.cluster = Cluster(counts, racks)


class Together:
    """Several things happen before one rebalance."""

    def __init__(self, name: str, events: Sequence[Event]) -> None:
        self._name = name
        self._events = tuple(events)

    @override
    def __str__(self) -> str:
        return self._name

    def apply(self, group: Group) -> None:
        for event in self._events:
            event.apply(group)
