"""The topic metadata of consumer groups: ids, partition counts, racks, and their hash (KIP-1101)."""

import struct
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from uuid import UUID


Partitions = dict[UUID, tuple[int, ...]]
"""Partitions by topic id; ascending, except in target assignments, which keep the order of Kafka's hash tables."""

_LARGE_SUBSCRIPTION: Final = 512
_KEPT_SUBSCRIPTIONS: Final = 8
_KEPT_SETS: Final = 1024
_SORTED_AT_ONCE: Final = 4096
_TOPICS_IN_A_STEP: Final = 256


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


def no_end_offset(topic: str, partition: int) -> int | None:
    """Return None: there is no log."""
    return None


class NoTopics:
    """An image of a cluster without topics."""

    version = 0

    def topic(self, name: str) -> TopicInfo | None:
        return None

    def topic_by_id(self, topic_id: UUID) -> TopicInfo | None:
        return None

    def names(self) -> Iterable[str]:
        """Return an empty collection."""
        return ()


def signed_halves(topic_id: UUID) -> tuple[int, int]:
    """Return the two signed 64-bit numbers that a Kafka Uuid has."""
    high, low = struct.unpack(">qq", topic_id.bytes)
    return high, low


@lru_cache(65_536)
def topic_hash(topic: TopicInfo) -> int:
    """Return the hash of one topic, as a signed 64-bit integer (Kafka: `Utils.computeTopicHash`)."""
    parts = [b"\0", struct.pack("<qq", *signed_halves(topic.topic_id)), _text(topic.name)]
    parts.append(struct.pack("<i", topic.partitions))
    for index in range(topic.partitions):
        parts.append(struct.pack("<i", index))
        racks = topic.racks[index] if index < len(topic.racks) else ()
        for rack in sorted(racks):
            # the number of UTF-16 code units: Kafka writes it once, and its hash library writes it again
            parts += [struct.pack("<i", len(rack.encode("utf-16-le")) // 2), _text(rack)]
    return _signed(b"".join(parts))


def names_set(names: tuple[str, ...]) -> frozenset[str]:
    """Return a shared set for equal names, since most members of a broker subscribe to the same few topics.

    To compare two sets of very many names takes long, unless they are the same object: `same_names`.
    """
    return _small_set(names) if len(names) < _LARGE_SUBSCRIPTION else _large_set(names)


def same_names(names: frozenset[str], others: frozenset[str]) -> bool:
    """Return whether two sets are equal; `==` alone looks at all names also of a set and itself."""
    return names is others or names == others


@lru_cache(_KEPT_SETS)
def _small_set(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names)


@lru_cache(2 * _KEPT_SUBSCRIPTIONS)  # as they were given, and in order
def _large_set(names: tuple[str, ...]) -> frozenset[str]:
    return _first_of_equal(frozenset(names))


@lru_cache(_KEPT_SUBSCRIPTIONS)
def _first_of_equal(names: frozenset[str]) -> frozenset[str]:
    return names


def names_in_order(names: frozenset[str]) -> tuple[str, ...]:
    """Return names as records and responses have them."""
    if len(names) < _LARGE_SUBSCRIPTION:
        return tuple(sorted(names))
    return _in_order.get(names) or _keep_order(names, sorted(names))


_in_order: Final[dict[frozenset[str], tuple[str, ...]]] = {}


def _keep_order(names: frozenset[str], ordered: list[str]) -> tuple[str, ...]:
    for oldest in tuple(_in_order)[: 1 - _KEPT_SUBSCRIPTIONS]:
        _in_order.pop(oldest, None)
    kept = _in_order[names] = tuple(ordered)
    return kept


def _put_in_order(names: frozenset[str]) -> Generator[None, None, None]:
    """Sort many names in steps, so that `names_in_order` finds them."""
    if len(names) < _LARGE_SUBSCRIPTION or names in _in_order:
        return
    ordered: list[str] = []
    left = iter(names)
    while some := sorted(islice(left, _SORTED_AT_ONCE)):
        ordered += some
        yield
    ordered.sort()  # merges these runs, which takes a fraction of sorting all
    kept = _keep_order(names, ordered)
    yield
    names_set(kept)  # so that these names in this order, as records have them, find the set at once
    yield


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


class Existing(NamedTuple):
    """The topics of a subscription that exist."""

    topics: Mapping[UUID, TopicInfo]
    """By id, in the order of their names; read-only, as assignors of users get it."""
    ids: frozenset[UUID]
    hash: int
    """Their `metadata_hash`."""


class SubscribedTopics:
    """The existing topics of subscriptions, by the names subscribed to.

    A request needs those of its group several times: those of large subscriptions are kept until topics change.
    """

    __slots__ = ("_kept", "_version", "image")

    def __init__(self, image: Callable[[], TopicImage]) -> None:
        self.image = image
        self._kept: dict[frozenset[str], Existing] = {}
        self._version = -1

    def of(self, names: frozenset[str]) -> Existing:
        """Return the existing topics of these names."""
        self._drop_outdated()
        found = self._kept.get(names)
        if found is None:
            found = _existing(existing_topics(names, self.image()))
            self._keep(names, found)
        return found

    def ids_of(self, names: frozenset[str]) -> frozenset[UUID]:
        """Return the ids of the existing topics of these names."""
        if len(names) < _LARGE_SUBSCRIPTION:
            return frozenset(topic.topic_id for topic in existing_topics(names, self.image()))
        return self.of(names).ids

    def is_long(self, names: frozenset[str]) -> bool:
        """Return whether these names are so many that `of` takes long for them now."""
        self._drop_outdated()
        return len(names) >= _LARGE_SUBSCRIPTION and names not in self._kept

    def prepare(self, names: frozenset[str]) -> Generator[None, None, None]:
        """Look up the topics of these names in steps, if they are many, so that `of` finds them."""
        yield from _put_in_order(names)
        if not self.is_long(names):
            return
        image = self.image()
        version = image.version
        known = []
        for number, name in enumerate(names, 1):
            topic = image.topic(name)
            if topic is not None:
                topic_hash(topic)
                known.append(topic)
            if not number % _TOPICS_IN_A_STEP:
                yield
        known.sort(key=attrgetter("name"))
        yield
        found = _existing(known)
        yield
        if image.version == version:
            self._drop_outdated()
            self._keep(names, found)

    def _drop_outdated(self) -> None:
        version = self.image().version
        if self._version != version:
            self._version = version
            self._kept.clear()

    def _keep(self, names: frozenset[str], found: Existing) -> None:
        if len(names) < _LARGE_SUBSCRIPTION:
            return
        while len(self._kept) >= _KEPT_SUBSCRIPTIONS:
            del self._kept[next(iter(self._kept))]
        self._kept[names] = found


def _existing(known: Iterable[TopicInfo]) -> Existing:
    topics = {topic.topic_id: topic for topic in known}
    return Existing(MappingProxyType(topics), frozenset(topics), metadata_hash(topics.values()))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + struct.pack("<i", len(units) // 2)


def _signed(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # only brokers with consumer groups need it

    number = xxh3_64_intdigest(data)
    return number - 2**64 if number >= 2**63 else number
