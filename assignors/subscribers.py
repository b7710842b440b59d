"""The subscribers of each topic, with members and topics in Kafka's orders."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index

from groupsdk.assignment import Cluster, GroupSubscription, Subscription
from groupsdk.utf16 import utf16_key, utf16_sorted


MAX_PARTITION_COUNT = 1 << 31
"""Partitions are numbered in a signed 32-bit integer."""


@dataclass(frozen=True, slots=True)
class Subscribers:
    """The members of a group, numbered in one order, and the topics that they share.

    `topics` are known topics with partitions that somebody subscribed to, in no particular order, to the numbers of the subscribers,
    ascending. Topics with the same subscribers hold the same object.
    """

    member_ids: Sequence[str]
    topics: Mapping[str, Sequence[int]]


def member_order(subscriptions: GroupSubscription) -> list[str]:
    """Return the member ids in the order of range and round robin (Kafka: `AbstractPartitionAssignor.MemberInfo`).

    Static members come first, by `group.instance.id`; then the others by member id. Both by UTF-16 code units."""
    dynamic = [
        member_id
        for member_id, subscription in subscriptions.items()
        if subscription.group_instance_id is None
    ]
    if len(dynamic) == len(subscriptions):
        return utf16_sorted(dynamic)
    static = [
        (utf16_key(subscription.group_instance_id), utf16_key(member_id), member_id)
        for member_id, subscription in subscriptions.items()
        if subscription.group_instance_id is not None
    ]
    return [*(member_id for _, _, member_id in sorted(static)), *utf16_sorted(dynamic)]


def partition_counts(cluster: Cluster) -> dict[str, int]:
    """Return the number of partitions of each topic that has any.

    Raises TypeError if a number is not an int. Raises ValueError if it is negative, or over 2**31.
    """
    counts = {}
    for topic, given in cluster.partition_counts.items():
        try:
            count = index(given)
        except TypeError:
            raise TypeError(
                f"topic {topic!r}: the number of partitions is {given!r}, not an int"
            ) from None
        if not 0 <= count <= MAX_PARTITION_COUNT:
            raise ValueError(
                f"topic {topic!r}: the number of partitions is {count}, not 0 to {MAX_PARTITION_COUNT}"
            )
        if count:
            counts[topic] = count
    return counts


def subscribers_of(
    counts: Mapping[str, int], subscriptions: GroupSubscription, member_ids: Sequence[str]
) -> Subscribers:
    """Find the subscribers of each topic.

    Takes time in proportion to the topics named in all different subscriptions, and to the subscribers of
    all topics with different ones: members with equal subscriptions are looked at once.
    """
    classes: dict[tuple[str, ...], list[int]] = {}
    of_object: dict[int, list[int]] = {}
    for number, member_id in enumerate(member_ids):
        topics = subscriptions[member_id].topics
        # decoding mostly yields one object for equal lists, which then need no hashing
        alike = of_object.get(id(topics))
        if alike is None:
            alike = of_object[id(topics)] = classes.setdefault(tuple(topics), [])
        alike.append(number)
    of_topic: dict[str, list[int]] = {}
    for place, topics in enumerate(classes):
        for topic in dict.fromkeys(topics):
            if topic in counts:
                of_topic.setdefault(topic, []).append(place)
    numbers = list(classes.values())
    joined: dict[tuple[int, ...], Sequence[int]] = {}
    by_topic: dict[str, Sequence[int]] = {}
    for topic, places in of_topic.items():
        key = tuple(places)
        if key not in joined:
            joined[key] = sorted(number for place in key for number in numbers[place])
        by_topic[topic] = joined[key]
    return Subscribers(member_ids, by_topic)


def checked(subscriptions: GroupSubscription) -> dict[str, Subscription]:
    """Return the subscriptions in a plain dict, which keeps its values alive during the checks.

    Raises TypeError if a member's topics are a single string.
    """
    members = dict(subscriptions)
    for member_id, subscription in members.items():
        if isinstance(subscription.topics, str):
            raise TypeError(
                f"member {member_id!r}: topics is the string {subscription.topics!r}, not a list of names"
            )
    return members


def java_topic_order(
    counts: Mapping[str, int], subscriptions: Mapping[str, Subscription]
) -> list[str]:
    """Return the subscribed topics in the order in which Kafka's `AbstractPartitionAssignor` iterates them.

    That is a HashMap, filled from a HashSet of all subscribed topics, which is filled from a HashMap of the members. Members
    are taken to be inserted by id and each one's topics by name, which is how clients send them; the order decides
    between names that share a bucket."""
    different: dict[tuple[str, ...], None] = {}
    seen: set[int] = set()
    for member_id in _hash_order(subscriptions):
        topics = subscriptions[member_id].topics
        if id(topics) not in seen:
            seen.add(id(topics))
            different.setdefault(tuple(topics))
    subscribed = dict.fromkeys(topic for topics in different for topic in utf16_sorted(topics))
    return java_map_order(topic for topic in java_map_order(subscribed) if topic in counts)


def _hash_order(subscriptions: Mapping[str, Subscription]) -> Iterable[str]:
    first = next(iter(subscriptions.values()), None)
    if first is None or all(each.topics is first.topics for each in subscriptions.values()):
        return subscriptions
    return java_map_order(utf16_sorted(subscriptions))


_FIRST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` as an unsigned 32-bit number."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _WORD
        return value
    units = utf16_key(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    return value


def java_map_order(keys: Iterable[str]) -> list[str]:
    """Return different strings in the order in which a Java HashMap iterates them.

    They are taken to be inserted one by one, in the given order, into a map of the default size; that order matters only
    for strings that share a bucket. Buckets that Java turns into trees (eight or more strings in one of 64 or more
    buckets, which takes a deliberate choice of names) are treated as lists."""
    listed = list(keys)
    if len(listed) < 2:
        return listed
    size = _FIRST_BUCKETS
    # doubled as soon as it holds more than three quarters of its buckets; a bucket that is split keeps
    # its order, so that only the final number matters
    while len(listed) * 4 > size * 3:
        size *= 2
    buckets: dict[int, list[str]] = {}
    for key in listed:
        value = java_hash(key)
        buckets.setdefault((value ^ value >> 16) & size - 1, []).append(key)
    return [key for index in sorted(buckets) for key in buckets[index]]
