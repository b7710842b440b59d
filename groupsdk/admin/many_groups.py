"""Describe many groups with their lag in few requests, for views of a whole cluster.

Each broker is asked for the groups that it coordinates, a bounded number at a time, so that neither a request nor the
work on one answer grows with the cluster. Groups that an answer refuses, say because their coordinator moved, are
asked for alone.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from groupsdk.admin import groups as one_group
from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupType,
    PartitionLag,
)
from groupsdk.assignment import TopicPartition
from groupsdk.errors import UnsupportedVersionError
from groupsdk.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup


T = TypeVar("T")

_GROUPS_AT_ONCE: Final = 50
_TOPICS_AT_ONCE: Final = 500
_PARTITIONS_AT_ONCE: Final = 2_000
_SEVERAL_GROUPS: Final = 8
"""The first version of OffsetFetch for several groups (KIP-709)."""
_OFFSETS_VERSION: Final = 9


async def describe_listed(
    client: ClusterClient, listed: Iterable[GroupListing]
) -> list[GroupDescription]:
    """Describe listed groups of all types; one that is gone by then has the state "Dead".

    Groups of a type that this client or the broker cannot describe are returned without members.

    Raises:
        BrokerError: a group may not be described.
        NetworkError: a coordinator cannot be reached.
    """
    by_kind: dict[tuple[int, GroupType], list[GroupListing]] = {}
    for each in listed:
        by_kind.setdefault((each.coordinator, each.type), []).append(each)
    found = await asyncio.gather(*(_describe(client, *kind, of) for kind, of in by_kind.items()))
    return [each for part in found for each in part]


async def _describe(
    client: ClusterClient, node_id: int, kind: GroupType, listed: Sequence[GroupListing]
) -> list[GroupDescription]:
    if kind not in one_group.DESCRIBED_BY:
        return [_as_listed(each) for each in listed]
    request, read = one_group.DESCRIBED_BY[kind]
    described: list[GroupDescription] = []
    for some in _parts(listed, _GROUPS_AT_ONCE):
        asked = request(tuple(each.group_id for each in some))
        try:
            answer = await client.persist(lambda asked=asked: client.ask(node_id, asked))  # type: ignore[misc]
        except UnsupportedVersionError:
            return [_as_listed(each) for each in listed]
        for group in answer.groups:
            if group.error_code:
                described.append(await one_group.describe_group(client, group.group_id))
            else:
                described.append(read(group, node_id))
    return described


def _as_listed(group: GroupListing) -> GroupDescription:
    return GroupDescription(
        group.group_id, group.type, group.state, group.protocol_type, "", group.coordinator
    )


async def lags_of(
    client: ClusterClient, groups: Iterable[GroupDescription]
) -> dict[str, tuple[PartitionLag, ...]]:
    """Return the lag of each partition that groups committed or are assigned, by group id.

    Share groups have none: brokers keep their progress record by record, not as an offset.
    """
    asked = [each for each in groups if each.type is not GroupType.SHARE]
    committed = await _committed(client, asked)
    partitions = {each for offsets in committed.values() for each in offsets}
    for group in asked:
        partitions.update(each for member in group.members for each in member.assignment.partitions)
    ends = await _ends(client, partitions)
    lags = {}
    for group in asked:
        lags[group.group_id] = tuple(
            one_group.lag_of(group, committed.get(group.group_id, {}), ends)
        )
        await asyncio.sleep(0)  # the loop has other work, too
    return lags


async def _committed(
    client: ClusterClient, groups: Iterable[GroupDescription]
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    by_node: dict[int, list[str]] = {}
    for each in groups:
        by_node.setdefault(each.coordinator, []).append(each.group_id)
    parts = await asyncio.gather(*(_committed_at(client, *each) for each in by_node.items()))
    return {group_id: offsets for part in parts for group_id, offsets in part.items()}


async def _committed_at(
    client: ClusterClient, node_id: int, group_ids: Sequence[str]
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    newest = await client.persist(lambda: client.newest_version(node_id, OffsetFetchRequest))
    alone = list(group_ids) if newest < _SEVERAL_GROUPS else []
    found = {}
    for some in _parts(group_ids[: len(group_ids) - len(alone)], _GROUPS_AT_ONCE):
        asked = OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(each, topics=None) for each in some)
        )
        answer = await client.persist(
            lambda asked=asked: client.ask(node_id, asked, _OFFSETS_VERSION)  # type: ignore[misc]
        )
        for group in answer.groups:
            if group.error_code:
                alone.append(group.group_id)
            else:
                found[group.group_id] = one_group.read_offsets(group.group_id, group.topics)
    for group_id in alone:
        found[group_id] = await one_group.committed_offsets(client, group_id)
    return found


async def _ends(
    client: ClusterClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | None]:
    by_topic: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        by_topic.setdefault(each.topic, []).append(each)
    ends: dict[TopicPartition, int | None] = {}
    for topics in _parts(sorted(by_topic), _TOPICS_AT_ONCE):
        wanted = [each for topic in topics for each in by_topic[topic]]
        for some in _parts(wanted, _PARTITIONS_AT_ONCE):
            ends |= await one_group.end_offsets(client, some)
    return ends


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in order, `size` at a time."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
