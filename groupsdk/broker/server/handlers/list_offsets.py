"""Handle ListOffsets and OffsetForLeaderEpoch: find offsets by timestamp, and the ends of leader epochs."""

from collections.abc import Generator
from typing import Final

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.log.timestamp_lookup import OffsetAndTimestamp
from groupsdk.broker.server.call import Call, allowed
from groupsdk.broker.server.pace import Pace, Steps, counted, log_costs
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages import log_offsets as messages


_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE: Final = {
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_NOT_FOUND: Final = OffsetAndTimestamp(-1, -1, -1)
_READ_COMMITTED: Final = 1
_SEARCH: Final = 16
"""The minimum weight of a search by timestamp, in lookups without one."""


def list_offsets(call: Call, request: messages.ListOffsetsRequest) -> Steps:
    """Find an offset of each partition that this node leads, by timestamp or special value, in steps.

    Offset and timestamp -1 without an error mean that there is no such record. A partition given twice is refused. Requires
    "describe" on the topic.
    """
    counts = yield from counted(
        (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    committed = request.isolation_level == _READ_COMMITTED
    pace = Pace()
    logs = call.node.cluster.logs
    topics = []
    for topic in request.topics:
        found = []
        for partition in topic.partitions:
            searches = partition.timestamp >= 0 or partition.timestamp == _MAX_TIMESTAMP
            weight = log_costs(logs, topic.name, partition.partition_index)
            if pace.due(max(weight, _SEARCH) if searches else weight):
                yield
            if call.lost:
                return None
            if counts[topic.name, partition.partition_index] > 1:
                code = ErrorCode.INVALID_REQUEST
                found.append(messages.ListOffsetsPartitionResponse(partition.partition_index, code))
                continue
            found.append((yield from _listed(call, topic.name, partition, committed=committed)))
        if pace.due():
            yield
        topics.append(messages.ListOffsetsTopicResponse(topic.name, tuple(found)))
    return messages.ListOffsetsResponse(topics=tuple(topics))


def _listed(
    call: Call, name: str, asked: messages.ListOffsetsPartition, *, committed: bool
) -> Generator[None, None, messages.ListOffsetsPartitionResponse]:
    node = call.node
    index = asked.partition_index
    if not allowed(call, "describe", "topic", name):
        return messages.ListOffsetsPartitionResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if asked.timestamp < 0 and call.version < _SINCE.get(asked.timestamp, 0):
        return messages.ListOffsetsPartitionResponse(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        log = node.cluster.led_log(node.node_id, name, index, asked.current_leader_epoch)
        leader_epoch = node.cluster.leader_epoch(name, index)
        found = yield from _found(log, asked.timestamp, leader_epoch, committed=committed)
    except ClusterError as error:
        return messages.ListOffsetsPartitionResponse(index, error.error_code)
    except GroupSdkError as error:
        code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        return messages.ListOffsetsPartitionResponse(index, code)
    epoch = found.leader_epoch if call.version >= 4 else -1
    return messages.ListOffsetsPartitionResponse(index, 0, found.timestamp, found.offset, epoch)


def _found(
    log: PartitionLog, timestamp: int, leader_epoch: int, *, committed: bool
) -> Generator[None, None, OffsetAndTimestamp]:
    if timestamp == _LATEST:
        return log.latest(leader_epoch, committed=committed)
    if timestamp in {_EARLIEST, _EARLIEST_LOCAL}:
        return log.earliest(leader_epoch)
    if timestamp == _MAX_TIMESTAMP:
        return (yield from log.max_timestamp_offset()) or _NOT_FOUND
    if timestamp < 0:
        return _NOT_FOUND  # there is no tiered storage
    found = yield from log.offset_for_timestamp(timestamp)
    if found is None or (committed and found.offset >= log.last_stable_offset):
        return _NOT_FOUND
    return found


def offset_for_leader_epoch(call: Call, request: messages.OffsetForLeaderEpochRequest) -> Steps:
    """Return the end offsets of leader epochs, by which clients detect truncation (KIP-320), in steps.

    Requires "describe" on the topic.
    """
    pace = Pace()
    logs = call.node.cluster.logs
    topics = []
    for topic in request.topics:
        ends = []
        for each in topic.partitions:
            if pace.due(log_costs(logs, topic.topic, each.partition)):
                yield
            ends.append(_epoch_end(call, topic.topic, each))
        topics.append(messages.OffsetForLeaderTopicResult(topic.topic, tuple(ends)))
    return messages.OffsetForLeaderEpochResponse(topics=tuple(topics))


def _epoch_end(
    call: Call, name: str, asked: messages.OffsetForLeaderPartition
) -> messages.EpochEndOffset:
    node = call.node
    if not allowed(call, "describe", "topic", name):
        return messages.EpochEndOffset(ErrorCode.TOPIC_AUTHORIZATION_FAILED, asked.partition)
    try:
        log = node.cluster.led_log(node.node_id, name, asked.partition, asked.current_leader_epoch)
        current = node.cluster.leader_epoch(name, asked.partition)
        epoch, end = log.end_offset_for_epoch(asked.leader_epoch, current)
    except GroupSdkError as error:
        code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        return messages.EpochEndOffset(code, asked.partition)
    return messages.EpochEndOffset(0, asked.partition, epoch, end)
