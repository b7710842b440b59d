"""The state of one consumer group, derived from its records alone; only `replay` changes it.

A draft of a group is a copy on write: its cost depends on the request's changes, not on the group's size.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from groupsdk.broker.coordinator.consumer.member import (
    LEFT_EPOCH,
    MANY_TOPICS,
    NOTHING_HELD,
    ConsumerGroupMember,
    partitions_of,
    read_holdings,
    read_state,
    written_partitions,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions, names_set
from groupsdk.broker.coordinator.group_status import ConsumerGroupState
from groupsdk.broker.coordinator.runtime.contract import CoordinatorRecord
from groupsdk.lazy_imports import override
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from groupsdk.wire.coordinator_records.declaration import CoordinatorValue, write, write_in_steps
from groupsdk.wire.records.pairs import Pair


FIRST_EPOCH: Final = 1
"""The group epoch and the assignment epoch of a group without records (KAFKA-20268)."""

T = TypeVar("T")


class AssignmentRecord(NamedTuple):
    """The current assignment of a member; its value is made when it is encoded, as that takes long for very many topics."""

    key: ConsumerGroupCurrentMemberAssignmentKey
    member: ConsumerGroupMember

    def encoded(self) -> Sequence[Pair]:
        return (write(self.key, self.member.assignment_value()),)

    def encoded_in_steps(self) -> Generator[None, None, Pair]:
        value = self.member.assignment_value()
        if self.member.is_large:
            yield
        return (yield from write_in_steps(self.key, value))


class TargetRecord(NamedTuple):
    """The target assignment of a member, likewise."""

    key: ConsumerGroupTargetAssignmentMemberKey
    target: Partitions

    def value(self) -> ConsumerGroupTargetAssignmentMemberValue:
        return ConsumerGroupTargetAssignmentMemberValue(written_partitions(self.target))

    def encoded(self) -> Sequence[Pair]:
        return (write(self.key, self.value()),)

    def encoded_in_steps(self) -> Generator[None, None, Pair]:
        value = self.value()
        if len(self.target) > MANY_TOPICS:
            yield
        return (yield from write_in_steps(self.key, value))


GroupRecord = CoordinatorRecord | AssignmentRecord | TargetRecord
"""One record of a consumer group, decoded."""


def topics_in(record: GroupRecord) -> int:
    """Return of how many topics a record of a member is."""
    if isinstance(record, CoordinatorRecord):
        return len(getattr(record.value, "subscribed_topic_names", ()))
    return len(record.target if isinstance(record, TargetRecord) else record.member.assigned)


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches (KIP-848: RegularExpression record)."""

    topics: frozenset[str]
    version: int
    """The version of the topic image when the expression was resolved."""
    timestamp_ms: int
    """When it was resolved, in milliseconds since 1970."""


class MemberCounts(NamedTuple):
    """Counts of a group's members by subscription and by requested assignor.

    Nearly all members share these, so the counts avoid iterating over the members.
    """

    subscriptions: dict[tuple[frozenset[str], str], int]
    """Number of members by subscription: topic names and a regular expression, "" for none."""
    assignors: dict[str, int]
    """Number of members by requested assignor; members without one are not counted."""

    def copy(self) -> "MemberCounts":
        return MemberCounts(dict(self.subscriptions), dict(self.assignors))

    def add(self, member: ConsumerGroupMember) -> None:
        _count(self.subscriptions, (member.topic_names, member.regex), 1)
        if member.server_assignor is not None:
            _count(self.assignors, member.server_assignor, 1)

    def subtract(self, member: ConsumerGroupMember) -> None:
        """Stop counting a member, which must have been counted with the same values."""
        _count(self.subscriptions, (member.topic_names, member.regex), -1)
        if member.server_assignor is not None:
            _count(self.assignors, member.server_assignor, -1)


def _count(counts: dict[T, int], key: T, change: int) -> None:
    left = counts.get(key, 0) + change
    if left:
        counts[key] = left
    else:
        del counts[key]


