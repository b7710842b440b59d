"""Handle Produce: append batches to the logs of the partitions that this node leads."""

import struct
from collections.abc import Generator
from typing import Any, Final

from groupsdk.broker.catalogue import INTERNAL_TOPICS, Topic
from groupsdk.broker.cluster import ClusterError, TopicPartition
from groupsdk.broker.log.errors import RecordsRefusedError
from groupsdk.broker.log.validation import checking
from groupsdk.broker.server.call import Call, LeaderHints, allowed
from groupsdk.broker.server.error_responses import refuse
from groupsdk.broker.server.pace import Pace, Steps
from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError, GroupSdkError
from groupsdk.wire.messages import produce as messages
from groupsdk.wire.records.batch import LENGTH_END, MAGIC, MAGIC_POSITION, BatchHeader, read_header
from groupsdk.wire.schema import Response


_ACKS: Final = (-1, 0, 1)
_BY_ID: Final = 13
_ZSTD_FROM: Final = 7
_ZSTD: Final = 4
_LEAST_LENGTH: Final = 14
"""Kafka's minimum batch length: that of a record in its oldest format."""
_LENGTH: Final = struct.Struct(">8xi").unpack_from
_TURN_BYTES: Final = 256 * 1024
"""The number of appended bytes after which other requests get their turn."""
_APPEND_COSTS: Final = 1024
"""The weight of an append itself, in bytes."""
_ANSWER_COSTS: Final = 512
"""The weight of a topic, or of a batch that is refused, in bytes."""
_OPENING: Final = _TURN_BYTES // 4
"""The weight of opening a log, which may make a directory and files, in bytes."""
IMPLICIT_PRODUCE: Final = 12
"""The first version of Produce that adds partitions to the transaction by itself (KIP-890)."""


class _Write:
    """The batch to append to one partition, and its result."""

    __slots__ = ("answer", "header", "index", "records", "topic")

    def __init__(self, topic: Topic | None, index: int, records: bytes | None) -> None:
        self.topic = topic
        self.index = index
        self.records = records
        self.header: BatchHeader | None = None
        self.answer: messages.PartitionProduceResponse | None = None

    @property
    def transactional(self) -> bool:
        return self.header is not None and self.header.is_transactional

    def refuse(self, code: int, text: str | None = None) -> None:
        self.answer = messages.PartitionProduceResponse(self.index, code, -1, error_message=text)


