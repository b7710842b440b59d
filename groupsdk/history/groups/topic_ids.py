"""Collect hints to the names of topic ids from the records of groups of the newer protocols."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.history.groups.modern_protocols import MODERN_PROTOCOLS, topic_id_text
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


_MEMBERS: Final = frozenset(protocol.member for protocol in MODERN_PROTOCOLS)
_TARGETS: Final = frozenset(protocol.target for protocol in MODERN_PROTOCOLS)
HINT_TYPES: Final = _MEMBERS | _TARGETS
"""The types of the records with hints."""


class TopicHint(NamedTuple):
    """A topic name or topic id that a record of a group mentions."""

    topic: str | None
    """The name of a topic that a member subscribes to; None in an assignment."""
    topic_id: str | None
    """The id of a topic that a member is assigned; None in a subscription."""
    last_partition: int
    """The highest partition assigned; -1 in a subscription."""
    is_open: bool
    """A member subscribes to a pattern, so the record does not list all names."""


def topic_hints(record_type: int, key: bytes, value: bytes | None) -> Iterator[TopicHint]:
    """Yield the hints of a record: none if it is a tombstone, of another type, or cannot be decoded."""
    if value is None or record_type not in HINT_TYPES:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        # the group's timeline reports it as a reject
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
    """Yield names with their ids from a record of a group's partition metadata (until Kafka 4.0)."""
    if value is None:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        return
    for topic in found.topics:
        yield TopicHint(topic.topic_name, topic_id_text(topic.topic_id), -1, False)
