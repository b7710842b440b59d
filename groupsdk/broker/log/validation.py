"""Check batches that are to be appended, without opening them (Kafka: LogValidator)."""

from typing import Final, NamedTuple

from groupsdk.broker.log.config import LogConfig
from groupsdk.broker.log.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedFormatError,
)
from groupsdk.broker.log.producer_state import Origin
from groupsdk.errors import DecodeError
from groupsdk.wire.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    CorruptBatchError,
    read_header,
    verify,
    with_log_append_time,
)
from groupsdk.wire.records.checksum import Buffer
from groupsdk.wire.records.record import read_records


_NO_TIMESTAMP: Final = -1


class Checked(NamedTuple):
    """Batches that may be appended."""

    data: bytearray
    """All of them, to be placed at their offsets."""
    headers: list[BatchHeader]
    log_append_time_ms: int
    """The time that they got, where the log gives it; -1: they keep their own."""


def check(batches: Buffer, config: LogConfig, now_ms: int, origin: Origin) -> Checked:
    """Check what somebody wants to append.

    Batches are opened only where compaction needs what clients may leave out: a key in every record.

    Args:
        batches: one or more whole batches.
        config: the topic's.
        now_ms: the time.
        origin: who appends.

    Raises:
        CorruptMessageError: the bytes are no whole batches, or their checksum is wrong.
        UnsupportedFormatError: they have another message format than 2.
        InvalidRecordError: they say what the origin may not say.
        InvalidTimestampError: a timestamp is out of the topic's bounds.
        MessageTooLargeError: one is larger than max.message.bytes.
        RecordListTooLargeError: together they are larger than a segment.
    """
    headers: list[BatchHeader] = []
    position = 0
    while position < len(batches):
        header = _read(batches, position)
        size = header.size_in_bytes
        if size > config.max_message_bytes:
            raise MessageTooLargeError(
                f"a record batch of {size} bytes is larger than"
                f" max.message.bytes={config.max_message_bytes}"
            )
        try:
            verify(batches, header, position)
        except CorruptBatchError as error:
            raise CorruptMessageError(str(error)) from error
        if origin is Origin.CLIENT:
            _check_client(header)
            if config.compact:
                _check_keys(batches, position)
        _check_timestamps(header, config, now_ms)
        headers.append(header)
        position += size
    if not headers:
        raise InvalidRecordError("there is no record batch to append")
    if len(batches) > config.segment_bytes:
        raise RecordListTooLargeError(
            f"{len(batches)} bytes of record batches are larger than"
            f" segment.bytes={config.segment_bytes}"
        )
    if config.is_log_append_time:
        return _stamped(batches, headers, now_ms)
    return Checked(bytearray(batches), headers, _NO_TIMESTAMP)


def _read(batches: Buffer, position: int) -> BatchHeader:
    left = len(batches) - position
    if left > MAGIC_POSITION and batches[position + MAGIC_POSITION] != MAGIC:
        magic = batches[position + MAGIC_POSITION]
        raise UnsupportedFormatError(f"a record batch has the message format {magic}, not {MAGIC}")
    try:
        header = read_header(batches, position)
    except DecodeError as error:
        raise CorruptMessageError(str(error)) from error
    if header.size_in_bytes > left or left < HEADER_SIZE:
        raise CorruptMessageError(
            f"a record batch of {header.size_in_bytes} bytes ends after {left}"
        )
    return header


def _check_client(header: BatchHeader) -> None:
    if header.is_control:
        raise InvalidRecordError("clients may not write control records")
    if header.records_count < 1 or header.records_count != header.last_offset_delta + 1:
        raise InvalidRecordError(
            f"a record batch counts {header.records_count} records up to the offset delta"
            f" {header.last_offset_delta}"
        )
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise InvalidRecordError(
            f"a record batch of producer {header.producer_id} has the epoch {header.producer_epoch} and"
            f" the sequence number {header.base_sequence}"
        )
    if header.is_transactional and header.producer_id < 0:
        raise InvalidRecordError("a transactional record batch has no producer id")
    if header.has_delete_horizon:
        raise InvalidRecordError("a record batch has a delete horizon, which the log alone sets")


def _check_keys(batches: Buffer, position: int) -> None:
    try:
        for record in read_records(batches, position):
            if record.key is None:
                raise InvalidRecordError(
                    "a record has no key, without which a compacted topic cannot keep it"
                )
    except DecodeError as error:
        raise CorruptMessageError(str(error)) from error


def _check_timestamps(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if config.is_log_append_time:
        return
    if header.timestamp_type:
        raise InvalidTimestampError("a producer may not set the timestamp type to LogAppendTime")
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp != _NO_TIMESTAMP and not earliest <= timestamp <= latest:
            raise InvalidTimestampError(
                f"the timestamp {timestamp} is not between {earliest} and {latest}, as"
                " message.timestamp.before.max.ms and message.timestamp.after.max.ms ask for"
            )


def _stamped(batches: Buffer, headers: list[BatchHeader], now_ms: int) -> Checked:
    data = bytearray()
    view = memoryview(batches)
    stamped = []
    for header in headers:
        start = len(data)
        data += with_log_append_time(view[start : start + header.size_in_bytes], now_ms)
        stamped.append(read_header(data, start))
    return Checked(data, stamped, now_ms)
