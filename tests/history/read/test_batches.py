"""Records found many batches at a time, held against the reader that goes one record at a time."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.errors import DecodeError
from groupsdk.history.read import batches as kernel
from groupsdk.history.read.batches import Records, read_batches
from groupsdk.history.read.commits import key_of, value_of
from groupsdk.wire.records.batch import CorruptBatchError, batches, crc32c, verify
from groupsdk.wire.records.record import Record, build_batch, read_records
from tests.history.sample import segment_files


Plain = tuple[int, int, bytes | None, bytes | None]


def rows(records: Records) -> list[Plain]:
    """Take the records out of their columns."""
    return [
        (int(offset), int(time), key_of(records, row), value_of(records, row))
        for row, (offset, time) in enumerate(zip(records.offsets, records.timestamps, strict=True))
    ]


def read(buffer: bytes) -> tuple[list[Plain], list[int]]:
    """Read a buffer with the kernel: its records, and where the bad batches stand."""
    found: list[Plain] = []
    bad: list[int] = []
    for records in read_batches(buffer, body_bytes=300):
        found += rows(records)
        bad += [each.position for each in records.bad]
    return found, bad


def expected(buffer: bytes) -> tuple[list[Plain], list[int]]:
    """Read a buffer one record at a time."""
    found: list[Plain] = []
    bad: list[int] = []
    for header, position in batches(buffer):
        try:
            verify(buffer, header, position)
            found += [record[:4] for record in read_records(buffer, position)]
        except DecodeError:
            bad.append(position)
    return found, bad


texts = st.one_of(st.none(), st.binary(max_size=200))
a_batch = st.builds(
    lambda records, compression, base, log_time: build_batch(
        [
            Record(base + 2 * index, time, key, value, headers)
            for index, (time, key, value, headers) in enumerate(records)
        ],
        base,
        compression=compression,
        timestamp_type=log_time,
        last_offset=base + 2 * len(records) + 3,
    ),
    st.lists(
        st.tuples(
            st.integers(0, 2**41),
            texts,
            texts,
            st.one_of(st.just(()), st.just((("trace", b"1"),))),
        ),
        max_size=12,
    ),
    st.integers(0, 4),
    st.integers(0, 2**40),
    st.integers(0, 1),
)


@settings(deadline=None)
@given(st.lists(a_batch, min_size=1, max_size=6))
def test_batches_read_together_equal_batches_read_one_by_one(parts: list[bytes]) -> None:
    buffer = b"".join(parts)
    assert read(buffer) == expected(buffer)


@settings(deadline=None, max_examples=300)
@given(st.lists(a_batch, min_size=1, max_size=4), st.data())
def test_damaged_records_with_a_right_checksum_are_told_apart_alike(
    parts: list[bytes], data: st.DataObject
) -> None:
    # Behind the checksum nothing guards the records: every byte may be anything.
    damaged = []
    for part in parts:
        changed = bytearray(part)
        if len(part) > 61:
            for _ in range(data.draw(st.integers(1, 3))):
                place = data.draw(st.integers(61, len(part) - 1))
                changed[place] = data.draw(st.integers(0, 255))
        changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
        damaged.append(bytes(changed))
    buffer = b"".join(damaged)
    assert read(buffer) == expected(buffer)


@settings(deadline=None)
@given(st.lists(a_batch, min_size=1, max_size=3), st.data())
def test_a_cut_buffer_gives_the_batches_that_are_whole(
    parts: list[bytes], data: st.DataObject
) -> None:
    buffer = b"".join(parts)
    cut = buffer[: data.draw(st.integers(0, len(buffer)))]
    assert read(cut) == expected(cut)


def test_a_flipped_bit_costs_its_batch_and_no_other() -> None:
    one = build_batch([Record(0, 5, b"a", b"b")])
    two = bytearray(build_batch([Record(1, 6, b"c", b"d")], 1))
    two[-2] ^= 1
    three = build_batch([Record(2, 7, b"e", b"f")], 2)
    found = list(read_batches(one + bytes(two) + three))
    assert [row for records in found for row in rows(records)] == [
        (0, 5, b"a", b"b"),
        (2, 7, b"e", b"f"),
    ]
    (bad,) = [each for records in found for each in records.bad]
    assert (bad.base_offset, bad.position, bad.records_count) == (1, len(one), 1)
    assert "has the checksum" in bad.reason


def test_the_number_of_records_is_believed_only_where_there_is_room_for_them() -> None:
    # A header may count two thousand million records in sixty bytes: no room is made for them.
    batch = bytearray(build_batch([Record(0, 5, b"a", b"b")]))
    batch[57:61] = struct.pack(">i", 2**31 - 1)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    (records,) = read_batches(bytes(batch))
    assert len(records) == 0
    assert "2147483647 records" in records.bad[0].reason


def test_bytes_behind_no_records_are_noticed() -> None:
    batch = bytearray(build_batch([], 7, last_offset=9) + b"left over")
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    (records,) = read_batches(bytes(batch))
    assert len(records) == 0
    assert len(records.bad) == 1
    with pytest.raises(CorruptBatchError):
        list(read_records(bytes(batch)))


@pytest.mark.parametrize("headers", [(), (("trace", b"1"),)])
@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        (27, 2**63 - 1, "timestamp 9223372036854775808, which does not fit 64 bits"),
        (27, -(2**63), "timestamp -9223372036854775809, which does not fit 64 bits"),
        (0, 2**63 - 2, "last offset, 9223372036854775808, does not fit 64 bits"),
    ],
)
def test_numbers_of_more_than_64_bits_cost_their_batch_and_no_other(
    headers: tuple[tuple[str, bytes], ...], field: int, value: int, problem: str
) -> None:
    times = (5, 4, 6)
    batch = bytearray(
        build_batch([Record(at, time, b"a", b"b", headers) for at, time in enumerate(times)])
    )
    batch[field : field + 8] = struct.pack(">q", value)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    following = build_batch([Record(2, 7, b"e", b"f")], 2)
    found = list(read_batches(bytes(batch) + following))
    assert [row for records in found for row in rows(records)] == [(2, 7, b"e", b"f")]
    (bad,) = [each for records in found for each in records.bad]
    assert problem in bad.reason


def test_batch_before_damaged_bytes_is_returned_first() -> None:
    one = build_batch([Record(0, 5, b"a", b"b")])
    found = read_batches(one + b"\xff" * 100)
    assert rows(next(found)) == [(0, 5, b"a", b"b")]
    with pytest.raises(DecodeError):
        next(found)


def test_the_columns_of_a_batch_stand_beside_each_of_its_records() -> None:
    data = build_batch(
        [Record(3, 5, b"a", b"b"), Record(4, 5, None, None)], 3, 6, 77, 2, transactional=True
    )
    control = build_batch([Record(5, 6, b"\0\0\0\1", b"")], 5, 6, 77, 2, control=True)
    (records,) = read_batches(data + control)
    assert records.leader_epochs.tolist() == [6, 6, 6]
    assert records.producer_ids.tolist() == [77, 77, 77]
    assert records.producer_epochs.tolist() == [2, 2, 2]
    assert records.is_transactional.tolist() == [True, True, False]
    assert records.is_control.tolist() == [False, False, True]
    assert records.key_types.tolist() == [-1, -1, 0]
    assert records.end == len(data + control)


def test_many_batches_are_gone_through_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "_walk", None)  # would be called for the last few
    monkeypatch.setattr(kernel, "_FEW", 0)
    parts = [
        build_batch([Record(10 * n + i, n, b"k", b"v" * i) for i in range(n % 7)], 10 * n)
        for n in range(100)
    ]
    buffer = b"".join(parts)
    assert read(buffer) == expected(buffer)


@pytest.mark.parametrize("path", segment_files(), ids=lambda path: path.name)
def test_the_sample_is_read_as_it_stands(path: Path) -> None:
    buffer = path.read_bytes()
    assert read(buffer) == expected(buffer)
    assert read(buffer)[0]
