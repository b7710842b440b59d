"""Read the records of the newer group protocols alike: consumer (KIP-848), share (KIP-932), streams (KIP-1071).

They name topics by ids; some of them give hints to the names.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from groupsdk.errors import DecodeError
from groupsdk.history.explain.timeline.member import Member, Partitions, in_order
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value


@dataclass(frozen=True, slots=True)
class ModernProtocol:
    """The numbers of a protocol's record types; `target` and `current` are a member's assignments."""

    name: str
    epoch: int
    member: int
    target_epoch: int
    target: int
    current: int


MODERN_PROTOCOLS: Final = (
    ModernProtocol("consumer", epoch=3, member=5, target_epoch=6, target=7, current=8),
    ModernProtocol("share", epoch=11, member=10, target_epoch=12, target=13, current=14),
    ModernProtocol("streams", epoch=17, member=19, target_epoch=20, target=21, current=22),
)
PROTOCOL_BY_RECORD_TYPE: Final[Mapping[int, ModernProtocol]] = {
    record_type: family
    for family in MODERN_PROTOCOLS
    for record_type in (
        *(family.epoch, family.member),
        *(family.target_epoch, family.target, family.current),
    )
}

STANDBY: Final = "standby"
WARMUP: Final = "warmup"

PARTITION_METADATA: Final = 4
REGULAR_EXPRESSION: Final = 16
SHARED_PARTITIONS: Final = 15
TOPOLOGY: Final = 23
DETAIL_TYPES: Final[Mapping[int, str]] = {
    REGULAR_EXPRESSION: "consumer",
    SHARED_PARTITIONS: "share",
    TOPOLOGY: "streams",
}
"""The types of further records, which never begin a group, by the protocol of each."""
NAMING_TYPES: Final = frozenset({PARTITION_METADATA, SHARED_PARTITIONS})
"""The types of the records that have names of topics with their ids."""

_MEMBERS: Final = frozenset(protocol.member for protocol in MODERN_PROTOCOLS)
_TARGETS: Final = frozenset(protocol.target for protocol in MODERN_PROTOCOLS)
HINT_TYPES: Final = _MEMBERS | _TARGETS
"""The types of the records with hints to the names of topic ids."""


@lru_cache(maxsize=4096)
def topic_id_text(topic_id: UUID) -> str:
    """Return `topic_id` as Kafka's tools print it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def member_of(member_id: str, value: Any) -> Member:
    classic = getattr(value, "classic_member_metadata", None)
    topics: Iterable[str] = getattr(value, "subscribed_topic_names", ())
    pattern: str | None = getattr(value, "subscribed_topic_regex", None)
    if pattern:
        # stands for topics that another record lists; shown as the pattern
        topics = (*topics, f"/{pattern}/")
    return Member(
        member_id,
        # a missing instance id may be written as ""
        getattr(value, "instance_id", None) or None,
        value.client_id,
        value.client_host,
        -1 if classic is None else classic.session_timeout_ms,
        getattr(value, "rebalance_timeout_ms", -1),
        tuple(sorted(topics)),
        rack_id=getattr(value, "rack_id", None) or None,
        assignor_offered=getattr(value, "server_assignor", None) or None,
    )


def target_of(value: Any) -> Partitions:
    """Return the target assignment in a decoded `value`; a streams group's active tasks are keyed by subtopology."""
    return _partitions(getattr(value, "topic_partitions", None), value)


def assigned_of(value: Any) -> Partitions:
    return _partitions(getattr(value, "assigned_partitions", None), value)


def revoking_of(value: Any) -> Partitions:
    """Return the partitions in a decoded `value` that a member must revoke before it gets more."""
    tasks = getattr(value, "active_tasks_pending_revocation", ())
    return _named(getattr(value, "partitions_pending_revocation", None), tasks)


def spares_of(value: Any) -> dict[str, Partitions]:
    """Return the standby and warmup tasks in a decoded `value`, by the phase that stands for them; only streams groups have some."""
    found = {
        STANDBY: _named(None, getattr(value, "standby_tasks", ())),
        WARMUP: _named(None, getattr(value, "warmup_tasks", ())),
    }
    return {phase: tasks for phase, tasks in found.items() if tasks}


def _partitions(by_topic: Any, value: Any) -> Partitions:
    return _named(by_topic, getattr(value, "active_tasks", ()))


def _named(by_topic: Any, tasks: Any) -> Partitions:
    if by_topic is not None:
        return in_order((topic_id_text(each.topic_id), each.partitions) for each in by_topic)
    return in_order((each.subtopology_id, each.partitions) for each in tasks)


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
    """Yield the hints of a record with this `key` and `value`; none if it is a tombstone, of another type, or cannot be decoded."""
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


def named_topics(value: Any) -> Iterator[tuple[str, str]]:
    every = getattr(value, "topics", None)
    if every is None:
        every = (*value.initializing_topics, *value.initialized_topics, *value.deleting_topics)
    for topic in every:
        if topic.topic_name:
            yield topic_id_text(topic.topic_id), topic.topic_name


def sources_of(value: Any) -> dict[str, tuple[str, ...]]:
    """Return the topics that each part of a streams group's topology reads, and commits."""
    return {
        each.subtopology_id: (
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        )
        for each in value.subtopologies
    }


def hints_in_topic_list(key: bytes, value: bytes | None) -> Iterator[TopicHint]:
    """Yield topic names with their ids from a record of `NAMING_TYPES`: the partition metadata of a group (until Kafka 4.0), and the
    partitions of a share group.
    """
    if value is None:
        return
    try:
        of_what: Any = read_key(key)
        found: Any = read_value(of_what, value)
    except DecodeError:
        return
    for topic_id, name in named_topics(found):
        yield TopicHint(name, topic_id, -1, False)
