"""What may not be appended is refused, with the reason."""

import struct

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.errors import (
    BadCompressionError,
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    LogError,
    MessageTooLargeError,
    RecordListTooLargeError,
    UnsupportedFormatError,
)
from groupsdk.broker.log.validation import MAX_DECOMPRESSED, MAX_RECORDS, check, checking
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import CRC_START, crc32c, read_header, verify
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch
from groupsdk.wire.records.varint import varint
from tests.broker.log.bad_batches import record, with_body
from tests.broker.log.logs import NOW_MS, batch


def patched(position: int, layout: str, value: int, data: bytes | None = None) -> bytes:
    """A batch with a field changed and the checksum right."""
    found = bytearray(data or batch(b"a", b"b"))
    struct.pack_into(layout, found, position, value)
    struct.pack_into(">I", found, CRC_START - 4, crc32c(bytes(found[CRC_START:])))
    return bytes(found)


def refused(data: bytes, error: type[LogError], text: str, config: LogConfig | None = None) -> None:
    with pytest.raises(error, match=text):
        check(data, config or LogConfig(), NOW_MS)


def test_good_batches_pass_as_they_are() -> None:
    data = batch(b"a", b"b", compression=4) + batch(b"c")
    found = check(data, LogConfig(), NOW_MS)
    assert bytes(found.data) == data
    assert [header.records_count for header in found.headers] == [2, 1]
    assert found.log_append_time_ms == -1


def test_the_bytes_have_to_be_whole_batches() -> None:
    data = batch(b"a")
    refused(b"", InvalidRecordError, "no record batch")
    refused(data[:-1], CorruptMessageError, f"of {len(data)} bytes is truncated to {len(data) - 1}")
    refused(data + data[:10], CorruptMessageError, "10 bytes at byte")
    refused(data[:-2] + b"x" + data[-1:], CorruptMessageError, "checksum")
    refused(
        data[:16] + b"\1" + data[17:],
        UnsupportedFormatError,
        "message format of a record batch must be 2, not 1",
    )


def test_clients_may_not_say_everything() -> None:
    marker = build_marker(5, 0, committed=True, coordinator_epoch=0, timestamp_ms=NOW_MS)
    refused(marker, InvalidRecordError, "control records")
    refused(patched(23, ">i", 4), InvalidRecordError, "of 2 records has the last offset delta 4")
    refused(patched(57, ">i", 0), InvalidRecordError, "of 0 records has")
    refused(
        batch(b"a", producer=(5, 0)), InvalidRecordError, "negative epoch or sequence number: 0, -1"
    )
    refused(
        batch(b"a", producer=(5, -1), sequence=0),
        InvalidRecordError,
        "negative epoch or sequence number: -1, 0",
    )
    refused(batch(b"a", transactional=True), InvalidRecordError, "no producer id")
    horizon = build_batch([Record(0, NOW_MS, b"k", b"v")], delete_horizon_ms=NOW_MS)
    refused(horizon, InvalidRecordError, "delete horizon")


def test_sizes_are_bounded() -> None:
    data = batch(b"x" * 100)
    refused(
        data,
        MessageTooLargeError,
        r"larger than max\.message\.bytes=99",
        LogConfig(max_message_bytes=99),
    )
    refused(
        data, RecordListTooLargeError, r"larger than segment\.bytes=99", LogConfig(segment_bytes=99)
    )


def test_timestamps_are_bounded() -> None:
    config = LogConfig(message_timestamp_before_max_ms=100, message_timestamp_after_max_ms=10)
    for timestamp in (NOW_MS - 100, NOW_MS + 10, -1):
        check(batch(b"a", timestamp=timestamp), config, NOW_MS)
    for timestamp in (NOW_MS - 101, NOW_MS + 11):
        refused(batch(b"a", timestamp=timestamp), InvalidTimestampError, "due to invalid", config)


def test_the_log_may_give_the_time() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    data = batch(b"a", timestamp=5) + batch(b"b", b"c", timestamp=6)
    found = check(data, config, NOW_MS)
    position = 0
    for header in found.headers:
        assert header == read_header(found.data, position)
        assert (header.timestamp_type, header.max_timestamp) == (1, NOW_MS)
        verify(found.data, header, position)
        position += header.size_in_bytes
    assert position == len(found.data)
    assert found.log_append_time_ms == NOW_MS


