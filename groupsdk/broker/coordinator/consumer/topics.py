"""The topic metadata of consumer groups: ids, partition counts, racks, and their hash (KIP-1101)."""

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, Protocol
from uuid import UUID


Partitions = dict[UUID, tuple[int, ...]]
"""Partitions by topic id; ascending, except in target assignments, which keep the order of Kafka's hash tables."""


class TopicInfo(NamedTuple):
    """The properties of a topic that assignments depend on."""

    topic_id: UUID
    name: str
    partitions: int
    racks: tuple[tuple[str, ...], ...] = ()
    """The racks of each partition's replicas; empty if no broker has a rack."""


class TopicImage(Protocol):
    """A view of the cluster's current topics."""

    @property
    def version(self) -> int:
        """A number that changes whenever a topic is created, deleted or gets partitions."""

    def topic(self, name: str) -> TopicInfo | None:
        """Return a topic by its name; None if it does not exist."""

    def topic_by_id(self, topic_id: UUID) -> TopicInfo | None:
        """Return a topic by its id; None if it does not exist."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics, internal ones included."""


GroupLags = Callable[[str, Iterable[TopicInfo]], Mapping[UUID, Mapping[int, int]]]
"""Returns how many records of topics are behind a group's committed offsets, by topic and partition, where known."""

EndOffsets = Callable[[str, int], int | None]
"""Returns the offset after the last record of a partition; None if the log is not open."""


def no_lags(group_id: str, topics: Iterable[TopicInfo]) -> Mapping[UUID, Mapping[int, int]]:
    """Return nothing: no lag is known."""
    return {}


def no_end_offset(topic: str, partition: int) -> int | None:
    """Return None: there is no log."""
    return None


class NoTopics:
    """An image of a cluster without topics."""

    version = 0

    def topic(self, name: str) -> TopicInfo | None:
        """Return None: there is no topic."""
        return None

    def topic_by_id(self, topic_id: UUID) -> TopicInfo | None:
        """Return None: there is no topic."""
        return None

    def names(self) -> Iterable[str]:
        """Return an empty collection."""
        return ()


@lru_cache(65_536)
def topic_hash(topic: TopicInfo) -> int:
    """Return the hash of one topic, as a signed 64-bit integer (Kafka: `Utils.computeTopicHash`)."""
    high, low = struct.unpack(">qq", topic.topic_id.bytes)
    parts = [b"\0", struct.pack("<qq", high, low), _text(topic.name)]
    parts.append(struct.pack("<i", topic.partitions))
    for index in range(topic.partitions):
        parts.append(struct.pack("<i", index))
        racks = topic.racks[index] if index < len(topic.racks) else ()
        for rack in sorted(racks):
            # the number of UTF-16 code units: Kafka writes it once, and its hash library writes it again
            parts += [struct.pack("<i", len(rack.encode("utf-16-le")) // 2), _text(rack)]
    return _signed(b"".join(parts))


def existing_topics(names: Iterable[str], image: TopicImage) -> list[TopicInfo]:
    """Return the topics of these names that exist, ordered by name."""
    existing = [topic for name in names if (topic := image.topic(name)) is not None]
    existing.sort(key=attrgetter("name"))
    return existing


def metadata_hash(existing: Iterable[TopicInfo]) -> int:
    """Return the hash of the topics that a group subscribes to, as a signed 64-bit integer; 0 if there are none.

    Args:
        existing: the result of `existing_topics`.
    """
    hashes = [topic_hash(topic) for topic in existing]
    return _signed(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _signed(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # only brokers with consumer groups need it

    number = xxh3_64_intdigest(data)
    return number - 2**64 if number >= 2**63 else number
