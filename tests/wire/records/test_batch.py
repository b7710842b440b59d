"""Tests the headers of record batches: Kafka's own bytes, changes in place, and what is no batch."""

import struct

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.batch import (
    BatchHeader,
    CorruptBatchError,
    batches,
    place,
    read_header,
    stamp,
    verify,
)
from groupsdk.wire.records.record import Record, build_batch, read_records
from tests.support.cases import each_case
from tests.wire.records.vectors import COMMIT, TOMBSTONE, TRANSACTIONAL, resealed


def test_kafkas_headers_are_read() -> None:
    header = read_header(TRANSACTIONAL)

    assert header == BatchHeader(
        base_offset=10,
        batch_length=67,
        partition_leader_epoch=3,
        magic=2,
        crc=0xF472980F,
        attributes=0x10,
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=1001,
        producer_id=5,
        producer_epoch=1,
        base_sequence=0,
        records_count=2,
    )
    assert (header.last_offset, header.last_sequence, header.size_in_bytes) == (11, 1, 79)
    assert header.size_in_bytes == len(TRANSACTIONAL)
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert (header.compression, header.timestamp_type) == (0, 0)
    assert read_header(COMMIT).is_control
    assert read_header(TOMBSTONE).last_sequence == -1


def test_attributes_are_told_apart() -> None:
    header = read_header(TOMBSTONE)._replace(attributes=0x4C)

    assert header.compression == 4
    assert header.timestamp_type == 1
    assert header.has_delete_horizon
    assert not header.is_transactional
    assert not header.is_control


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 0, 0), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 9, 6), (-1, 3, -1)],
)
def test_sequence_numbers_wrap(base: int, delta: int, last: int) -> None:
    header = read_header(TOMBSTONE)._replace(base_sequence=base, last_offset_delta=delta)

    assert header.last_sequence == last


@pytest.mark.parametrize("cut", [0, 1, 12, 16, 17, 60])
def test_less_than_a_header_is_refused(cut: int) -> None:
    with pytest.raises(
        DecodeError, match=f"{cut} bytes at byte 0 is too short for the header of a record batch"
    ):
        read_header(TOMBSTONE[:cut])
    with pytest.raises(
        DecodeError, match="0 bytes at byte 100 is too short for the header of a record batch"
    ):
        read_header(TOMBSTONE[:cut], 100)


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_message_formats_are_named(magic: int) -> None:
    old = TOMBSTONE[:16] + struct.pack(">b", magic) + TOMBSTONE[17:]

    with pytest.raises(DecodeError, match=f"at byte 0 has the message format {magic}; only 2"):
        read_header(old)
    with pytest.raises(DecodeError, match=f"at byte 80 has the message format {magic}; only 2"):
        list(batches(TOMBSTONE + old))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_short_message_of_an_old_format_is_not_taken_for_a_cut(magic: int) -> None:
    # as long as the shortest message of format 0, which is shorter than a header of today
    old = struct.pack(">qiIbb", 0, 14, 0, magic, 0) + b"\xff" * 8

    with pytest.raises(DecodeError, match=f"message format {magic}; .* before 0.11"):
        read_header(old)
    with pytest.raises(DecodeError, match=f"message format {magic}; .* before 0.11"):
        list(batches(old))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_below_the_header_is_refused(length: int) -> None:
    batch = TOMBSTONE[:8] + struct.pack(">i", length) + TOMBSTONE[12:]

    with pytest.raises(DecodeError, match=f"at byte 0 has the length {length}, where"):
        read_header(batch)


@pytest.mark.parametrize("position", [23, 57])
def test_negative_counts_are_refused(position: int) -> None:
    batch = TOMBSTONE[:position] + b"\xff" * 4 + TOMBSTONE[position + 4 :]

    with pytest.raises(DecodeError, match="neither can be negative"):
        read_header(batch)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_batches_are_found_one_after_the_other(
    kind: type[bytes | bytearray | memoryview],
) -> None:
    log = kind(b"xx" + TOMBSTONE + TRANSACTIONAL + COMMIT)

    found = list(batches(log, 2))

    assert [position for _, position in found] == [2, 2 + 80, 2 + 80 + 79]
    assert [header.base_offset for header, _ in found] == [0, 10, 0]
    for header, position in found:
        verify(log, header, position)


