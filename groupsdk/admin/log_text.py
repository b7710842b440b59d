"""Describe the records of a coordinator's log in a line for people. Pure: no I/O, no clock."""

import json
from collections.abc import Iterable, Mapping
from typing import Final, Protocol
from uuid import UUID

from groupsdk.admin.descriptions import ranges, read_assignment
from groupsdk.wire.coordinator_records import consumer_group as consumer, share_group as share
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue
from groupsdk.wire.coordinator_records.formatter import to_json
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from groupsdk.wire.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from groupsdk.wire.primitives import kafka_uuid


_STATUS: Final = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
)
_WAITS: Final = 2
"""The state of a member whose target has partitions that others still hold (Kafka: UNRELEASED_PARTITIONS)."""


class TopicNames:
    """The names of topics by their ids, as far as they are known; remembers the ids that had no name."""

    def __init__(self, known: Mapping[UUID, str] | None = None) -> None:
        self._names = dict(known or {})
        self.missing: set[UUID] = set()
        """Ids that were asked for in vain."""

    def learn(self, names: Mapping[UUID, str]) -> None:
        self._names.update(names)
        self.missing -= names.keys()

    def name(self, topic_id: UUID) -> str:
        """Return the name of a topic, or its id in Kafka's form, as of a topic that was deleted."""
        found = self._names.get(topic_id)
        if found is None:
            self.missing.add(topic_id)
            return kafka_uuid(topic_id)
        return found


class _Partitions(Protocol):
    """Partitions of a topic, as assignments of the newer protocols hold them."""

    @property
    def topic_id(self) -> UUID: ...

    @property
    def partitions(self) -> tuple[int, ...]: ...


def describe_record(
    key: CoordinatorKey, value: CoordinatorValue | None, names: TopicNames | None = None
) -> str:
    """Return the content of a record in a line; a value of None is a tombstone.

    Groups of the consumer protocol and share groups name topics by their ids, which `names` resolves.
    """
    names = TopicNames() if names is None else names
    match key, value:
        case ((OffsetCommitKey() | LegacyOffsetCommitKey()), OffsetCommitValue()):
            metadata = f" {value.metadata!r}" if value.metadata else ""
            return f"{key.group} {key.topic}-{key.partition} = {value.offset}{metadata}"
        case ((OffsetCommitKey() | LegacyOffsetCommitKey()), None):
            return f"{key.group} {key.topic}-{key.partition} deleted"
        case _, GroupMetadataValue():
            return f"{getattr(key, 'group', '')} {_generation(value)}"
        case TransactionLogKey(), TransactionLogValue():
            return f"{key.transactional_id} {_transaction(value)}"
        case _, None:
            return f"{_subject(key)} deleted"
        case _:
            told = _newer(value, names)
            return f"{_subject(key)} {_json(value) if told is None else told}"


def _subject(key: CoordinatorKey) -> str:
    """Name the group and, where there is one, the member that a record is about."""
    words = [str(each) for each in to_json(key, 0).values()]
    if getattr(key, "member_id", None) is not None and len(words) == 2:
        return f"{words[0]} member {words[1]}"
    return " ".join(words)


def _json(value: CoordinatorValue) -> str:
    found = to_json(value, value.api.max_version)
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def _generation(value: GroupMetadataValue) -> str:
    if not value.members:
        return f"generation {value.generation}, empty"
    members = []
    for each in value.members:
        assignment = read_assignment(
            value.protocol_type, each.assignment, each.subscription, value.protocol or ""
        )
        members.append(f"{each.member_id} [{assignment.text}]")
    return (
        f"generation {value.generation}, {value.protocol_type} {value.protocol}, leader {value.leader},"
        f" {len(members)} members: {'; '.join(members)}"
    )


def _transaction(value: TransactionLogValue) -> str:
    parts = {each.topic: each.partition_ids for each in value.transaction_partitions or ()}
    status = value.transaction_status
    name = _STATUS[status] if 0 <= status < len(_STATUS) else f"status {status}"
    written = f", wrote to {ranges(parts)}" if parts else ""
    return f"{name}, producer {value.producer_id} epoch {value.producer_epoch}{written}"


def _newer(value: CoordinatorValue | None, names: TopicNames) -> str | None:
    """Describe a record of a consumer group (KIP-848) or a share group (KIP-932); None for any other."""
    match value:
        case consumer.ConsumerGroupMetadataValue() | share.ShareGroupMetadataValue():
            return f"epoch {value.epoch}"
        case consumer.ConsumerGroupPartitionMetadataValue():
            topics = (f"{each.topic_name} ({each.num_partitions})" for each in value.topics)
            return f"topics and partitions: {', '.join(topics)}"
        case consumer.ConsumerGroupMemberMetadataValue():
            return _consumer_member(value)
        case share.ShareGroupMemberMetadataValue():
            return _who(value.client_id, value.client_host, value.subscribed_topic_names)
        case (
            consumer.ConsumerGroupTargetAssignmentMetadataValue()
            | share.ShareGroupTargetAssignmentMetadataValue()
        ):
            return f"target assignment of epoch {value.assignment_epoch}"
        case (
            consumer.ConsumerGroupTargetAssignmentMemberValue()
            | share.ShareGroupTargetAssignmentMemberValue()
        ):
            return f"target [{_named(value.topic_partitions, names)}]"
        case consumer.ConsumerGroupCurrentMemberAssignmentValue():
            return _current(value, names)
        case share.ShareGroupCurrentMemberAssignmentValue():
            return f"epoch {value.member_epoch} [{_named(value.assigned_partitions, names)}]"
        case consumer.ConsumerGroupRegularExpressionValue():
            return f"matches {', '.join(value.topics) or 'no topic'}"
        case _:
            return None


def _who(client_id: str, host: str, topics: Iterable[str]) -> str:
    return f"{client_id} at {host}, subscribed to {', '.join(topics) or 'no topic'}"


def _consumer_member(value: consumer.ConsumerGroupMemberMetadataValue) -> str:
    # an empty list of topics beside an expression says nothing
    subscribed = [*value.subscribed_topic_names]
    if value.subscribed_topic_regex:
        subscribed.append(f"/{value.subscribed_topic_regex}/")
    parts = [_who(value.client_id, value.client_host, subscribed)]
    if value.instance_id:
        parts.append(f"instance {value.instance_id}")
    if value.rack_id:
        parts.append(f"rack {value.rack_id}")
    if value.server_assignor:
        parts.append(f"assignor {value.server_assignor}")
    classic = value.classic_member_metadata
    if classic is not None and classic.supported_protocols:
        offered = ", ".join(each.name for each in classic.supported_protocols)
        parts.append(f"of the classic protocol: {offered}")
    return ", ".join(parts)


def _current(value: consumer.ConsumerGroupCurrentMemberAssignmentValue, names: TopicNames) -> str:
    text = f"epoch {value.member_epoch} [{_named(value.assigned_partitions, names)}]"
    if value.partitions_pending_revocation:
        text += f", gives up [{_named(value.partitions_pending_revocation, names)}]"
    if value.state == _WAITS:
        text += ", waits for partitions of others"
    return text


def _named(partitions: Iterable[_Partitions], names: TopicNames) -> str:
    found: dict[str, tuple[int, ...]] = {}
    for each in partitions:
        found[names.name(each.topic_id)] = each.partitions
    return ranges(found)
