"""Take from the records of groups of the newer protocols what tells the names of the topic ids in them."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.history.groups.modern_protocols import MODERN_PROTOCOLS, topic_id_text
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


_MEMBERS: Final = frozenset(protocol.member for protocol in MODERN_PROTOCOLS)
_TARGETS: Final = frozenset(protocol.target for protocol in MODERN_PROTOCOLS)
HINT_TYPES: Final = _MEMBERS | _TARGETS
"""The types of the records that tell."""


class TopicHint(NamedTuple):
    """One thing that a record tells of a group."""

    topic: str | None
    """A member subscribes to it."""
    topic_id: str | None
    """A member is to get partitions of it."""
    last_partition: int
    """The highest of those; -1 of a subscription."""
    is_open: bool
    """A member subscribes to a pattern: what names there are is not told."""


def topic_hints(record_type: int, key: bytes, value: bytes | None) -> Iterator[TopicHint]:
    """Tell what a record says; nothing where it is a tombstone, of another type, or cannot be decoded."""
    if value is None or record_type not in HINT_TYPES:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        # said elsewhere
        return
    if record_type in _TARGETS:
        for each in getattr(found, "topic_partitions", ()):
            yield TopicHint(
                None, topic_id_text(each.topic_id), max(each.partitions, default=-1), False
            )
        return
    for name in getattr(found, "subscribed_topic_names", ()):
        yield TopicHint(name, None, -1, False)
    if getattr(found, "subscribed_topic_regex", None):
        yield TopicHint(None, None, -1, True)


def hints_in_topic_list(key: bytes, value: bytes | None) -> Iterator[TopicHint]:
    """Tell the names of topic ids in a record of the topics that a group subscribes to (until Kafka 4.0)."""
    if value is None:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        return
    for topic in found.topics:
        yield TopicHint(topic.topic_name, topic_id_text(topic.topic_id), -1, False)
