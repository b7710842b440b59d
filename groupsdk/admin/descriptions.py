"""Descriptions of groups and members, and decoding of members' bytes. Pure: no I/O, no clock."""

import json
from base64 import b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from groupsdk.assignment import TopicPartition
from groupsdk.errors import DecodeError
from groupsdk.wire import connect_protocol
from groupsdk.wire.connect_protocol import CONNECT_PROTOCOL_TYPE, ConnectorTaskId
from groupsdk.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolDecoder,
    is_subscription,
)
from groupsdk.wire.shards.names import split_name
from groupsdk.wire.shards.protocol import (
    PROTOCOL_NAME as SHARDS,
    decode_assignment as decode_shards,
    decode_member,
)


_SHOWN_BYTES: Final = 400


GROUP_STATES: Final = (
    "Assigning",
    "CompletingRebalance",
    "Dead",
    "Empty",
    "NotReady",
    "PreparingRebalance",
    "Reconciling",
    "Stable",
    "Unknown",
)
"""The names of states in brokers' answers, for groups of all types."""
REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)
"""States of a group that is rebalancing."""


class GroupType(StrEnum):
    """The protocol of a group, as named by the broker (KIP-848)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, name: str) -> "GroupType":
        """Return the type by its broker name; brokers before 3.7 send none and have only classic groups."""
        try:
            return cls(name.lower()) if name else cls.CLASSIC
        except ValueError:
            return cls.UNKNOWN


GROUP_TYPES: Final = tuple(each.value for each in GroupType if each is not GroupType.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    type: GroupType
    state: str
    """The broker's word, such as "Stable"; "" where a broker before 2.6 does not say."""
    protocol_type: str
    """ "consumer", "connect" or the type of a group of its own; "" where nobody ever joined."""
    coordinator: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's subscription, as decoded from its bytes."""

    topics: tuple[str, ...] = ()
    regex: str | None = None
    """The pattern that the broker resolves (KIP-848)."""
    owned: tuple[TopicPartition, ...] = ()
    """The partitions that it had when it joined."""
    url: str | None = None
    """A Connect worker's REST address; where a `ShardWorker` serves its shards."""
    zone: str | None = None
    """Of a `ShardWorker`."""
    draining: bool = False
    """Whether a `ShardWorker` gives up all its shards."""
    capacity: float | None = None
    """How much a `ShardWorker` can bear relative to the others."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """The loads that a `ShardWorker` has reported when it joined last, by shard."""
    other: Any = None
    """The content of a protocol of its own: JSON, a string, or base64 of the bytes as {"base64": ...}."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's assignment, as decoded from its bytes."""

    partitions: tuple[TopicPartition, ...] = ()
    connectors: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Connect's tasks as "connector-0"."""
    revoked: tuple[str, ...] = ()
    """Connectors and tasks that a Connect worker is to stop."""
    leader_url: str | None = None
    shards: Mapping[str, int] = field(default_factory=dict)
    """A `ShardWorker`'s, with the epoch of each."""
    standbys: tuple[str, ...] = ()
    """The shards that a `ShardWorker` stands by for."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weights of a `ShardWorker`'s shards that have another than 1."""
    other: Any = None
    """As in `Subscription`."""

    @property
    def size(self) -> int | None:
        """The number of parts; None if a custom protocol's content is not a list."""
        if self.other is not None and not isinstance(self.other, list):
            return None
        known = (self.partitions, self.connectors, self.tasks, self.shards, self.other or ())
        return sum(map(len, known))

    @property
    def parts(self) -> tuple[str, ...]:
        """The name of each partition, connector and task, and each element of a list of a protocol of its own."""
        names = (f"{each.topic}-{each.partition}" for each in self.partitions)
        elements = self.other if isinstance(self.other, list) else ()
        return (*names, *self.connectors, *self.tasks, *self.shards, *map(shown, elements))

    @property
    def text(self) -> str:
        known = ranges(self.partitions) or ", ".join((*self.connectors, *self.tasks))
        known = known or name_ranges(self.shards)
        if self.standbys:
            known += f" standby: {name_ranges(self.standbys)}"
        return known.strip() or shown(self.other)


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    """group.instance.id of a static member."""
    rack: str | None = None
    protocol: GroupType = GroupType.CLASSIC
    """The protocol that it speaks; a group may have members of both (KIP-848)."""
    epoch: int | None = None
    """The epoch of a member of the consumer protocol."""
    subscription: Subscription = field(default_factory=Subscription)
    assignment: Assignment = field(default_factory=Assignment)
    target: Assignment | None = None
    """Where the coordinator moves a member of the consumer protocol to; None for classic groups."""

    @property
    def weight(self) -> float:
        """The weight of the shards that it owns."""
        return sum(self.assignment.weights.get(name, 1.0) for name in self.assignment.shards)

    @property
    def load(self) -> float:
        """The load of the shards that it owns, as far as it was reported."""
        loads = self.subscription.loads
        return sum(loads[name] for name in self.assignment.shards if name in loads)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    group_id: str
    type: GroupType
    state: str
    protocol_type: str
    assignor: str
    """The protocol that the members agreed on, or the server-side assignor; "" for none."""
    coordinator: int
    members: tuple[Member, ...] = ()
    epoch: int | None = None
    """The epoch of a group of the consumer protocol."""
    assignment_epoch: int | None = None

    @property
    def active(self) -> bool:
        return bool(self.members) or self.state not in ("Empty", "Dead", "")


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A group's progress in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The committed offset; None if nothing is committed."""
    end: int | None
    """The end of the log; None if the partition does not exist."""
    member_id: str | None = None
    client_id: str | None = None
    host: str | None = None

    @property
    def lag(self) -> int | None:
        """The number of offsets still to read; None if unknown."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


def read_subscription(protocol_type: str, data: bytes, protocol: str = "") -> Subscription:
    """Decode the metadata that a member joined with; content that cannot be decoded becomes `other`.

    Args:
        protocol: the one that the group has chosen; it tells a group of `ShardWorker`s, whose type is the user's.
    """
    if not data:
        return Subscription()
    try:
        if protocol == SHARDS:
            state = decode_member(data)
            return Subscription(
                url=state.endpoint,
                zone=state.zone,
                draining=state.draining,
                capacity=state.capacity,
                loads=state.loads,
            )
        if _of_consumer(protocol_type, data):
            read = ConsumerProtocolDecoder().subscription(data)
            return Subscription(tuple(read.topics), owned=_flat(read.owned_partitions))
        if protocol_type == CONNECT_PROTOCOL_TYPE:
            return Subscription(url=connect_protocol.decode_metadata(data).url)
    except DecodeError:
        pass
    return Subscription(other=readable(data))


def read_assignment(
    protocol_type: str, data: bytes, joined_with: bytes = b"", protocol: str = ""
) -> Assignment:
    """Decode a member's assignment; content that cannot be decoded becomes `other`.

    A worker of Connect is given only what is new (KIP-415): what it has besides is in the bytes that it `joined_with`. A
    consumer in a group of another type is known by these.
    """
    if not data:
        return Assignment()
    try:
        if protocol == SHARDS:
            given = decode_shards(data)
            return Assignment(shards=given.owned, standbys=given.standbys, weights=given.weights)
        if _of_consumer(protocol_type, joined_with):
            return Assignment(_flat(ConsumerProtocolDecoder().assignment(data).assigned_partitions))
        if protocol_type == CONNECT_PROTOCOL_TYPE:
            return _connect_assignment(data, joined_with)
    except DecodeError:
        pass
    return Assignment(other=readable(data))


def _of_consumer(protocol_type: str, metadata: bytes) -> bool:
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        return True
    return protocol_type != CONNECT_PROTOCOL_TYPE and is_subscription(metadata)


def _connect_assignment(data: bytes, joined_with: bytes) -> Assignment:
    given = connect_protocol.decode_assignment(data)
    had = connect_protocol.decode_metadata(joined_with).assignment if joined_with else None
    kept: Sequence[str] = ()
    kept_tasks: Sequence[ConnectorTaskId] = ()
    if had is not None:
        kept = [each for each in had.connectors if each not in given.revoked_connectors]
        kept_tasks = [each for each in had.tasks if each not in given.revoked_tasks]
    return Assignment(
        connectors=tuple(sorted({*kept, *given.connectors})),
        tasks=tuple(
            f"{each.connector}-{each.task}" for each in sorted({*kept_tasks, *given.tasks})
        ),
        revoked=(
            *given.revoked_connectors,
            *(f"{each.connector}-{each.task}" for each in given.revoked_tasks),
        ),
        leader_url=given.leader_url,
    )


def readable(data: bytes) -> Any:
    """Return bytes of an unknown protocol as JSON or a string if possible, else as {"base64": ...}."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text if text.isprintable() else {"base64": b64encode(data).decode()}