def test_a_compacted_topic_needs_keys() -> None:
    config = LogConfig(cleanup_policy=("compact",))
    check(batch(b"a", compression=1), config, NOW_MS)
    refused(batch(b"a", key=None, compression=1), InvalidRecordError, "has no key", config)
    check(batch(b"a", key=None), LogConfig(), NOW_MS)
    broken = patched(21, ">h", 1)
    refused(broken, BadCompressionError, "gzip", config)


def test_the_latest_timestamp_is_that_of_the_records() -> None:
    records = [Record(n, NOW_MS + time, b"k", b"v") for n, time in enumerate((0, -70, 9, 5))]
    for lie in (1_000, 2**62):
        for codec in (0, 4):
            data = build_batch(
                records, compression=codec, max_timestamp=lie, timestamp_type=lie > 1_000
            )
            found = check(data, LogConfig(), NOW_MS)
            (header,) = found.headers
            assert header == read_header(found.data)
            assert (header.max_timestamp, header.timestamp_type) == (NOW_MS + 9, 0)
            verify(found.data, header)


def test_the_records_that_are_to_blame_are_named() -> None:
    late = NOW_MS + 10**9
    records = [
        Record(n, late if n % 3 == 1 else NOW_MS, None if n % 2 else b"k", b"v") for n in range(10)
    ]
    for codec in (0, 1):
        data = build_batch(records, compression=codec)
        with pytest.raises(InvalidTimestampError) as out_of_bounds:
            check(data, LogConfig(), NOW_MS)
        assert [each.number for each in out_of_bounds.value.problems] == [1, 4, 7]
        assert str(late) in out_of_bounds.value.problems[0].text
        with pytest.raises(InvalidRecordError) as keyless:
            check(data, LogConfig(cleanup_policy=("compact",)), NOW_MS)
        assert [each.number for each in keyless.value.problems] == [1, 3, 5, 7, 9]
    # a bound on what an answer may hold
    many = build_batch([Record(n, late, b"k", b"v") for n in range(500)])
    with pytest.raises(InvalidTimestampError) as some:
        check(many, LogConfig(), NOW_MS)
    assert len(some.value.problems) == 100


def test_size_of_a_decompressed_batch_is_bounded() -> None:
    huge = with_body(b"\0" * (MAX_DECOMPRESSED + 1), 1, NOW_MS, 4)
    refused(huge, MessageTooLargeError, f"more than {MAX_DECOMPRESSED} bytes")
    counted = patched(57, ">i", MAX_RECORDS + 1, patched(23, ">i", MAX_RECORDS))
    refused(counted, MessageTooLargeError, f"{MAX_RECORDS} are allowed")


def test_a_large_batch_is_checked_in_steps() -> None:
    count = 50_000
    whole = with_body(
        b"".join(record(n, key=None, value=None) for n in range(count)), count, NOW_MS, 4
    )
    many_headers = with_body(record(0, headers=varint(40_000) + b"\0\1" * 40_000) * 1, 1, NOW_MS)
    assert len(list(checking(whole, LogConfig(), NOW_MS))) > 10
    assert len(list(checking(batch(b"a"), LogConfig(), NOW_MS))) == 0
    several = with_body(
        b"".join(record(n, headers=varint(40_000) + b"\0\1" * 40_000) for n in range(10)),
        10,
        NOW_MS,
        4,
    )
    check(many_headers, LogConfig(), NOW_MS)
    assert len(list(checking(several, LogConfig(), NOW_MS))) == 9


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_by_an_error_of_ours(data: bytes) -> None:
    with pytest.raises(LogError):
        check(data, LogConfig(), NOW_MS)


@given(st.integers(0, 150), st.integers(1, 255))
def test_any_flipped_byte_that_matters_is_refused(position: int, change: int) -> None:
    data = bytearray(batch(b"a" * 40, b"b" * 40))
    data[position] ^= change
    if 12 <= position < 16:
        # the leader epoch is the log's to write
        check(data, LogConfig(), NOW_MS)
    else:
        with pytest.raises(LogError):
            check(data, LogConfig(), NOW_MS)
