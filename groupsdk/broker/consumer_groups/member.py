"""A member of a consumer group: its subscription, its assignment and its pending revocations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final
from uuid import UUID

from groupsdk.broker.consumer_groups.topics import Partitions
from groupsdk.wire.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentTopicPartitions,
    TopicPartitions,
)


Holdings = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic id, each with the epoch in which it was assigned to the member (KIP-1251)."""

NOTHING_HELD: Final[Holdings] = {}
LEFT_EPOCH: Final = -1
"""The epoch sent by a member that leaves."""
AWAY_EPOCH: Final = -2
"""The epoch sent by a static member that leaves temporarily."""


class MemberState(IntEnum):
    """A member's reconciliation state; the values are those of its record."""

    STABLE = 0
    """The member has its target, or has acknowledged all revocations."""
    UNREVOKED_PARTITIONS = 1
    """The member must first acknowledge that it revoked partitions."""
    UNRELEASED_PARTITIONS = 2
    """Other members still hold partitions of the member's target."""
    UNKNOWN = 127
    """A state written by a later version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """One member, as in its records 5 (subscription) and 8 (assignment). Times are in milliseconds."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    regex: str = ""
    """The regular expression that the member subscribes with; empty for none."""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """Metadata of a classic protocol member; None for a member of the new protocol."""
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Holdings = field(default_factory=dict)
    pending: Holdings = field(default_factory=dict)
    """Partitions to revoke before the member can proceed."""

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        """Return whether the member has all of the target of an epoch."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        """Return the value of the member's record 5."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topic_names)),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Return the value of the member's record 8."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_written(self.assigned),
            partitions_pending_revocation=_written(self.pending),
        )


def _written(holdings: Holdings) -> tuple[CurrentTopicPartitions, ...]:
    return tuple(
        CurrentTopicPartitions(topic_id, tuple(epochs), tuple(epochs.values()))
        for topic_id, epochs in holdings.items()
    )


def read_holdings(written: Sequence[CurrentTopicPartitions], member_epoch: int) -> Holdings:
    """Read partitions of a record 8; without partition epochs (Kafka 4.1), the member's epoch is used."""
    if not written:
        return NOTHING_HELD
    held: dict[UUID, dict[int, int]] = {}
    for each in written:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = (max(member_epoch, 0),) * len(each.partitions)
        held[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return held


def read_state(number: int) -> MemberState:
    """Read the state of a record 8."""
    return MemberState(number) if number in {0, 1, 2} else MemberState.UNKNOWN


def partitions_of(written: Iterable[TopicPartitions]) -> Partitions:
    """Read partitions of a record 7, in its order, which decides the partitions that Kafka's assignors keep."""
    return {each.topic_id: tuple(each.partitions) for each in written}


def written_partitions(partitions: Partitions) -> tuple[TopicPartitions, ...]:
    """Return partitions in the form of a record 7."""
    return tuple(TopicPartitions(topic_id, indexes) for topic_id, indexes in partitions.items())


def plain(holdings: Holdings) -> Partitions:
    """Return partitions without their epochs."""
    return {topic_id: tuple(sorted(epochs)) for topic_id, epochs in holdings.items() if epochs}


def together(first: Holdings, second: Holdings) -> Partitions:
    """Return the union of the partitions."""
    both: dict[UUID, set[int]] = {}
    for holdings in (first, second):
        for topic_id, epochs in holdings.items():
            both.setdefault(topic_id, set()).update(epochs)
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in both.items() if indexes}