def shown(value: Any) -> str:
    """Return a value of `readable` as one line for a table."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]}…"


def is_pattern(name: str) -> bool:
    """Return whether a name has one of the characters by which shell patterns match others."""
    return any(each in name for each in "*?[")


def matches(name: str, patterns: Collection[str]) -> bool:
    """Return whether a name matches one of some shell patterns, or there are none."""
    return not patterns or any(fnmatchcase(name, each) for each in patterns)


def ranges(partitions: Mapping[str, tuple[int, ...]] | tuple[TopicPartition, ...]) -> str:
    """Format partitions compactly, as in "orders(0-3,7), payments(1)"."""
    by_topic: dict[str, list[int]] = {}
    if isinstance(partitions, Mapping):
        by_topic = {topic: sorted(numbers) for topic, numbers in partitions.items()}
    else:
        for topic, number in partitions:
            by_topic.setdefault(topic, []).append(number)
    return ", ".join(f"{topic}({_runs(sorted(of))})" for topic, of in sorted(by_topic.items()))


def name_ranges(names: Iterable[str]) -> str:
    """Format names compactly: those that end in numbers as in "shard-(0-3,7)"."""
    return ", ".join(families_of(names))


def families_of(names: Iterable[str]) -> list[str]:
    """Return names as `name_ranges` formats them, one by one."""
    families: dict[tuple[str, int], list[int]] = {}
    others = []
    for name in sorted(names):
        split = split_name(name)
        if split is None:
            others.append(name)
        else:
            families.setdefault(split[:2], []).append(split[2])
    parts = [*others]
    for (prefix, width), numbers in families.items():
        if len(numbers) == 1:
            parts.append(f"{prefix}{numbers[0]:0{width}d}")
        else:
            parts.append(f"{prefix}({_runs(sorted(numbers), width)})")
    return sorted(parts)


def _runs(numbers: list[int], width: int = 0) -> str:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return ",".join(
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
        for first, last in runs
    )


def _flat(partitions: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic, number)
        for topic, numbers in sorted(partitions.items())
        for number in sorted(numbers)
    )
