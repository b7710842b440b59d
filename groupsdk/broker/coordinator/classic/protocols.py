"""Select the protocol of a generation, and parse the topics that its members subscribe to."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import ConsumerProtocolDecoder
from groupsdk.wire.coordinator_records.partitioner import java_hash


Protocols = tuple[tuple[str, bytes], ...]
"""The protocols that a member offers, in order of preference: their names with the member's metadata."""

_FIRST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def metadata_of(protocols: Protocols, name: str | None) -> bytes:
    """Return a member's metadata for the protocol of this name; empty if it does not offer it."""
    for offered, metadata in protocols:
        if offered == name:
            return metadata
    return b""


def largest_metadata(protocols: Protocols) -> int:
    """Return the size of the largest metadata in bytes; a group's record holds the metadata for one protocol only."""
    if len(protocols) == 1:
        return len(protocols[0][1])
    return max([len(metadata) for _, metadata in protocols], default=0)


def choose_protocol(offers: Iterable[Protocols], supported: Mapping[str, int]) -> str | None:
    """Return the protocol that most members prefer among those that all of them support; None if there is none.

    Ties are resolved as by Kafka: the name that comes first in the iteration order of a Java HashMap wins.
    """
    listed = list(offers)
    candidates = {name for name, count in supported.items() if count == len(listed)}
    votes: dict[str, int] = {}
    for protocols in listed:
        vote = next((name for name, _ in protocols if name in candidates), None)
        if vote is not None:
            votes[vote] = votes.get(vote, 0) + 1
    if len(votes) < 2:
        return next(iter(votes), None)
    most = max(votes.values())
    return next(name for name in hash_map_order(votes) if votes[name] == most)


def hash_map_order(names: Iterable[str]) -> list[str]:
    """List names in the iteration order of a Java HashMap into which they were inserted in this order."""
    listed = list(names)
    size = _FIRST_BUCKETS
    while len(listed) * 4 > size * 3:
        size *= 2
    # equal positions keep their order, as in the list of a hash bucket
    return sorted(listed, key=lambda name: _spread(java_hash(name)) & size - 1)


def _spread(value: int) -> int:
    word = value & _WORD
    return word ^ word >> 16


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the topics of all consumer protocol subscriptions; None if one of them cannot be parsed.

    Members of one application mostly have equal subscriptions: each distinct one is parsed once.
    """
    union: frozenset[str] | None = None
    for each in set(subscriptions):
        topics = _topics(each)
        if topics is None:
            return None
        union = topics if union is None or union == topics else union | topics
    return frozenset() if union is None else union


@lru_cache(maxsize=1024)
def _topics(subscription: bytes) -> frozenset[str] | None:
    # every later version starts with the fields of version 0, so additions of newer clients do not matter
    try:
        return frozenset(ConsumerProtocolDecoder().subscription(b"\0\0" + subscription[2:]).topics)
    except DecodeError:
        return None
