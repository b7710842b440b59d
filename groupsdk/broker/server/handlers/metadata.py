"""Handle Metadata and DescribeTopicPartitions: the nodes, and the leader of each partition."""

from collections.abc import Generator
from typing import Final
from uuid import UUID

from groupsdk.broker.catalogue import INTERNAL_TOPICS, Topic, topic_name_problem
from groupsdk.broker.cluster import Cluster
from groupsdk.broker.server.call import Call, allowed, cluster_allowed, operations
from groupsdk.broker.server.pace import CHANGE_COSTS, Pace, Steps, counted
from groupsdk.broker.store import StoreError
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from groupsdk.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from groupsdk.wire.schema import NO_UUID


_MOST_PARTITIONS: Final = 2_000
_PARTITIONS_AT_ONCE: Final = 256

_Described = Generator[None, None, MetadataResponseTopic]
"""Describes a topic in steps."""


def metadata(call: Call, request: MetadataRequest) -> Steps:
    """Describe the nodes and the requested topics, in steps; create missing topics if requested and allowed.

    Requires "describe" on each topic; in a request for all topics the others are omitted.
    """
    cluster = call.node.cluster
    everything = request.topics is None or (call.version == 0 and not request.topics)
    pace = Pace()
    topics: list[MetadataResponseTopic] = []
    if everything:
        for topic in tuple(cluster.catalogue.topics.values()):
            if allowed(call, "describe", "topic", topic.name):
                described = yield from _described(call, topic, request, pace)
                topics.append(described)
    else:
        seen: set[str | tuple[str | None, UUID] | None] = set()
        for asked in request.topics or ():
            if pace.due():
                call.large = True
                yield
            by_name = asked.topic_id == NO_UUID
            key = asked.name if by_name else (asked.name, asked.topic_id)
            if key in seen:
                continue  # a topic requested twice is described once, as in Kafka
            seen.add(key)
            described = yield from _topic(call, asked, request, pace)
            topics.append(described)
    return MetadataResponse(
        brokers=tuple(_brokers(call)),
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=operations(
            call, "cluster", "kafka-cluster", asked=request.include_cluster_authorized_operations
        ),
    )


def _brokers(call: Call) -> list[MetadataResponseBroker]:
    listener = call.connection.listener_name
    rack = call.node.cluster.config.broker_rack or None
    return [
        MetadataResponseBroker(node.node_id, *node.endpoint(listener), rack)
        for node in call.node.cluster.running_nodes
    ]


def _topic(
    call: Call, asked: MetadataRequestTopic, request: MetadataRequest, pace: Pace
) -> _Described:
    cluster = call.node.cluster
    if asked.topic_id != NO_UUID:
        return (yield from _topic_by_id(call, asked.topic_id, request, pace))
    name = asked.name or ""
    topic = cluster.catalogue.topics.get(name)
    if not allowed(call, "describe", "topic", name):
        return _no_topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is not None:
        return (yield from _described(call, topic, request, pace))
    if not (request.allow_auto_topic_creation and cluster.config.auto_create_topics_enable):
        wrong = topic_name_problem(name) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if wrong else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _no_topic(name, code)
    return (yield from _created(call, name, pace))


def _topic_by_id(call: Call, topic_id: UUID, request: MetadataRequest, pace: Pace) -> _Described:
    topic = call.node.cluster.catalogue.topics_by_id.get(topic_id)
    # do not reveal the name of a topic that the client may not see
    if topic is None or not allowed(call, "describe", "topic", topic.name):
        return MetadataResponseTopic(
            ErrorCode.UNKNOWN_TOPIC_ID, None if call.version >= 12 else "", topic_id
        )
    return (yield from _described(call, topic, request, pace))


