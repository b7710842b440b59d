"""Validate the batches of clients before they are appended, headers and records (Kafka: LogValidator)."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Final, NamedTuple

from groupsdk.broker.log import errors
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.errors import DecodeError
from groupsdk.limits import MAX_INT64
from groupsdk.wire.records import batch
from groupsdk.wire.records.compression import TooLargeError
from groupsdk.wire.records.record import Record, read_body
from groupsdk.wire.records.record_check import Walked, body_of, walk


MAX_RECORDS: Final = 1_000_000
"""The most records in a client's batch; Kafka has no bound, and librdkafka builds no larger ones."""
MAX_DECOMPRESSED: Final = 32 * 1024 * 1024
"""The most bytes of a client's batch when decompressed."""
_NO_TIMESTAMP: Final = -1
_STEP_RECORDS: Final = 2048
_MAX_PROBLEMS: Final = 100
"""The most invalid records of one batch that are reported."""


class Checked(NamedTuple):
    """Validated batches, ready to be appended."""

    data: bytearray
    """A copy of all batches, with their timestamps set; the base offsets are written on append."""
    headers: list[batch.BatchHeader]
    log_append_time_ms: int
    """The time given to the records by LogAppendTime; -1: they keep their own timestamps."""


Checking = Generator[None, None, Checked]
"""A check in steps of some milliseconds that returns its result at the end."""


def check(batches: batch.Buffer, config: LogConfig, now_ms: int) -> Checked:
    """Validate batches without pauses; see `checking` for arguments and errors."""
    steps = checking(batches, config, now_ms)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            checked: Checked = done.value
            return checked


def checking(batches: batch.Buffer, config: LogConfig, now_ms: int) -> Checking:
    """Validate batches of a client that are to be appended, step by step.

    They are decompressed, and each record is parsed, so that a log never holds a batch that no
    consumer can read; their latest timestamp is written into the header.

    Raises:
        CorruptMessageError: the bytes are not whole batches, or a checksum is wrong.
        UnsupportedFormatError: a batch does not have message format 2.
        BadCompressionError: the records cannot be decompressed.
        InvalidRecordError: a batch has content that a client may not write, a wrong record count, or, in a
            compacted topic, a record without a key; or there is no batch.
        InvalidTimestampError: a timestamp is outside the topic's bounds.
        MessageTooLargeError: a batch is larger than max.message.bytes, or has too many records.
        RecordListTooLargeError: the batches are together larger than a segment.
    """
    data = bytearray(batches)
    headers: list[batch.BatchHeader] = []
    position = 0
    while position < len(data):
        if headers:
            yield
        header = _read(data, position)
        size = header.size_in_bytes
        if size > config.max_message_bytes:
            raise errors.MessageTooLargeError(
                f"a record batch of {size} bytes is larger than"
                f" max.message.bytes={config.max_message_bytes}"
            )
        try:
            batch.verify(data, header, position)
        except batch.CorruptBatchError as error:
            raise errors.CorruptMessageError(str(error)) from error
        _check_client(header)
        latest = yield from _checking_records(data, position, header, config, now_ms)
        log_time = config.is_log_append_time
        headers.append(batch.stamp(data, header, latest, position, log_append_time=log_time))
        position += size
    if not headers:
        raise errors.InvalidRecordError("there are no record batches to append")
    if len(data) > config.segment_bytes:
        raise errors.RecordListTooLargeError(
            f"{len(data)} bytes of record batches are larger than"
            f" segment.bytes={config.segment_bytes}"
        )
    return Checked(data, headers, now_ms if config.is_log_append_time else _NO_TIMESTAMP)


def _read(batches: batch.Buffer, position: int) -> batch.BatchHeader:
    left = len(batches) - position
    if left > batch.MAGIC_POSITION and batches[position + batch.MAGIC_POSITION] != batch.MAGIC:
        magic = batches[position + batch.MAGIC_POSITION]
        raise errors.UnsupportedFormatError(
            f"the message format of a record batch must be {batch.MAGIC}, not {magic}"
        )
    try:
        header = batch.read_header(batches, position)
    except DecodeError as error:
        raise errors.CorruptMessageError(str(error)) from error
    if header.size_in_bytes > left or left < batch.HEADER_SIZE:
        raise errors.CorruptMessageError(
            f"a record batch of {header.size_in_bytes} bytes is truncated to {left}"
        )
    return header


