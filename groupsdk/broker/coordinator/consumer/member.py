"""A member of a consumer group: its subscription, its assignment and its pending revocations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final
from uuid import UUID

from groupsdk.broker.coordinator.consumer.topics import Partitions, names_in_order
from groupsdk.wire.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
    TopicPartitions,
)
from groupsdk.wire.twin import maker


_new_current = maker(CurrentTopicPartitions)
_new_partitions = maker(TopicPartitions)

Holdings = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which it was assigned to the member (KIP-1251)."""

NOTHING_HELD: Final[Holdings] = {}
MANY_TOPICS: Final = 512
LEFT_EPOCH: Final = -1
"""The member epoch in the heartbeat of a member that leaves."""
AWAY_EPOCH: Final = -2
"""The member epoch in the heartbeat of a static member that leaves temporarily."""


class MemberState(IntEnum):
    """A member's reconciliation state; the values are those of its record."""

    STABLE = 0
    """The member has all of its target, or has acknowledged all revocations."""
    UNREVOKED_PARTITIONS = 1
    """The member must first acknowledge that it revoked partitions."""
    UNRELEASED_PARTITIONS = 2
    """Other members still hold partitions of the member's target."""
    UNKNOWN = 127
    """A state written by a later version."""


class MemberTrigger(Enum):
    """The trigger of a member's transition; the value is the label in the diagram."""

    REVOKE = "it still owns partitions that are not in its target"
    WAIT = "other members hold partitions of its target"
    REACH = "it gets all of its target"


MEMBER_TRANSITIONS: Final[Mapping[tuple[MemberState, MemberTrigger], MemberState]] = {
    (state, trigger): following
    for state in MemberState
    for trigger, following in (
        (MemberTrigger.REVOKE, MemberState.UNREVOKED_PARTITIONS),
        (MemberTrigger.WAIT, MemberState.UNRELEASED_PARTITIONS),
        (MemberTrigger.REACH, MemberState.STABLE),
    )
}
"""The next state of a member for each state and step of its reconciliation (Kafka: CurrentAssignmentBuilder)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """One member, as in its records 5 (subscription) and 8 (assignment)."""

    member_id: str
    instance_id: str | None = None
    """Its static id (KIP-345); None: a dynamic member."""
    rack_id: str | None = None
    """Its rack; None: unknown."""
    client_id: str = ""
    client_host: str = ""
    """Its address in Java's format, with its slash."""
    topic_names: frozenset[str] = frozenset()
    """The topics it subscribes to by name; they need not exist."""
    regex: str = ""
    """The regular expression that it subscribes with; "" for none."""
    rebalance_timeout_ms: int = -1
    """How long it may take to revoke partitions, in milliseconds; -1: not set."""
    server_assignor: str | None = None
    """The assignor it requests; None: any."""
    classic: ClassicMemberMetadata | None = None
    """Metadata of a member of the classic protocol; None: it uses the consumer protocol."""
    epoch: int = 0
    """Its member epoch; -2: it left temporarily."""
    previous_epoch: int = 0
    """Its member epoch before; also accepted, in case the last response was lost."""
    state: MemberState = MemberState.STABLE
    assigned: Holdings = field(default_factory=dict)
    """The partitions it may read."""
    pending: Holdings = field(default_factory=dict)
    """The partitions it must revoke before it can proceed."""

    @property
    def is_large(self) -> bool:
        """Whether it has so many topics that its records are encoded in steps."""
        return len(self.topic_names) + len(self.assigned) + len(self.pending) > MANY_TOPICS

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has all of the target assignment of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def has(self, topic_id: UUID, partition: int) -> bool:
        """Return whether a partition is assigned to the member, or not yet revoked by it."""
        places = (self.assigned, self.pending)
        return any(partition in each.get(topic_id, ()) for each in places)

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=names_in_order(self.topic_names),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_written(self.assigned),
            partitions_pending_revocation=_written(self.pending),
        )


def _written(holdings: Holdings) -> tuple[CurrentTopicPartitions, ...]:
    return tuple(
        [
            _new_current(topic_id, tuple(epochs), tuple(epochs.values()))
            for topic_id, epochs in holdings.items()
        ]
    )


def read_holdings(written: Sequence[CurrentTopicPartitions], member_epoch: int) -> Holdings:
    """Return the partitions in a record 8 with their epochs, or, as of Kafka 4.1 and older, the member's."""
    if not written:
        return NOTHING_HELD
    held: dict[UUID, dict[int, int]] = {}
    for each in written:
        partitions, epochs = each.partitions, each.assignment_epochs
        count = len(partitions)
        if epochs is None or len(epochs) != count:
            epochs = (max(member_epoch, 0),) * count
        if count == 1:  # members of very many topics have one of most of them
            held[each.topic_id] = {partitions[0]: epochs[0]}
        else:
            held[each.topic_id] = dict(zip(partitions, epochs, strict=True))
    return held


def read_state(number: int) -> MemberState:
    """Return the state in a record 8; UNKNOWN for a number that is not defined."""
    return MemberState(number) if number in {0, 1, 2} else MemberState.UNKNOWN


def partitions_of(written: Iterable[TopicPartitions]) -> Partitions:
    """Return the partitions in a record 7, in its order, which decides the partitions that Kafka's assignors keep."""
    return {each.topic_id: tuple(each.partitions) for each in written}


def written_partitions(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    return tuple([_new_partitions(topic_id, indexes) for topic_id, indexes in partitions.items()])


def plain(holdings: Holdings) -> Partitions:
    """Return partitions, sorted, without their epochs."""
    return {topic_id: tuple(sorted(epochs)) for topic_id, epochs in holdings.items() if epochs}


def together(first: Holdings, second: Holdings) -> Partitions:
    """Return the union of the partitions of both, sorted, without their epochs."""
    both: dict[UUID, set[int]] = {}
    for holdings in (first, second):
        for topic_id, epochs in holdings.items():
            both.setdefault(topic_id, set()).update(epochs)
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in both.items() if indexes}