def _created(call: Call, name: str, pace: Pace) -> _Described:
    """Create a topic, and describe it as Kafka does, whose controller is still at it: only the next answer has it."""
    cluster = call.node.cluster
    if not cluster_allowed(call, "create") and not allowed(call, "create", "topic", name):
        return _no_topic(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic_name_problem(name) is not None or cluster.catalogue.collision(name):
        return _no_topic(name, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if pace.due(CHANGE_COSTS):
        yield
    try:
        if name in INTERNAL_TOPICS:
            cluster.internal_topic(name)
        else:
            cluster.create_topics({name: cluster.config.num_partitions})
    except StoreError as error:
        # the other topics of the request are answered all the same
        return _no_topic(name, error.error_code)
    return _no_topic(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _no_topic(name: str, code: ErrorCode) -> MetadataResponseTopic:
    return MetadataResponseTopic(code, name, is_internal=name in INTERNAL_TOPICS)


def _described(call: Call, topic: Topic, request: MetadataRequest, pace: Pace) -> _Described:
    asked = request.include_topic_authorized_operations
    partitions: list[MetadataResponsePartition] = []
    for start in range(0, max(len(topic.partitions), 1), _PARTITIONS_AT_ONCE):
        if pace.due(1 + min(len(topic.partitions) - start, _PARTITIONS_AT_ONCE)):
            call.large = True
            yield
        partitions += _partitions(call.node.cluster, topic, start, start + _PARTITIONS_AT_ONCE)
    return MetadataResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.is_internal,
        tuple(partitions),
        operations(call, "topic", topic.name, asked=asked),
    )


def _partitions(
    cluster: Cluster, topic: Topic, start: int, stop: int
) -> list[MetadataResponsePartition]:
    running = {node.node_id for node in cluster.running_nodes}
    found = []
    for index, state in enumerate(topic.partitions[start:stop], start):
        replicas = (state.leader,)
        if state.leader in running:
            found.append(
                MetadataResponsePartition(
                    0, index, state.leader, state.leader_epoch, replicas, replicas
                )
            )
        else:
            found.append(
                MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=index,
                    leader_id=-1,
                    leader_epoch=state.leader_epoch,
                    replica_nodes=replicas,
                    isr_nodes=(),
                    offline_replicas=replicas,
                )
            )
    return found


def describe_topic_partitions(call: Call, request: DescribeTopicPartitionsRequest) -> Steps:
    """Describe topics in pages, in the order of their names (KIP-966), and in steps.

    A page has at most 2,000 partitions; the next one starts at the cursor in the response.
    """
    catalogue = call.node.cluster.catalogue
    named = yield from counted(each.name for each in request.topics)
    names = sorted(named or catalogue.topics)
    first = ""
    start = 0
    if request.cursor is not None:
        first, start = request.cursor.topic_name, max(request.cursor.partition_index, 0)
        names = [name for name in names if name >= first]
    room = min(max(request.response_partition_limit, 1), _MOST_PARTITIONS)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    pace = Pace()
    for name in names:
        if pace.due():
            yield
        topic = catalogue.topics.get(name)
        if not allowed(call, "describe", "topic", name):
            if request.topics:
                topics.append(_undescribed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if topic is None:
            topics.append(_undescribed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            continue
        begin = start if name == first else 0
        if room == 0:
            return _page(topics, Cursor(name, begin))
        partitions = _partitions(call.node.cluster, topic, begin, begin + room)
        room -= len(partitions)
        topics.append(_described_page(call, topic, partitions))
        if begin + len(partitions) < len(topic.partitions):
            return _page(topics, Cursor(name, begin + len(partitions)))
    return _page(topics, None)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)


def _undescribed(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(code, name, is_internal=name in INTERNAL_TOPICS)


def _described_page(
    call: Call, topic: Topic, partitions: list[MetadataResponsePartition]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        0,
        topic.name,
        topic.topic_id,
        topic.is_internal,
        tuple(
            DescribeTopicPartitionsResponsePartition(
                error_code=partition.error_code,
                partition_index=partition.partition_index,
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replica_nodes,
                isr_nodes=partition.isr_nodes,
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=partition.offline_replicas,
            )
            for partition in partitions
        ),
        operations(call, "topic", topic.name, asked=True),
    )