class ConsumerGroup:
    """The state of a group, as replayed from its records (Kafka: `ConsumerGroup`).

    Only `replay` changes it, with the decoded records of this one group in the order of the log.

    Attributes:
        metadata_hash: the hash of the topics that the group subscribes to; 0 if none of them exists.
        assignment_epoch: the epoch of the target assignment; -1 once its record is deleted.
        assignment_timestamp_ms: when the target was computed, in milliseconds since 1970; 0: unknown.
        static_members: the member id of each instance id.
        targets: the target assignment of each member by id.
    """

    __slots__ = (
        "_base",
        "_changed",
        "_counts",
        "_holders",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "regexes",
        "static_members",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: MutableMapping[str, ConsumerGroupMember] = {}
        self.static_members: MutableMapping[str, str] = {}
        self.targets: MutableMapping[str, Partitions] = {}
        self.regexes: MutableMapping[str, ResolvedRegex] = {}
        # both built on first use: a group of one member, the most common kind on a busy broker, needs neither
        self._holders: dict[UUID, dict[int, str]] | None = None
        self._base: ConsumerGroup | None = None
        # of a draft with a base: the members with other partitions than there
        self._changed: set[str] = set()
        self._counts: MemberCounts | None = None

    def draft(self) -> "ConsumerGroup":
        """Return a copy that can replay further records; valid only while this group does not change."""
        made = ConsumerGroup(self.group_id)
        made.epoch = self.epoch
        made.metadata_hash = self.metadata_hash
        made.assignment_epoch = self.assignment_epoch
        made.assignment_timestamp_ms = self.assignment_timestamp_ms
        made.members = draft_of(self.members)
        made.static_members = draft_of(self.static_members)
        made.targets = draft_of(self.targets)
        made.regexes = draft_of(self.regexes)
        if len(self.members) > 1:
            # a draft changes few members: it looks up the holders of partitions in its base
            made._base = self
            made._counts = self.counts.copy()
        return made

    def snapshot(self) -> tuple[Any, ...]:
        """Return its state in a form that can be compared with a later one."""
        epochs = (self.epoch, self.metadata_hash, self.assignment_epoch)
        return (*epochs, dict(self.members), dict(self.targets), dict(self.regexes))

    @property
    def state(self) -> ConsumerGroupState:
        """The state of the group; `CONSUMER_TRANSITIONS` has its changes."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def target(self, member_id: str) -> Partitions:
        """Return the target assignment of a member; empty if it has none."""
        return self.targets.get(member_id, {})

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        """Return the member that has an instance id; None if there is none."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    @property
    def counts(self) -> MemberCounts:
        """Counts of members by subscription and by assignor; not to be changed."""
        if self._counts is None:
            self._counts = MemberCounts({}, {})
            for member in self.members.values():
                self._counts.add(member)
        return self._counts

    @property
    def holders(self) -> Mapping[UUID, Mapping[int, str]]:
        """The member id that each partition is assigned to or pending revocation from, by topic id and partition."""
        if self._holders is None:
            self._holders = {}
            for member in self.members.values():
                self._hold(member)
        return self._holders

    def not_held_by_others(
        self, member_id: str, topic_id: UUID, partitions: Sequence[int]
    ) -> Sequence[int]:
        """Return the partitions that no other member than this one is assigned or has not revoked yet."""
        if len(self.members) == 1 and member_id in self.members:
            return partitions
        base = self._base
        held = (self if base is None else base).holders.get(topic_id, {})
        changed = self._changed
        others = [
            member
            for each in changed
            if each != member_id and (member := self.members.get(each)) is not None
        ]
        if not (held or others):
            return partitions
        return [
            each
            for each in partitions
            if ((holder := held.get(each)) is None or holder == member_id or holder in changed)
            and not any(other.has(topic_id, each) for other in others)
        ]

    def subscriptions(self) -> Iterable[tuple[frozenset[str], str]]:
        """Return the distinct subscriptions of the members: topic names, and a regular expression or ""."""
        if len(self.members) > 1:
            return self.counts.subscriptions
        return {(member.topic_names, member.regex) for member in self.members.values()}

    def assignor_votes(self) -> Mapping[str, int]:
        """Return how many members request each assignor; members without a request are not counted."""
        if len(self.members) > 1:
            return self.counts.assignors
        names = (member.server_assignor for member in self.members.values())
        return {name: 1 for name in names if name is not None}

    def subscribed_topics(self) -> frozenset[str]:
        """Return the names of the topics that members subscribe to, by name or by a resolved regular expression."""
        found = [
            names if not regex or regex not in self.regexes else names | self.regexes[regex].topics
            for names, regex in self.subscriptions()
        ]
        # the same set as that of the members, whose hash is known
        return found[0] if len(found) == 1 else frozenset[str]().union(*found)

    def topics_of(self, member: ConsumerGroupMember) -> frozenset[str]:
        """Return the names of the topics that one member subscribes to, by name or by a resolved regular expression."""
        resolved = self.regexes.get(member.regex) if member.regex else None
        return member.topic_names if resolved is None else member.topic_names | resolved.topics

    def replay(self, record: GroupRecord) -> None:
        """Apply one record of the group; ValueError if it removes what other records depend on."""
        if isinstance(record, CoordinatorRecord):
            self._replay_read(record)
        elif isinstance(record, AssignmentRecord):
            self._assign(record.member)
        else:
            self.targets[record.key.member_id] = record.target

    def _replay_read(self, record: CoordinatorRecord) -> None:
        key, value = record
        match key:
            case ConsumerGroupMemberMetadataKey():
                assert value is None or isinstance(value, ConsumerGroupMemberMetadataValue)
                self._replay_member(key.member_id, value)
            case ConsumerGroupCurrentMemberAssignmentKey():
                assert value is None or isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
                self._replay_assignment(key.member_id, value)
            case ConsumerGroupTargetAssignmentMemberKey():
                if value is None:
                    self.targets.pop(key.member_id, None)
                else:
                    assert isinstance(value, ConsumerGroupTargetAssignmentMemberValue)
                    self.targets[key.member_id] = partitions_of(value.topic_partitions)
            case ConsumerGroupMetadataKey():
                self._replay_group(value)
            case ConsumerGroupTargetAssignmentMetadataKey():
                self._replay_target_metadata(value)
            case ConsumerGroupRegularExpressionKey():
                if value is None:
                    self.regexes.pop(key.regular_expression, None)
                else:
                    assert isinstance(value, ConsumerGroupRegularExpressionValue)
                    topics = frozenset(value.topics)
                    resolved = ResolvedRegex(topics, value.version, value.timestamp)
                    self.regexes[key.regular_expression] = resolved
            case _:
                pass  # type 4, replaced by the metadata hash

    def _replay_group(self, value: CoordinatorValue | None) -> None:
        if value is None:
            if self.members or self.targets or self.assignment_epoch != LEFT_EPOCH:
                raise ValueError(f"group {self.group_id}: deleted with members or a target left")
            return
        assert isinstance(value, ConsumerGroupMetadataValue)
        self.epoch = value.epoch
        self.metadata_hash = value.metadata_hash

    def _replay_target_metadata(self, value: CoordinatorValue | None) -> None:
        if value is None:
            self.assignment_epoch, self.assignment_timestamp_ms = LEFT_EPOCH, 0
            return
        assert isinstance(value, ConsumerGroupTargetAssignmentMetadataValue)
        self.assignment_epoch = value.assignment_epoch
        self.assignment_timestamp_ms = value.assignment_timestamp

    def _replay_member(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        member = self.members.get(member_id)
        if value is None:
            if member is not None:
                if member.epoch != LEFT_EPOCH or member_id in self.targets:
                    text = f"member {member_id} removed with an epoch or a target left"
                    raise ValueError(f"group {self.group_id}: {text}")
                self._remove(member)
            return
        if member is None:
            # as in Kafka: a member without a record 8 has left, according to the log
            member = ConsumerGroupMember(member_id=member_id)
        else:
            self._forget_instance(member)
            if self._counts is not None:
                self._counts.subtract(member)
        member = self.members[member_id] = replace(
            member,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=names_set(tuple(value.subscribed_topic_names)),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id
        if self._counts is not None:
            self._counts.add(member)

    def _replay_assignment(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        if value is not None:
            epoch = value.member_epoch
            assigned = ConsumerGroupMember(
                member_id=member_id,
                epoch=epoch,
                previous_epoch=value.previous_member_epoch,
                state=read_state(value.state),
                assigned=read_holdings(value.assigned_partitions, epoch),
                pending=read_holdings(value.partitions_pending_revocation, epoch),
            )
            self._assign(assigned)
        elif member_id in self.members:
            self._assign(
                ConsumerGroupMember(
                    member_id=member_id, epoch=LEFT_EPOCH, previous_epoch=LEFT_EPOCH
                )
            )

    def _assign(self, assigned: ConsumerGroupMember) -> None:
        """Take over epochs, state and partitions of a member."""
        member_id = assigned.member_id
        member = self.members.get(member_id)
        if member is None:
            member = ConsumerGroupMember(member_id=member_id)
            if self._counts is not None:
                self._counts.add(member)
        self._release(member)
        member = self.members[member_id] = replace(
            member,
            epoch=assigned.epoch,
            previous_epoch=assigned.previous_epoch,
            state=assigned.state,
            assigned=assigned.assigned or NOTHING_HELD,
            pending=assigned.pending or NOTHING_HELD,
        )
        self._hold(member)

    def _hold(self, member: ConsumerGroupMember) -> None:
        if self._base is not None:
            self._changed.add(member.member_id)
        holders = self._holders
        if holders is None:
            return
        member_id = member.member_id
        for holdings in (member.assigned, member.pending):
            for topic_id, epochs in holdings.items():
                held = holders.get(topic_id)
                if held is None:
                    holders[topic_id] = dict.fromkeys(epochs, member_id)
                else:
                    held.update(dict.fromkeys(epochs, member_id))

    def _release(self, member: ConsumerGroupMember) -> None:
        if self._base is not None:
            self._changed.add(member.member_id)
        holders = self._holders
        if holders is None:
            return
        member_id = member.member_id
        for holdings in (member.assigned, member.pending):
            for topic_id, epochs in holdings.items():
                held = holders.get(topic_id, {})
                for partition in epochs:
                    if held.get(partition) == member_id:
                        del held[partition]
                if not held:
                    holders.pop(topic_id, None)

    def _remove(self, member: ConsumerGroupMember) -> None:
        self._release(member)
        self._forget_instance(member)
        del self.members[member.member_id]
        if self._counts is not None:
            self._counts.subtract(member)
        if len(self.members) <= 1:
            self._holders = self._counts = None

    def _forget_instance(self, member: ConsumerGroupMember) -> None:
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]


K = TypeVar("K")
V = TypeVar("V")

_SMALL: Final = 16
"""Up to this size, copying a dictionary is as fast as overlaying it, and reads of the copy are faster."""


class Overlay(MutableMapping[K, V]):
    """A mapping of changes over a base mapping, which is not modified.

    Iteration order is that of a copy of the mapping after the same changes: an existing key
    keeps its place, and a key that was deleted and set again comes last.
    """

    __slots__ = ("_base", "_changed", "_gone")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._changed: dict[K, V] = {}
        self._gone: set[K] = set()

    @override
    def __getitem__(self, key: K) -> V:
        if key in self._changed:
            return self._changed[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    @override
    def get(self, key: K, default: Any = None) -> Any:
        if key in self._changed:
            return self._changed[key]
        return default if key in self._gone else self._base.get(key, default)

    @override
    def __setitem__(self, key: K, value: V) -> None:
        self._changed[key] = value

    @override
    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._changed.pop(key, None)
        if key in self._base:
            self._gone.add(key)

    @override
    def __contains__(self, key: object) -> bool:
        return key in self._changed or (key in self._base and key not in self._gone)

    @override
    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys."""
        gone, base = self._gone, self._base
        for key in base:
            if key not in gone:
                yield key
        for key in self._changed:
            if key in gone or key not in base:
                yield key

    @override
    def __len__(self) -> int:
        """Return the number of keys."""
        gone, base = self._gone, self._base
        more = sum(1 for key in self._changed if key in gone or key not in base)
        return len(base) - len(gone) + more


def draft_of(table: Mapping[K, V]) -> MutableMapping[K, V]:
    """Return a mutable copy of a mapping, valid as long as the mapping itself does not change."""
    return dict(table) if len(table) <= _SMALL else Overlay(table)
