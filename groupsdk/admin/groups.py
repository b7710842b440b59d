"""List, describe and change groups; share and streams groups (KIP-932, KIP-1071) are described only."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from groupsdk.admin import descriptions
from groupsdk.admin.cluster import LATEST, ClusterClient
from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, UnsupportedVersionError, broker_error
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from groupsdk.wire.messages import group_admin, groups as classic_groups, streams_groups
from groupsdk.wire.messages.group_admin import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    ShareGroupDescribeRequest,
)
from groupsdk.wire.messages.groups import DescribeGroupsRequest, LeaveGroupRequest, MemberIdentity
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from groupsdk.wire.messages.streams_groups import StreamsGroupDescribeRequest
from groupsdk.wire.schema import Request


_OTHER_TYPE: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
_COMMIT_VERSION: Final = 9  # later versions identify topics by id
_FETCH_VERSION: Final = 9
_SEVERAL_GROUPS: Final = 8
_DEAD: Final = "Dead"
_SHARE_PROTOCOL_TYPE: Final = "share"
_STREAMS_PROTOCOL_TYPE: Final = "streams"
_MEMBER_TYPES: Final = {0: descriptions.GroupType.CLASSIC, 1: descriptions.GroupType.CONSUMER}


async def list_groups(client: ClusterClient) -> list[descriptions.GroupListing]:
    """List the groups of all brokers, sorted by name.

    Raises NetworkError if a broker does not answer, so its groups would be missing.
    """
    answers = await client.ask_all(ListGroupsRequest())
    found = {}
    for node_id, answer in answers.items():
        if answer.error_code:
            raise broker_error(answer.error_code, f"ListGroups of node {node_id}")
        for each in answer.groups:
            found[each.group_id] = descriptions.GroupListing(
                each.group_id,
                descriptions.GroupType.of(each.group_type),
                each.group_state,
                each.protocol_type,
                node_id,
            )
    return [found[each] for each in sorted(found)]


async def describe_group(client: ClusterClient, group_id: str) -> descriptions.GroupDescription:
    """Describe a group of any type with its members; one that does not exist has the state "Dead", as in Kafka's own tools.

    Raises BrokerError if the group may not be described.
    """
    found = await _if_of_its_type(_describe(client, group_id, descriptions.GroupType.CONSUMER))
    if found is not None:
        return found
    classic = await _describe_classic(client, group_id)
    if classic.state != _DEAD:
        return classic
    for kind in (descriptions.GroupType.SHARE, descriptions.GroupType.STREAMS):
        found = await _if_of_its_type(_describe(client, group_id, kind))
        if found is not None and found.state != _DEAD:
            return found
    return classic


async def _if_of_its_type(
    described: Awaitable[descriptions.GroupDescription],
) -> descriptions.GroupDescription | None:
    """Return a description; None if the group is of another type, or the broker does not know this type."""
    try:
        return await described
    except UnsupportedVersionError:
        return None
    except BrokerError as error:
        if error.error_code not in _OTHER_TYPE:
            raise
        return None


async def describe_groups_of(
    client: ClusterClient, group_ids: Iterable[str]
) -> list[descriptions.GroupDescription]:
    """Describe several groups concurrently, in their order."""
    return list(await asyncio.gather(*(describe_group(client, each) for each in group_ids)))


async def committed_offsets(
    client: ClusterClient, group_id: str
) -> dict[TopicPartition, descriptions.CommittedOffset]:
    """Fetch all committed offsets of a group; one that does not exist has none."""

    async def version() -> int:
        node_id = await client.coordinator(group_id)
        return await client.newest_version(node_id, OffsetFetchRequest)

    # a list of groups from version 8 on (KIP-709, Kafka 3.0)
    if await client.persist(version) >= _SEVERAL_GROUPS:
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id, topics=None),))
    else:
        request = OffsetFetchRequest(group_id, topics=None)

    def code_of(answer: OffsetFetchResponse) -> int:
        return answer.groups[0].error_code if answer.groups else answer.error_code

    try:
        answer = await client.ask_coordinator(group_id, request, code_of, _FETCH_VERSION)
    except BrokerError as error:
        if error.error_code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return read_offsets(group_id, answer.groups[0].topics if answer.groups else answer.topics)


def read_offsets(
    group_id: str, topics: Iterable[OffsetFetchResponseTopics | OffsetFetchResponseTopic]
) -> dict[TopicPartition, descriptions.CommittedOffset]:
    """Convert the topics of an answer of OffsetFetch, or raise BrokerError if an offset could not be read."""
    found = {}
    for topic in topics:
        for each in topic.partitions:
            if each.error_code:
                where = f"OffsetFetch of group {group_id!r}, {topic.name}-{each.partition_index}"
                raise broker_error(each.error_code, where)
            if each.committed_offset >= 0:
                found[TopicPartition(topic.name, each.partition_index)] = (
                    descriptions.CommittedOffset(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
                )
    return found


async def end_offsets(
    client: ClusterClient, partitions: Collection[TopicPartition], timestamp: int = LATEST
) -> dict[TopicPartition, int | None]:
    """Look up the end offsets of partitions; None for deleted or leaderless ones."""
    topics = (await client.metadata(sorted({each.topic for each in partitions}))).topics
    there = {
        each: timestamp
        for each in partitions
        if each.topic in topics
        and each.partition in topics[each.topic].partitions
        and topics[each.topic].partitions[each.partition].leader >= 0
    }
    found = await client.list_offsets(there) if there else {}
    return {each: found.get(each) for each in partitions}


async def group_lag(
    client: ClusterClient, group: descriptions.GroupDescription
) -> list[descriptions.PartitionLag]:
    """Return the lag of each partition that a group committed or is assigned, by topic and partition."""
    committed = await committed_offsets(client, group.group_id)
    owned = (each for member in group.members for each in member.assignment.partitions)
    ends = await end_offsets(client, {*committed, *owned})
    return lag_of(group, committed, ends)


def lag_of(
    group: descriptions.GroupDescription,
    committed: Mapping[TopicPartition, descriptions.CommittedOffset],
    ends: Mapping[TopicPartition, int | None],
) -> list[descriptions.PartitionLag]:
    """Return the lag of each partition that a group committed or is assigned, by topic and partition."""
    owners = {part: member for member in group.members for part in member.assignment.partitions}
    partitions = sorted(committed.keys() | owners.keys())
    lags = []
    for each in partitions:
        offset, owner = committed.get(each), owners.get(each)
        lags.append(
            descriptions.PartitionLag(
                topic=each.topic,
                partition=each.partition,
                committed=None if offset is None else offset.offset,
                end=ends.get(each),
                member_id=None if owner is None else owner.member_id,
                client_id=None if owner is None else owner.client_id,
                host=None if owner is None else owner.host,
            )
        )
    return lags


async def commit_offsets(
    client: ClusterClient, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Commit offsets for a group without members, as an administrator; BrokerError with UNKNOWN_MEMBER_ID: it has members."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in sorted(offsets.items()):
        each = OffsetCommitRequestPartition(partition.partition, offset)
        by_topic.setdefault(partition.topic, []).append(each)
    topics = tuple(
        OffsetCommitRequestTopic(name, partitions=tuple(of)) for name, of in by_topic.items()
    )
    await client.ask_coordinator(
        group_id,
        OffsetCommitRequest(group_id, topics=topics),
        lambda answer: _first_code(
            each.error_code for topic in answer.topics for each in topic.partitions
        ),
        _COMMIT_VERSION,
    )


async def delete_offsets(
    client: ClusterClient, group_id: str, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Delete a group's committed offsets of partitions (KIP-496); return an error code for each, 0 for success."""
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for each in sorted(partitions):
        part = OffsetDeleteRequestPartition(each.partition)
        by_topic.setdefault(each.topic, []).append(part)
    topics = tuple(OffsetDeleteRequestTopic(name, tuple(of)) for name, of in by_topic.items())
    answer = await client.ask_coordinator(
        group_id, OffsetDeleteRequest(group_id, topics), lambda found: found.error_code
    )
    return {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


async def delete_group(client: ClusterClient, group_id: str) -> None:
    """Delete a group without members, with its offsets; BrokerError with NON_EMPTY_GROUP: it has members."""

    def code_of(answer: DeleteGroupsResponse) -> int:
        return _first_code(each.error_code for each in answer.results)

    await client.ask_coordinator(group_id, DeleteGroupsRequest((group_id,)), code_of)


async def remove_members(
    client: ClusterClient, group_id: str, members: Sequence[descriptions.Member], reason: str
) -> dict[str, int]:
    """Remove members from a group (KIP-345, KIP-800); return an error code for each member id, 0 for success.

    Clients that are still running join again. A static member is named by its instance id, so that it is found after a restart.
    """
    identities = tuple(
        MemberIdentity("", each.instance_id, reason)
        if each.instance_id is not None
        else MemberIdentity(each.member_id, None, reason)
        for each in members
    )
    answer = await client.ask_coordinator(
        group_id,
        LeaveGroupRequest(group_id, members=identities),
        lambda found: found.error_code,
    )
    codes = [each.error_code for each in answer.members]
    return dict(zip((each.member_id for each in members), codes, strict=True))


async def _describe(
    client: ClusterClient, group_id: str, kind: descriptions.GroupType
) -> descriptions.GroupDescription:
    request, read = DESCRIBED_BY[kind]
    answer = await client.ask_coordinator(group_id, request((group_id,)), _code_of_groups)
    return read(answer.groups[0], await client.coordinator(group_id))


def of_consumer_group(
    group: group_admin.DescribedGroup, coordinator: int
) -> descriptions.GroupDescription:
    """Convert an answer of ConsumerGroupDescribe."""
    members = map(_consumer_member, group.members)
    kind = descriptions.GroupType.CONSUMER
    return _with_epochs(
        group, kind, CONSUMER_PROTOCOL_TYPE, coordinator, members, group.assignor_name
    )


def of_share_group(
    group: group_admin.DescribedShareGroup, coordinator: int
) -> descriptions.GroupDescription:
    """Convert an answer of ShareGroupDescribe."""
    kind = descriptions.GroupType.SHARE
    members = (
        descriptions.Member(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.client_host,
            rack=each.rack_id,
            protocol=kind,
            epoch=each.member_epoch,
            subscription=descriptions.Subscription(tuple(each.subscribed_topic_names)),
            assignment=_named(each.assignment),
        )
        for each in group.members
    )
    return _with_epochs(
        group, kind, _SHARE_PROTOCOL_TYPE, coordinator, members, group.assignor_name
    )


def of_streams_group(
    group: streams_groups.DescribedGroup, coordinator: int
) -> descriptions.GroupDescription:
    """Convert an answer of StreamsGroupDescribe: tasks are named as in Kafka Streams, such as "0_3"."""
    topology = group.topology
    subtopologies = (topology.subtopologies if topology is not None else None) or ()
    topics = tuple(sorted({topic for each in subtopologies for topic in each.source_topics}))
    kind = descriptions.GroupType.STREAMS
    members = (
        descriptions.Member(
            member_id=each.member_id,
            client_id=each.client_id,
            host=each.client_host,
            instance_id=each.instance_id,
            rack=each.rack_id,
            protocol=kind,
            epoch=each.member_epoch,
            subscription=descriptions.Subscription(topics),
            assignment=_tasks(each.assignment),
            target=_tasks(each.target_assignment),
        )
        for each in group.members
    )
    return _with_epochs(group, kind, _STREAMS_PROTOCOL_TYPE, coordinator, members)


def _with_epochs(
    group: group_admin.DescribedGroup
    | group_admin.DescribedShareGroup
    | streams_groups.DescribedGroup,
    kind: descriptions.GroupType,
    protocol_type: str,
    coordinator: int,
    members: Iterable[descriptions.Member],
    assignor: str = "",
) -> descriptions.GroupDescription:
    """Describe a group of one of the protocols whose members heartbeat under epochs."""
    return descriptions.GroupDescription(
        group_id=group.group_id,
        type=kind,
        state=group.group_state,
        protocol_type=protocol_type,
        assignor=assignor,
        coordinator=coordinator,
        members=_in_order(members),
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _in_order(members: Iterable[descriptions.Member]) -> tuple[descriptions.Member, ...]:
    return tuple(sorted(members, key=lambda member: member.member_id))


def _tasks(assignment: streams_groups.Assignment) -> descriptions.Assignment:
    def names(tasks: Iterable[streams_groups.TaskIds]) -> tuple[str, ...]:
        return tuple(
            f"{each.subtopology_id}_{number}"
            for each in sorted(tasks, key=lambda task: task.subtopology_id)
            for number in sorted(each.partitions)
        )

    standbys = (*assignment.standby_tasks, *assignment.warmup_tasks)
    return descriptions.Assignment(tasks=names(assignment.active_tasks), standbys=names(standbys))


def _consumer_member(member: group_admin.Member) -> descriptions.Member:
    return descriptions.Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.instance_id,
        rack=member.rack_id,
        protocol=_MEMBER_TYPES.get(member.member_type, descriptions.GroupType.CONSUMER),
        epoch=member.member_epoch,
        subscription=descriptions.Subscription(
            tuple(member.subscribed_topic_names), member.subscribed_topic_regex or None
        ),
        assignment=_named(member.assignment),
        target=_named(member.target_assignment),
    )


def _named(assignment: group_admin.Assignment) -> descriptions.Assignment:
    return descriptions.Assignment(
        tuple(
            TopicPartition(topic.topic_name, number)
            for topic in sorted(assignment.topic_partitions, key=lambda each: each.topic_name)
            for number in sorted(topic.partitions)
        )
    )


async def _describe_classic(client: ClusterClient, group_id: str) -> descriptions.GroupDescription:
    group = await describe_classic_members(client, group_id)
    return of_classic_group(group, await client.coordinator(group_id))


def of_classic_group(
    group: classic_groups.DescribedGroup, coordinator: int
) -> descriptions.GroupDescription:
    """Convert an answer of DescribeGroups; members' bytes are decoded."""
    return descriptions.GroupDescription(
        group_id=group.group_id,
        type=descriptions.GroupType.CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=_in_order(_classic_member(group, each) for each in group.members),
    )


async def describe_classic_members(
    client: ClusterClient, group_id: str
) -> classic_groups.DescribedGroup:
    """Describe a classic group with its members' bytes as they are; one that does not exist has the state "Dead".

    Raises:
        BrokerError: the group may not be described.
        NetworkError: its coordinator cannot be reached.
    """
    try:
        answer = await client.ask_coordinator(
            group_id, DescribeGroupsRequest((group_id,)), _code_of_groups
        )
    except BrokerError as error:
        # from version 6 on (KIP-1043); earlier versions report the state Dead
        if error.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return classic_groups.DescribedGroup(group_id=group_id, group_state=_DEAD)
    return answer.groups[0]


def _classic_member(
    group: classic_groups.DescribedGroup, member: classic_groups.DescribedGroupMember
) -> descriptions.Member:
    kind, protocol = group.protocol_type, group.protocol_data
    subscription = descriptions.read_subscription(kind, member.member_metadata, protocol)
    return descriptions.Member(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance_id=member.group_instance_id,
        rack=subscription.zone,
        subscription=subscription,
        assignment=descriptions.read_assignment(
            kind, member.member_assignment, member.member_metadata, protocol
        ),
    )


def _first_code(codes: Iterable[int]) -> int:
    return next((each for each in codes if each), 0)


def _code_of_groups(answer: Any) -> int:
    return _first_code(each.error_code for each in answer.groups)


DESCRIBED_BY: Final[
    Mapping[
        descriptions.GroupType,
        tuple[
            Callable[[tuple[str, ...]], Request[Any]],
            Callable[[Any, int], descriptions.GroupDescription],
        ],
    ]
] = {
    descriptions.GroupType.CLASSIC: (DescribeGroupsRequest, of_classic_group),
    descriptions.GroupType.CONSUMER: (ConsumerGroupDescribeRequest, of_consumer_group),
    descriptions.GroupType.SHARE: (ShareGroupDescribeRequest, of_share_group),
    descriptions.GroupType.STREAMS: (StreamsGroupDescribeRequest, of_streams_group),
}
"""The request that describes groups of a type, and what reads a group of its answer, with the coordinator."""
