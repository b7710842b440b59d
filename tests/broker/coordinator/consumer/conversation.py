"""Speaks the protocols of groups with a broker over one connection, and returns of each answer what tests compare."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeRequest
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.transactions import (
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.clients import Client, eventually


TOPICS = {"ct": 4, "cu": 2}
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
}
"""The settings of both brokers: each heartbeat is answered with a new target."""

TOO_LARGE = "x" * 5_000
"""More metadata than a committed offset may have."""
Protocol = tuple[str, bytes]
Owned = Mapping[str, Iterable[int]] | Sequence[tuple[str, Iterable[int]]]
Codes = list[tuple[int, int]]
"""Partitions with their error codes."""


def subscription(*names: str, owned: Iterable[int] = (), generation: int = -1) -> bytes:
    """Returns the metadata of a consumer that owns partitions of the topic ct."""
    held = {"ct": list(owned)} if owned else {}
    return ConsumerProtocolEncoder().subscription(
        ConsumerProtocolSubscription(names or ("ct",), None, held, generation), 2
    )


def offers(*names: str, metadata: bytes | None = None) -> tuple[Protocol, ...]:
    """Returns protocols with equal metadata."""
    data = subscription() if metadata is None else metadata
    return tuple((name, data) for name in names)


class Conversation:
    """Requests to one group, as any of its members. Error codes stand alone in what is returned."""

    def __init__(self, client: Client, group_id: str) -> None:
        self.client = client
        self.group_id = group_id
        self.joined: Any = None
        """The last answer to a JoinGroup."""
        asked = tuple(CreatableTopic(name, count, 1) for name, count in TOPICS.items())
        client.ask(CreateTopicsRequest(asked, timeout_ms=30_000))
        named = MetadataRequest(tuple(MetadataRequestTopic(name=name) for name in TOPICS))
        eventually(lambda: {each.error_code for each in client.ask(named, 12).topics}, {0})
        self.ids = {each.name or "": each.topic_id for each in client.ask(named, 12).topics}
        self._names = {topic_id: name for name, topic_id in self.ids.items()}
        self._producer = (-1, -1)
        for kind in (0, 1):  # of groups and of transactions
            self._find_coordinator(kind)

    def _find_coordinator(self, kind: int) -> None:
        asked = FindCoordinatorRequest(self.group_id, kind)
        eventually(lambda: self.client.ask(asked, 2).error_code, 0)

    # -- the consumer protocol

    def heartbeat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        names: tuple[str, ...] | None = None,
        owned: Owned | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        instance_id: str | None = None,
    ) -> Any:
        """Sends a heartbeat, or joins with epoch 0; returns the epoch and the assignment."""
        joins = epoch == 0
        if joins and names is None and regex is None:
            names = ("ct",)
        if joins and owned is None:
            owned = ()
        told = owned.items() if isinstance(owned, Mapping) else owned
        answer = self.client.ask(
            ConsumerGroupHeartbeatRequest(
                *(self.group_id, member_id, epoch, instance_id, None),
                60_000 if joins else -1,
                names,
                regex,
                assignor,
                None
                if told is None
                else tuple(TopicPartitions(self.ids[name], tuple(each)) for name, each in told),
            ),
            1,
        )
        if answer.error_code:
            return answer.error_code
        if answer.assignment is None:
            return answer.member_epoch, None
        given = answer.assignment.topic_partitions
        return answer.member_epoch, {
            self._names[each.topic_id]: sorted(each.partitions) for each in given
        }

    def consumer_group(self) -> Any:
        """Returns state, epochs and assignor, and each member with epoch and type."""
        (group,) = self.client.ask(ConsumerGroupDescribeRequest((self.group_id,)), 1).groups
        if group.error_code:
            return group.error_code
        return (
            *(group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name),
            sorted((each.member_id, each.member_epoch, each.member_type) for each in group.members),
        )

    def epochs(self) -> Any:
        """Returns state and epochs of the group."""
        found = self.consumer_group()
        return found if isinstance(found, int) else found[:3]

    # -- the classic protocol

    def join(
        self,
        member_id: str,
        protocols: Iterable[Protocol] = offers("range"),
        *,
        instance_id: str | None = None,
        version: int = 9,
        kind: str = "consumer",
        session_ms: int = 30_000,
    ) -> Any:
        """Joins; returns generation and protocol, or the error with the member id that is named."""
        answer = self.client.ask(
            JoinGroupRequest(
                *(self.group_id, session_ms, 60_000, member_id, instance_id, kind),
                tuple(JoinGroupRequestProtocol(*each) for each in protocols),
            ),
            version,
        )
        self.joined = answer
        if answer.error_code == 79:
            return 79
        if answer.error_code:
            return answer.error_code, answer.member_id
        return answer.generation_id, answer.protocol_name

    def stable(self, generation: int, session_ms: int = 30_000) -> str:
        """Joins as the only member until that generation; returns its id."""
        member_id = ""
        for each in range(1, generation + 1):
            metadata = subscription(generation=each)
            found = self.join(member_id, (("range", metadata),), version=3, session_ms=session_ms)
            assert found == (each, "range")
            member_id = self.joined.member_id
            given = (SyncGroupRequestAssignment(member_id, b""),)
            sync = SyncGroupRequest(self.group_id, each, member_id, assignments=given)
            assert self.client.ask(sync, 3).error_code == 0
        return member_id

    def sync(
        self,
        member_id: str,
        generation: int,
        kind: str | None = "consumer",
        name: str | None = "range",
        *,
        version: int = 5,
        instance_id: str | None = None,
    ) -> Any:
        """Syncs; returns the partitions of the topic ct, or the error."""
        answer = self.client.ask(
            SyncGroupRequest(self.group_id, generation, member_id, instance_id, kind, name), version
        )
        if answer.error_code:
            return answer.error_code
        given = ConsumerProtocolDecoder().assignment(answer.assignment).assigned_partitions
        return list(given.get("ct", ()))

    def beat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        """Sends a classic heartbeat; returns the error."""
        beat = HeartbeatRequest(self.group_id, generation, member_id, instance_id)
        return self.client.ask(beat, 4).error_code

    def leave(self, *members: tuple[str, str | None]) -> list[int]:
        """Leaves; returns the error of each member."""
        leaving = tuple(MemberIdentity(*each) for each in members)
        answer = self.client.ask(LeaveGroupRequest(group_id=self.group_id, members=leaving), 5)
        return [each.error_code for each in answer.members]

    def classic_group(self) -> Any:
        """Returns state, protocol type and the number of members."""
        (group,) = self.client.ask(DescribeGroupsRequest((self.group_id,)), 6).groups
        if group.error_code:
            return group.error_code
        return group.group_state, group.protocol_type, len(group.members)

    # -- offsets

    def begin_transactions(self) -> None:
        request = InitProducerIdRequest(self.group_id, 60_000)
        eventually(lambda: self.client.ask(request, 5).error_code, 0)
        answer = self.client.ask(request, 5)
        self._producer = answer.producer_id, answer.producer_epoch

    def commit(
        self,
        member_id: str,
        epoch: int,
        *partitions: int | tuple[int, str],
        topic: str = "ct",
        version: int = 9,
        instance_id: str | None = None,
    ) -> Codes:
        """Commits offsets, some with metadata, of one topic; returns the codes."""
        places = tuple(
            OffsetCommitRequestPartition(index, 7, -1, metadata)
            for index, metadata in map(_with_metadata, partitions)
        )
        asked = OffsetCommitRequestTopic(topic, self.ids.get(topic, UUID(int=5)), places)
        answer = self.client.ask(
            OffsetCommitRequest(self.group_id, epoch, member_id, instance_id, topics=(asked,)),
            version,
        )
        return _codes(answer)

    def commit_in_transaction(
        self,
        member_id: str,
        epoch: int,
        *partitions: int | tuple[int, str],
        version: int = 5,
        instance_id: str | None = None,
    ) -> Codes:
        """Commits offsets of the topic ct in the producer's transaction; returns the codes."""
        places = tuple(
            TxnOffsetCommitRequestPartition(index, 7, -1, metadata)
            for index, metadata in map(_with_metadata, partitions)
        )
        asked = (TxnOffsetCommitRequestTopic("ct", partitions=places),)
        answer = self.client.ask(
            TxnOffsetCommitRequest(
                *(self.group_id, self.group_id, *self._producer, epoch, member_id, instance_id),
                asked,
            ),
            version,
        )
        return _codes(answer)

    def both_commits(self, member_id: str, epoch: int, instance_id: str | None = None) -> Any:
        """Commits partition 0, without and within a transaction; returns both codes."""
        ((_, plain),) = self.commit(member_id, epoch, 0, instance_id=instance_id)
        ((_, within),) = self.commit_in_transaction(member_id, epoch, 0, instance_id=instance_id)
        return plain, within


def _with_metadata(partition: int | tuple[int, str]) -> tuple[int, str]:
    return (partition, "") if isinstance(partition, int) else partition


def _codes(answer: Any) -> Codes:
    return [
        (each.partition_index, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]
