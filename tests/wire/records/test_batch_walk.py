"""Segments with damaged places: reading goes on behind each of them, and says what is missing, in bounded work."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.history.read.batches import read_segment
from groupsdk.wire.records import batch_walk
from groupsdk.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer, verify
from groupsdk.wire.records.batch_walk import Unread
from groupsdk.wire.records.record import Record, build_batch
from tests.history.made_logs import batch_starts
from tests.history.read.test_segments import log, offsets


FIELDS = {
    "base offset": slice(0, 8),
    "length": slice(8, 12),
    "leader epoch": slice(12, 16),
    "magic": slice(16, 17),
    "checksum": slice(17, 21),
    "attributes": slice(21, 23),
    "last offset delta": slice(23, 27),
    "base timestamp": slice(27, 35),
    "max timestamp": slice(35, 43),
    "producer id": slice(43, 51),
    "producer epoch": slice(51, 53),
    "base sequence": slice(53, 57),
    "records count": slice(57, 61),
}


def places(data: bytes, **options: int) -> tuple[list[int], list[tuple[int, str]]]:
    """Read a file: the offsets of its records, and where it is damaged and how, in the file's order."""
    found: list[int] = []
    damaged: list[tuple[int, str]] = []
    for each in read_segment(io.BytesIO(data), **options):
        if isinstance(each, Unread):
            damaged.append((each.position, each.reason))
        else:
            found += each.records.offsets.tolist()
            damaged += [(each.position + bad.position, bad.reason) for bad in each.records.bad]
    return found, sorted(damaged)


def overwritten(data: bytes, start: int, new: bytes) -> bytes:
    """Return the bytes with some of them replaced."""
    return data[:start] + new + data[start + len(new) :]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("damaged", [0, 1, 3])
def test_a_damaged_header_costs_no_other_batch(field: str, damaged: int) -> None:
    parts = log(5)
    start = sum(map(len, parts[:damaged]))
    every = list(range(10))
    others = [each for each in every if each // 2 != damaged]
    where = FIELDS[field]
    for index in range(where.start, where.stop):
        for bit in range(8):
            data = bytearray(b"".join(parts))
            data[start + index] ^= 1 << bit
            found, rejects = places(bytes(data))
            if field == "leader epoch":
                assert (found, rejects) == (every, [])  # nothing tells
            else:
                assert found == others, (index, bit)
                assert [position for position, _ in rejects] == [start], (index, bit)


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (struct.pack(">i", 2**31 - 1), "its length is damaged"),
        (struct.pack(">i", 200), "no batch follows it: its length may be damaged"),
        (struct.pack(">i", -5), "the length -5"),
        (struct.pack(">i", 900), "are left in the file: its length is damaged"),
    ],
)
def test_a_damaged_length_names_the_stretch_and_its_offsets(new: bytes, reason: str) -> None:
    parts = log(5)
    start, end = len(parts[0]), len(parts[0] + parts[1])
    found, (unread,) = offsets(overwritten(b"".join(parts), start + 8, new))
    assert found == [0, 1, 4, 5, 6, 7, 8, 9]
    assert (unread.position, unread.size) == (start, end - start)
    assert (unread.first_offset, unread.lost) == (2, 2)
    assert reason in unread.reason
    assert f"bytes {start} to {end - 1} hold no batch" in unread.reason
    assert unread.reason.endswith("the offsets 2 to 3 are missing")


def test_a_stretch_of_zeros_is_called_that() -> None:
    parts = log(6)
    start, end = len(parts[0]), sum(map(len, parts[:3]))
    found, (unread,) = offsets(overwritten(b"".join(parts), start, bytes(end - start)))
    assert found == [0, 1, 6, 7, 8, 9, 10, 11]
    assert f"{end - start} zero bytes; the offsets 2 to 5 are missing" in unread.reason
    # that begin within a batch, and end within another
    found, (unread,) = offsets(overwritten(b"".join(parts), start + 20, bytes(end - start)))
    assert found == [0, 1, 8, 9, 10, 11]
    assert unread.lost == 6