@each_case("cut", range(len(TRANSACTIONAL)))
def test_a_tail_that_is_cut_is_left_out(cut: int) -> None:
    log = TOMBSTONE + TRANSACTIONAL[:cut]

    assert [position for _, position in batches(log)] == [0]


@given(st.integers(0, 8 * len(TRANSACTIONAL) - 1))
def test_every_bit_that_counts_is_checked(bit: int) -> None:
    changed = bytearray(TRANSACTIONAL)
    changed[bit // 8] ^= 1 << bit % 8
    # offset and leader epoch are not in the sum
    free = bit // 8 < 8 or 12 <= bit // 8 < 16
    try:
        verify(changed, read_header(changed))
    except DecodeError:
        assert not free
    else:
        assert free


def test_a_wrong_checksum_is_named() -> None:
    changed = TOMBSTONE[:-1] + b"\1"

    with pytest.raises(CorruptBatchError, match="but its header says 0xa8295b1b"):
        verify(changed, read_header(changed))
    with pytest.raises(CorruptBatchError, match="takes 80 bytes, of which 79 are there"):
        verify(TOMBSTONE[:-1], read_header(TOMBSTONE))


def test_a_batch_is_placed_without_a_new_checksum() -> None:
    log = bytearray(b"xx" + TRANSACTIONAL)

    place(log, 2**40, 8, 2)

    header = read_header(log, 2)
    verify(log, header, 2)
    assert header == read_header(TRANSACTIONAL)._replace(
        base_offset=2**40, partition_leader_epoch=8
    )
    assert [each.offset for each in read_records(log, 2)] == [2**40, 2**40 + 1]
    assert len(log) == 2 + len(TRANSACTIONAL)


def test_a_place_that_does_not_fit_is_refused() -> None:
    for offset, epoch in ((2**63, 0), (0, 2**31)):
        with pytest.raises(EncodeError, match=f"at offset {offset}, leader epoch {epoch}"):
            place(bytearray(TOMBSTONE), offset, epoch)
    with pytest.raises(EncodeError, match="cannot be placed"):
        place(bytearray(5), 0, 0)


def test_the_time_of_the_log_is_written_over_the_producers() -> None:
    data = bytearray(b"rest" + TRANSACTIONAL + b"rest")
    before = read_header(data, 4)

    header = stamp(data, before, 123_456, 4, log_append_time=True)

    assert header == read_header(data, 4)
    verify(data, header, 4)
    assert bytes(data[:4] + data[-4:]) == b"restrest"
    assert (header.timestamp_type, header.max_timestamp, header.base_timestamp) == (
        *(1, 123_456),
        1000,
    )
    assert header.is_transactional
    assert [each.timestamp for each in read_records(data, 4)] == [123_456, 123_456]
    back = stamp(data, header, before.max_timestamp, 4)
    assert (back, bytes(data[4:-4])) == (before, TRANSACTIONAL)
    assert stamp(data, back, before.max_timestamp, 4) is back


def test_a_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError, match="the timestamp 9223372036854775808"):
        stamp(bytearray(TRANSACTIONAL), read_header(TRANSACTIONAL), 2**63)


def test_a_batch_that_is_sealed_anew_is_right_again() -> None:
    batch = bytearray(build_batch([Record(0, 1, b"k", b"v")]))
    batch[-2] ^= 1

    with pytest.raises(CorruptBatchError):
        verify(batch, read_header(batch))
    sealed = resealed(batch)
    verify(sealed, read_header(sealed))


@given(st.binary(max_size=200))
def test_any_bytes_of_a_batch_are_read_or_refused(data: bytes) -> None:
    try:
        for header, position in batches(data):
            assert position + header.size_in_bytes <= len(data)
    except DecodeError:
        pass
