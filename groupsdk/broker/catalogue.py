"""The stored metadata of a cluster: topics, their leaders, configurations and features."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from groupsdk.broker.store import Change, Store
from groupsdk.wire.primitives import kafka_uuid


OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
_TOPIC: Final = "topic"
_CONFIG: Final = "config"
_CLUSTER: Final = "cluster"
_DELETED: Final = "deleted"
_TOPICS_VERSION: Final = "topics_version"
_MAX_NAME: Final = 249
_MAX_PARTITIONS: Final = 10_000
_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TopicPartitionState:
    """The leader of one partition, and its epoch, which increases with each move."""

    __slots__ = ("leader", "leader_epoch")

    def __init__(self, leader: int, leader_epoch: int = 0) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch


class Topic:
    """One topic in the catalogue; one that is created again under the same name has another id."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, partitions: list[TopicPartitionState]) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = partitions

    @property
    def is_internal(self) -> bool:
        """Whether it is an internal topic of the coordinators."""
        return self.name in INTERNAL_TOPICS


class Catalogue:
    """The metadata of a cluster that is not in its logs; every change is stored before it is visible.

    A change raises StoreError if it cannot be stored, and changes nothing then. Not thread-safe: one thread calls it.

    Args:
        cluster_id: the id of a new cluster; None: a random one. Ignored if the store has one.
    """

    def __init__(self, store: Store, cluster_id: str | None = None) -> None:
        self.store = store
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self._by_metric_name: dict[str, set[str]] = {}
        self.deleted: set[str] = set()
        """The names of deleted topics whose records or committed offsets may still exist."""
        self.topics_version = 0
        """Increases whenever a topic is created, deleted or gets partitions. Stored: resolved expressions refer to it."""
        self._configs: dict[tuple[str, str], dict[str, str]] = {}
        self._cluster: dict[str, Any] = {}
        for kind, key, value in store.facts():
            if kind == _TOPIC:
                states = [TopicPartitionState(*each) for each in value["leaders"]]
                self._add(Topic(key, UUID(value["id"]), states))
            elif kind == _CONFIG:
                resource, _, name = key.partition(":")
                self._configs[resource, name] = value
            elif kind == _DELETED:
                self.deleted.add(key)
            elif kind == _CLUSTER:
                self._cluster[key] = value
        self.topics_version = int(self._cluster.pop(_TOPICS_VERSION, 0))
        if "id" not in self._cluster:
            self._set_cluster("id", cluster_id or new_cluster_id())

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters as in Kafka."""
        return str(self._cluster["id"])

    def next_number(self, name: str) -> int:
        """Return the next number of a stored sequence, from 1; numbers never repeat, also after a restart."""
        number = int(self._cluster.get(name, 0)) + 1
        self._set_cluster(name, number)
        return number

    def _set_cluster(self, key: str, value: Any) -> None:
        self.store.write([(_CLUSTER, key, value)])
        self._cluster[key] = value

    def create_topics(
        self,
        leaders: Mapping[str, Iterable[int]],
        configs: Mapping[str, Mapping[str, str]] | None = None,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> list[Topic]:
        """Add topics, all or none, with new valid names. A topic without an id gets a random one."""
        made = [
            Topic(
                name,
                (topic_ids or {}).get(name) or new_topic_id(),
                [TopicPartitionState(leader) for leader in nodes],
            )
            for name, nodes in leaders.items()
        ]
        changes = [_topic_change(topic) for topic in made]
        given = {("topic", name): dict(entries) for name, entries in (configs or {}).items()}
        changes += [_config_change(*resource, entries) for resource, entries in given.items()]
        self._change_topics(changes)
        for topic in made:
            self._add(topic)
        self._configs.update(given)
        return made

    def delete_topic(self, name: str) -> Topic:
        """Remove a topic and its configuration. Return it; it is in `deleted` until `forget_deleted`."""
        self._change_topics(
            [
                (_TOPIC, name, None),
                _config_change("topic", name, {}),
                (_DELETED, name, str(self.topics[name].topic_id)),
            ]
        )
        self.deleted.add(name)
        topic = self.topics.pop(name)
        del self.topics_by_id[topic.topic_id]
        alike = self._by_metric_name[_metric_name(name)]
        alike.remove(name)
        if not alike:
            del self._by_metric_name[_metric_name(name)]
        self._configs.pop(("topic", name), None)
        return topic

    def collision(self, name: str) -> str | None:
        """Return a topic whose name differs only in dots and underscores, as their metrics would clash; None if none."""
        alike = self._by_metric_name.get(_metric_name(name), set())
        return min(alike - {name}, default=None)

    def forget_deleted(self, name: str) -> None:
        """Record that the files of a deleted topic are gone."""
        self.store.write([(_DELETED, name, None)])
        self.deleted.discard(name)

    def add_partitions(self, name: str, leaders: Iterable[int]) -> None:
        topic = self.topics[name]
        grown = [*topic.partitions, *(TopicPartitionState(leader) for leader in leaders)]
        self._change_topics([_topic_change(Topic(name, topic.topic_id, grown))])
        topic.partitions[:] = grown

    def move_leaders(self, moves: Mapping[tuple[str, int], int]) -> None:
        """Move partitions to other leaders, all or none; the leader epoch of each increases by one."""
        changed: dict[str, list[TopicPartitionState]] = {}
        for (name, partition), node in moves.items():
            states = changed.setdefault(name, list(self.topics[name].partitions))
            states[partition] = TopicPartitionState(node, states[partition].leader_epoch + 1)
        self.store.write(
            _topic_change(Topic(name, self.topics[name].topic_id, states))
            for name, states in changed.items()
        )
        for name, states in changed.items():
            self.topics[name].partitions[:] = states

    def config(self, resource: str, name: str) -> Mapping[str, str]:
        """Return the settings of a resource by dotted key; empty if it has none.

        The broker named "" has the defaults of all brokers.
        """
        return self._configs.get((resource, name), {})

    def configured(self, resource: str) -> list[str]:
        """List the names of the resources of a type that have settings, in the order in which they first got some."""
        return [name for kind, name in self._configs if kind == resource]

    def set_config(self, resource: str, name: str, entries: Mapping[str, str]) -> None:
        """Replace all settings of a resource; empty `entries` remove them."""
        self.store.write([_config_change(resource, name, entries)])
        if entries:
            self._configs[resource, name] = dict(entries)
        else:
            self._configs.pop((resource, name), None)

    def _change_topics(self, changes: list[Change]) -> None:
        version = self.topics_version + 1
        self.store.write([*changes, (_CLUSTER, _TOPICS_VERSION, version)])
        self.topics_version = version

    def _add(self, topic: Topic) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic
        self._by_metric_name.setdefault(_metric_name(topic.name), set()).add(topic.name)


def _topic_change(topic: Topic) -> Change:
    leaders = [[state.leader, state.leader_epoch] for state in topic.partitions]
    return _TOPIC, topic.name, {"id": str(topic.topic_id), "leaders": leaders}


def _config_change(resource: str, name: str, entries: Mapping[str, str]) -> Change:
    return _CONFIG, f"{resource}:{name}", dict(entries) or None


def new_topic_id() -> UUID:
    """Return a random topic id whose string does not start with a dash, as Kafka does for its tools."""
    while True:
        made = UUID(bytes=os.urandom(16), version=4)
        if made.bytes[0] >> 2 != 0b111110:  # base64 would begin with "-"
            return made


def new_cluster_id() -> str:
    """Return a random cluster id in Kafka's form: 16 bytes in URL-safe base64."""
    return kafka_uuid(new_topic_id())


def partitions_problem(count: object) -> str | None:
    """Return why a number of partitions cannot be created at once; None if it is an integer from 1 to 10,000."""
    if type(count) is int and 1 <= count <= _MAX_PARTITIONS:
        return None
    return f"the number of partitions must be an integer from 1 to {_MAX_PARTITIONS}, not {count!r}"


def topic_name_problem(name: str) -> str | None:
    """Return why a topic's name is invalid, in Kafka's words; None if it is valid (Kafka: `Topic.validate`)."""
    given: object = name
    if not isinstance(given, str):
        return "a topic's name must be a string"
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > _MAX_NAME:
        return f"the length of '{name}' is longer than the max allowed length {_MAX_NAME}"
    if not _LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def _metric_name(topic: str) -> str:
    return topic.replace(".", "_")