def produce(call: Call, request: messages.ProduceRequest) -> Steps:
    """Append the valid batches, one for each partition, with one result for each; in steps.

    Requires "write" on the topic and, for transactional batches, on the transactional id. With acks=0 there is no
    response; an error closes the connection. A partition has one replica, so acks of 1 and -1 are the same.
    """
    writes = []
    pace = Pace()
    for topic in request.topic_data:
        prepared = yield from _prepared(call, topic, pace)
        writes.append(prepared)
    flat = [write for topic in writes for write in topic]
    transactional = [write for write in flat if write.transactional]
    transactional_id = request.transactional_id
    if transactional and (
        transactional_id is None or not allowed(call, "write", "transactional_id", transactional_id)
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _finished(call, request, refuse(request, code, call.version), failed=True)
    if request.acks not in _ACKS:
        for write in flat:
            if write.answer is None:
                write.refuse(ErrorCode.INVALID_REQUIRED_ACKS)
    pending = [write for write in transactional if write.answer is None]
    if not pending or transactional_id is None:
        return (yield from _appended(call, request, writes))
    _check_transaction(call, request, transactional_id, writes, pending)
    return None


def _prepared(call: Call, asked: Any, pace: Pace) -> Generator[None, None, list[_Write]]:
    """Check the data of one topic, in steps; rejected writes get their error here."""
    catalogue = call.connection.node.cluster.catalogue
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if call.route.version >= _BY_ID:
        topic = catalogue.topics_by_id.get(asked.topic_id)
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = catalogue.topics.get(asked.name)
    name = asked.name if topic is None else topic.name
    writes = []
    may = allowed(call, "write", "topic", name)
    if pace.due():
        yield
    for each in asked.partition_data:
        if pace.due():
            yield
        write = _Write(topic, each.index, each.records)
        writes.append(write)
        if not may:
            write.refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif topic is None:
            write.refuse(unknown)
        elif name in INTERNAL_TOPICS:
            write.refuse(ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            _look(call, write)
    return writes


def _look(call: Call, write: _Write) -> None:
    """Read the header of the batch; a producer may send exactly one batch, in the current format."""
    records = write.records or b""
    size = _batch_size(records, 0)
    if size == 0:
        write.refuse(
            ErrorCode.INVALID_RECORD, "a produce request must carry one batch for each partition"
        )
        return
    try:
        if size > 0 and records[MAGIC_POSITION] != MAGIC:
            write.refuse(
                ErrorCode.INVALID_RECORD, "the message format of a produced batch must be 2"
            )
            return
        header = read_header(records)
    except DecodeError as error:
        write.refuse(ErrorCode.CORRUPT_MESSAGE, str(error))
        return
    following = _batch_size(records, size)
    if following < 0:
        write.refuse(
            ErrorCode.CORRUPT_MESSAGE,
            "the second batch of a partition has an invalid length or message format",
        )
    elif following > 0:
        write.refuse(
            ErrorCode.INVALID_RECORD,
            "a produce request must carry exactly one batch for each partition",
        )
    elif header.compression == _ZSTD and call.route.version < _ZSTD_FROM:
        write.refuse(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    elif size < len(records):
        write.records = records[:size]  # as in Kafka, a partial further batch is ignored
    write.header = header


def _batch_size(records: bytes, position: int) -> int:
    """Return the size of the batch at `position` in bytes; 0 if it is incomplete, -1 if it is invalid."""
    left = len(records) - position
    if left <= MAGIC_POSITION:
        return 0
    (length,) = _LENGTH(records, position)
    if length < _LEAST_LENGTH or records[position + MAGIC_POSITION] > MAGIC:
        return -1
    return LENGTH_END + length if LENGTH_END + length <= left else 0


def _check_transaction(
    call: Call,
    request: messages.ProduceRequest,
    transactional_id: str,
    writes: list[list[_Write]],
    pending: list[_Write],
) -> None:
    from groupsdk.broker.coordinator.transactions.responses import produce_error
    from groupsdk.broker.server.transaction_check import check

    version = call.version
    add = version >= IMPLICIT_PRODUCE
    # a request may name a partition twice
    by_partition: dict[TopicPartition, list[_Write]] = {}
    for write in pending:
        if write.topic is not None:
            by_partition.setdefault((write.topic.name, write.index), []).append(write)
    header = pending[0].header
    assert header is not None

    def go_on(outcome: dict[TopicPartition, ErrorCode]) -> None:
        for partition, error in outcome.items():
            if error is not ErrorCode.NONE:
                for write in by_partition[partition]:
                    write.refuse(produce_error(error, version))
        call.go_on_with(request, _appended(call, request, writes))

    if not add and not call.node.cluster.config.transaction_partition_verification_enable:
        go_on({})
        return
    existing = frozenset(
        each for each in by_partition if call.node.cluster.leader(*each) is not None
    )
    producer = (header.producer_id, header.producer_epoch)
    check(call, transactional_id, producer, existing, go_on, add=add)


def _appended(call: Call, request: messages.ProduceRequest, writes: list[list[_Write]]) -> Steps:
    hints = LeaderHints(call)
    logs = call.node.cluster.logs
    failed = False
    topics = []
    done = 0
    for asked, each in zip(request.topic_data, writes, strict=True):
        answers = []
        done += _ANSWER_COSTS
        for write in each:
            if done >= _TURN_BYTES:
                done = 0
                yield
            if write.answer is not None:
                done += _ANSWER_COSTS
            else:
                done += _APPEND_COSTS + len(write.records or b"")
                if write.topic is not None and not logs.is_open(write.topic.name, write.index):
                    done += _OPENING
                write.answer = yield from _append(call, write, hints)
            failed = failed or write.answer.error_code != 0
            answers.append(write.answer)
        topics.append(messages.TopicProduceResponse(asked.name, asked.topic_id, tuple(answers)))
    endpoints = tuple(messages.NodeEndpoint(*each) for each in hints.endpoints()) if failed else ()
    response = messages.ProduceResponse(tuple(topics), 0, endpoints)
    return _finished(call, request, response, failed=failed)


def _finished(
    call: Call, request: messages.ProduceRequest, response: Response | None, *, failed: bool
) -> Response | None:
    if request.acks != 0:
        return response
    if failed:
        # the only signal for a producer with acks=0; it makes the producer refresh its metadata
        call.connection.close("a produce with acks=0 failed")
    else:
        call.answer_nothing()
    return None


def _append(
    call: Call, write: _Write, hints: LeaderHints
) -> Generator[None, None, messages.PartitionProduceResponse]:
    node = call.connection.node
    cluster = node.cluster
    topic, records = write.topic, write.records
    assert topic is not None
    assert records is not None
    index = write.index
    try:
        now_ms = cluster.now_ms()
        log = cluster.led_log(node.node_id, topic.name, index)
        checked = yield from checking(records, log.config, now_ms)
        info = cluster.led_log(node.node_id, topic.name, index).append(
            records,
            leader_epoch=topic.partitions[index].leader_epoch,
            now_ms=now_ms,
            # a KIP-890 producer gets a new epoch with each transaction, and starts at sequence 0
            first_sequence_zero=write.transactional and call.version >= IMPLICIT_PRODUCE,
            checked=checked,
        )
    except ClusterError as error:
        leader = messages.LeaderIdAndEpoch()
        if error.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER and call.version >= 10:
            leader = messages.LeaderIdAndEpoch(*hints.leader(topic, index))
        return messages.PartitionProduceResponse(index, error.error_code, -1, current_leader=leader)
    except RecordsRefusedError as error:
        blamed = tuple(messages.BatchIndexAndErrorMessage(*each) for each in error.problems)
        return messages.PartitionProduceResponse(
            index, error.error_code, -1, record_errors=blamed, error_message=str(error)
        )
    except GroupSdkError as error:
        cluster.logs.report(topic.name, index, error)
        code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
        return messages.PartitionProduceResponse(index, code, -1, error_message=str(error))
    cluster.appended((topic.name, index))
    return messages.PartitionProduceResponse(
        index, 0, info.base_offset, info.log_append_time_ms, info.log_start_offset
    )
