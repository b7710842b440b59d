"""Read topic metadata, and notice when the leader's metadata is out of date."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from groupsdk.assignment import Cluster
from groupsdk.error_code import ErrorCode
from groupsdk.errors import broker_error
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


_PASSING: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)

_MISSING_AGAIN_MS: Final = 1_000
"""How soon to look again for a subscribed topic that does not exist."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """The topics of a cluster, as one broker described them, with their numbers of partitions."""

    partition_counts: dict[str, int] = field(default_factory=dict)
    replica_racks: dict[str, tuple[frozenset[str], ...]] = field(default_factory=dict)
    """The racks of each partition's replicas, by topic; only if brokers have racks."""
    internal: frozenset[str] = frozenset()
    """Kafka's own topics."""
    unauthorized: frozenset[str] = frozenset()
    """Topics that this client must not describe; they are missing from the other fields."""

    def cluster(self, topics: Iterable[str], *, racks: bool) -> Cluster:
        """Return the known ones of some topics, for an assignor."""
        known = [topic for topic in topics if topic in self.partition_counts]
        return Cluster(
            {topic: self.partition_counts[topic] for topic in known},
            {topic: self.replica_racks[topic] for topic in known if topic in self.replica_racks}
            if racks
            else {},
        )


def topics_request(topics: Iterable[str] | None, *, create: bool = False) -> MetadataRequest:
    asked = None if topics is None else tuple(MetadataRequestTopic(name=each) for each in topics)
    return MetadataRequest(topics=asked, allow_auto_topic_creation=create)


def read_topics(response: MetadataResponse) -> TopicView:
    """Decode a metadata response.

    A topic that does not exist (yet) is not in the result; partitions are numbered from 0 without gaps. Raises BrokerError for an
    error that is not about one missing or forbidden topic.
    """
    racks = {broker.node_id: broker.rack for broker in response.brokers}
    counts: dict[str, int] = {}
    replica_racks: dict[str, tuple[frozenset[str], ...]] = {}
    internal: set[str] = set()
    unauthorized: set[str] = set()
    for topic in response.topics:
        name = topic.name
        if not name:
            continue
        if ErrorCode.of(topic.error_code) not in _PASSING:
            raise broker_error(topic.error_code, f"Metadata of topic {name!r}")
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            unauthorized.add(name)
        if topic.error_code or not topic.partitions:
            continue
        counts[name] = len(topic.partitions)
        if topic.is_internal:
            internal.add(name)
        if any(racks.values()):
            ordered = sorted(topic.partitions, key=lambda each: each.partition_index)
            replica_racks[name] = tuple(
                frozenset(rack for node in each.replica_nodes if (rack := racks.get(node)))
                for each in ordered
            )
    return TopicView(counts, replica_racks, frozenset(internal), frozenset(unauthorized))


class TopicWatch:
    """Decides when to refresh topic metadata, and whether a change requires a rebalance.

    The leader watches the topics of the whole group: it alone knows them, and it alone assigns. A consumer that
    subscribes with a pattern watches all topics.
    """

    def __init__(self, max_age_ms: int) -> None:
        self._max_age_ms = max_age_ms
        self._looked_ms: int | None = None
        self._assigned: Cluster | None = None
        self._group_topics: frozenset[str] = frozenset()
        self._racks = False
        self._sought: frozenset[str] = frozenset()
        self._named: frozenset[str] = frozenset()

    def seek(self, topics: Collection[str]) -> None:
        """Look for topics of which the broker assigned nothing, since it tells nobody that they do not exist."""
        self._sought = frozenset(topics)

    def unfound(self, view: TopicView) -> list[str]:
        """Return the sought topics that do not exist, each once; they are looked for again."""
        self._sought -= view.partition_counts.keys() | view.unauthorized
        new, self._named = self._sought - self._named, self._sought
        return sorted(new)

    def assigned(self, topics: Collection[str], cluster: Cluster, *, racks: bool) -> None:
        """Record the metadata behind the group's assignment, or seen by a leader that kept assignments (KIP-814).

        `racks`: a change of racks requires a rebalance.
        """
        self._group_topics = frozenset(topics)
        self._assigned = cluster
        self._racks = racks

    def forget(self) -> None:
        """Stop watching for the group: another member leads."""
        self._group_topics = self._sought = frozenset()
        self._assigned = None

    def due(self, now_ms: int, *, has_patterns: bool) -> bool:
        if not self._group_topics and not self._sought and not has_patterns:
            return False
        if self._looked_ms is None:
            self._looked_ms = now_ms  # a join has just looked
        age_ms = self._max_age_ms
        known = () if self._assigned is None else self._assigned.partition_counts.keys()
        if self._sought or (self._assigned is not None and self._group_topics.difference(known)):
            age_ms = min(age_ms, _MISSING_AGAIN_MS)
        return now_ms - self._looked_ms >= age_ms

    def asks(self, now_ms: int, *, has_patterns: bool, create: bool = False) -> MetadataRequest:
        """Return the metadata request to send, and note the time."""
        self._looked_ms = now_ms
        wanted = None if has_patterns else sorted(self._group_topics | self._sought)
        return topics_request(wanted, create=create)

    def seen(self, view: TopicView) -> str | None:
        """Process new metadata; return the reason for a rebalance, if one is needed."""
        if not self._group_topics:
            return None
        cluster = view.cluster(sorted(self._group_topics), racks=self._racks)
        before, self._assigned = self._assigned, cluster
        if before is None:
            return None
        counts, old = cluster.partition_counts, before.partition_counts
        for topic in sorted(counts.keys() | old.keys()):
            if counts.get(topic) != old.get(topic):
                return (
                    f"topic {topic} has {counts.get(topic, 0)} partitions, and had {old.get(topic, 0)} when"
                    " the group was assigned"
                )
        if self._racks and cluster.replica_racks != before.replica_racks:
            return "replicas of the group's topics have moved to other racks"
        return None