def test_two_damaged_places_are_two_rejects() -> None:
    parts = log(9)
    data = b"".join(parts)
    sizes = [sum(map(len, parts[:n])) for n in range(9)]
    data = overwritten(data, sizes[2] + 16, b"\0")
    data = overwritten(data, sizes[6] + 8, b"\xff")
    found, unread = offsets(data)
    assert found == [n for n in range(18) if n // 2 not in (2, 6)]
    assert [(each.position, each.lost) for each in unread] == [(sizes[2], 2), (sizes[6], 2)]
    assert "format 0" not in unread[0].reason


def test_a_piece_that_was_cut_out_is_named() -> None:
    parts = log(6)
    data = parts[0] + parts[1][:40] + parts[4][30:] + parts[5]
    found, (unread,) = offsets(data)
    assert found == [0, 1, 10, 11]
    assert (unread.position, unread.first_offset, unread.lost) == (len(parts[0]), 2, 8)


def test_messages_of_the_old_formats_are_called_that() -> None:
    body = struct.pack(">bbq", 1, 0, 1_000) + struct.pack(">i", -1) + struct.pack(">i", -1)
    old = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    later = build_batch([Record(7, 7, b"k", b"v")], 7)
    found, (unread,) = offsets(old * 3 + later)
    assert found == [7]
    assert "messages of the format 1, which Kafka wrote before 0.11" in unread.reason
    # a damaged one is not
    found, (unread,) = offsets(overwritten(old, 20, b"\x77") * 3 + later)
    assert found == [7]
    assert "1 where the message format 2 is due" in unread.reason


def test_an_offset_out_of_order_is_damaged_and_the_next_ones_are_not() -> None:
    parts = log(5)
    start = len(parts[0])
    for wrong in (-1, 0, 3, 9, 2**20, 2**62):
        data = overwritten(b"".join(parts), start, struct.pack(">q", wrong))
        found, ((position, reason),) = places(data)
        assert found == [0, 1, 4, 5, 6, 7, 8, 9]
        assert position == start
        assert f"the base offset {wrong} is damaged" in reason


def test_gaps_of_compaction_and_a_name_that_does_not_fit_are_no_damage() -> None:
    batches = [build_batch([Record(n, 0, b"k", b"v")], n) for n in (5, 900, 2**33, 2**33 + 1)]
    for first_offset in (0, 5, 10**15):
        assert places(b"".join(batches), first_offset=first_offset) == (
            [5, 900, 2**33, 2**33 + 1],
            [],
        )


@settings(deadline=None, max_examples=60)
@given(
    damage=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=150)), max_size=4),
    chunk_bytes=st.sampled_from([61, 500, 10**6]),
)
def test_undamaged_batches_are_read_whatever_stands_between(
    damage: list[tuple[float, bytes]], chunk_bytes: int
) -> None:
    parts = log(12)
    whole = data = b"".join(parts)
    for place, new in damage:
        data = overwritten(data, int(place * (len(whole) - len(new))), new)
    found, rejects = places(data, chunk_bytes=chunk_bytes)
    assert places(data) == (found, rejects)
    start = 0
    for number, part in enumerate(parts):
        is_whole = data[start : start + len(part)] == part
        if is_whole:
            assert {2 * number, 2 * number + 1} <= set(found)
        start += len(part)
    assert bool(rejects) or data[:8] != whole[:8] or len(found) == 24


def false_header(base_offset: int, size: int) -> bytes:
    """Write the header of a batch that is not there."""
    return struct.pack(">qiibIhiqqqhii", base_offset, size - 12, 0, 2, 1, 0, 1, 0, 0, -1, -1, -1, 1)


@pytest.mark.parametrize("between", [0, 1])
def test_false_headers_cost_work_in_proportion_to_the_file(
    between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is possible, and claims all that follows: to check each would take quadratic time."""
    checked = 0

    def count(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
        nonlocal checked
        checked += header.size_in_bytes
        verify(buffer, header, position)

    monkeypatch.setattr(batch_walk, "verify", count)
    batch = build_batch([Record(0, 0, b"k", b"v")], 0)
    number = 4000
    unit = HEADER_SIZE + between * len(batch)
    total = number * unit + len(batch)
    data = b"".join(
        false_header(n, total - n * unit) + between * build_batch([Record(n, 0, b"k", b"v")], n)
        for n in range(number)
    ) + build_batch([Record(number, 0, b"k", b"v")], number)
    found, _ = offsets(data, max_batch_bytes=total)
    assert found[-1:] == [number]
    assert len(found) == number * between + 1
    # that of all would be a thousand times the file
    assert checked <= 300 * total


def test_a_real_log_loses_nothing_but_the_damaged_batch() -> None:
    path = Path(__file__).parents[2] / "history" / "data" / "segments" / "__consumer_offsets-1"
    data = max(path.iterdir(), key=lambda each: each.stat().st_size).read_bytes()
    starts = batch_starts(data)
    whole, rejects = places(data)
    assert rejects == []
    for start, end in zip(starts[5:-1:7], starts[6::7], strict=False):
        first = int.from_bytes(data[start : start + 8])
        last = first + int.from_bytes(data[start + 23 : start + 27])
        found, rejects = places(overwritten(data, start + 9, b"\x55"))
        assert found == [each for each in whole if not first <= each <= last]
        assert [position for position, _ in rejects] == [start]
        assert str(end - 1) in rejects[0][1]