def _check_client(header: batch.BatchHeader) -> None:
    if header.is_control:
        raise errors.InvalidRecordError("clients may not write control records")
    if header.base_offset != 0:
        raise errors.InvalidRecordError(
            f"the base offset of a client's record batch must be 0, not {header.base_offset}"
        )
    if header.records_count < 1 or header.records_count != header.last_offset_delta + 1:
        raise errors.InvalidRecordError(
            f"a record batch of {header.records_count} records has the last offset delta"
            f" {header.last_offset_delta}"
        )
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise errors.InvalidRecordError(
            f"a record batch of producer {header.producer_id} must not have a negative epoch or sequence"
            f" number: {header.producer_epoch}, {header.base_sequence}"
        )
    if header.is_transactional and header.producer_id < 0:
        raise errors.InvalidRecordError("a transactional record batch has no producer id")
    if header.attributes & batch.DELETE_HORIZON:
        raise errors.InvalidRecordError(
            "a record batch has a delete horizon, which only the broker may set"
        )
    if header.records_count > MAX_RECORDS:
        raise errors.MessageTooLargeError(
            f"a record batch has {header.records_count} records; at most {MAX_RECORDS} are allowed"
        )


def _checking_records(
    data: bytearray, position: int, header: batch.BatchHeader, config: LogConfig, now_ms: int
) -> Generator[None, None, int]:
    """Walk the records of a client's batch; returns their latest timestamp."""
    try:
        body = body_of(data, header, position, MAX_DECOMPRESSED)
    except TooLargeError as error:
        raise errors.MessageTooLargeError(str(error)) from error
    except DecodeError as error:
        raise errors.BadCompressionError(str(error)) from error
    walked: Walked | None = None
    try:
        for walked in walk(body, header):
            if walked is None:
                yield
    except DecodeError as error:
        raise errors.InvalidRecordError(str(error)) from error
    assert walked is not None
    if walked.keyless and config.compact:
        problems = yield from _problems(body, header, _keyless)
        raise errors.InvalidRecordError(
            "a record has no key; every record of a compacted topic needs one", problems
        )
    if config.is_log_append_time:
        return now_ms
    low = now_ms - config.message_timestamp_before_max_ms
    high = min(now_ms + config.message_timestamp_after_max_ms, MAX_INT64)
    if walked.earliest < low or walked.latest > high:
        problems = yield from _problems(body, header, partial(_out_of_bounds, low, high))
        if problems:
            raise errors.InvalidTimestampError(
                "One or more records have been rejected due to invalid timestamp", problems
            )
    return max(walked.latest, _NO_TIMESTAMP)


def _problems(
    body: bytes, header: batch.BatchHeader, problem_of: Callable[[Record], str | None]
) -> Generator[None, None, tuple[errors.RecordProblem, ...]]:
    """Find the records of a batch that are to blame, which the first walk did not note for its speed."""
    found = []
    own_times = header._replace(base_offset=0, attributes=0)
    for index, record in enumerate(read_body(body, own_times)):
        text = problem_of(record)
        if text is not None:
            found.append(errors.RecordProblem(index, text))
            if len(found) == _MAX_PROBLEMS:
                break
        if not (index + 1) % _STEP_RECORDS:
            yield
    return tuple(found)


def _keyless(record: Record) -> str | None:
    return None if record.key is not None else "a compacted topic needs a key in every record"


def _out_of_bounds(low: int, high: int, record: Record) -> str | None:
    time = record.timestamp
    if time == _NO_TIMESTAMP or low <= time <= high:
        return None
    return (
        f"the timestamp {time} is not between {low} and {high}, as"
        " message.timestamp.before.max.ms and message.timestamp.after.max.ms require"
    )
