"""Take from the records of groups of the newer protocols what tells the names of the topic ids in them."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.history.groups.families import FAMILIES, topic_id_text
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


_MEMBERS: Final = frozenset(family.member for family in FAMILIES)
_TARGETS: Final = frozenset(family.target for family in FAMILIES)
TELLING: Final = _MEMBERS | _TARGETS
"""The types of the records that tell."""


class Told(NamedTuple):
    """One thing that a record tells of a group."""

    topic: str | None
    """A member subscribes to it."""
    topic_id: str | None
    """A member is to get partitions of it."""
    last_partition: int
    """The highest of those; -1 of a subscription."""
    is_open: bool
    """A member subscribes to a pattern: what names there are is not told."""


def told_by(record_type: int, key: bytes, value: bytes | None) -> Iterator[Told]:
    """Tell what a record says; nothing where it is a tombstone, of another type, or cannot be decoded."""
    if value is None or record_type not in TELLING:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        # said elsewhere
        return
    if record_type in _TARGETS:
        for each in getattr(found, "topic_partitions", ()):
            yield Told(None, topic_id_text(each.topic_id), max(each.partitions, default=-1), False)
        return
    for name in getattr(found, "subscribed_topic_names", ()):
        yield Told(name, None, -1, False)
    if getattr(found, "subscribed_topic_regex", None):
        yield Told(None, None, -1, True)


def names_in(key: bytes, value: bytes | None) -> Iterator[Told]:
    """Tell the names of topic ids in a record of the topics that a group subscribes to (until Kafka 4.0)."""
    if value is None:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        return
    for topic in found.topics:
        yield Told(topic.topic_name, topic_id_text(topic.topic_id), -1, False)
