"""Segment files, read piece by piece: whole, torn, damaged, foreign and empty ones."""

import io
import struct

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.history.read.batches import Chunk, read_segment
from groupsdk.wire.records.batch_walk import Unread
from groupsdk.wire.records.record import Record, build_batch


def log(count: int, size: int = 20) -> list[bytes]:
    """Write batches of two records."""
    return [
        build_batch([Record(2 * n, n, b"k", b"v" * size), Record(2 * n + 1, n, b"k", None)], 2 * n)
        for n in range(count)
    ]


def offsets(data: bytes, **options: int) -> tuple[list[int], list[Unread]]:
    """Read a file: the offsets of its records, and what could not be read."""
    found: list[int] = []
    unread: list[Unread] = []
    for each in read_segment(io.BytesIO(data), **options):
        if isinstance(each, Chunk):
            found += each.records.offsets.tolist()
        else:
            unread.append(each)
    return found, unread


@pytest.mark.parametrize("chunk_bytes", [1, 61, 100, 1000, 10**6])
def test_the_size_of_the_pieces_changes_nothing(chunk_bytes: int) -> None:
    assert offsets(b"".join(log(20)), chunk_bytes=chunk_bytes) == (list(range(40)), [])


def test_a_file_that_ends_within_a_batch_is_read_up_to_it() -> None:
    parts = log(3)
    found, (torn,) = offsets(b"".join(parts)[:-1])
    assert found == [0, 1, 2, 3]
    assert torn.position == len(parts[0] + parts[1])
    assert torn.size == len(parts[2]) - 1
    assert "ends within a batch" in torn.reason


def test_zeros_at_the_end_are_room_that_was_made_in_advance() -> None:
    assert offsets(b"".join(log(2)) + bytes(500)) == ([0, 1, 2, 3], [])
    assert offsets(bytes(500)) == ([], [])
    assert offsets(b"") == ([], [])
    assert offsets(bytes(7)) == ([], [])


@pytest.mark.parametrize("foreign", [b"\x1f\x8b" + b"what is this" * 20, b"a\n" * 400])
def test_a_foreign_file_says_where_it_is_no_log(foreign: bytes) -> None:
    found, (unread,) = offsets(foreign)
    assert found == []
    assert unread.position == 0
    assert unread.reason


def test_a_damaged_length_is_never_believed() -> None:
    parts = log(3)
    damaged = bytearray(parts[1])
    damaged[8:12] = struct.pack(">i", 2**31 - 1)
    found, (unread,) = offsets(parts[0] + bytes(damaged) + parts[2], max_batch_bytes=10**6)
    assert found == [0, 1, 4, 5]
    assert unread.position == len(parts[0])
    assert "the limit of 1000000" in unread.reason


def test_a_negative_length_is_named() -> None:
    parts = log(2)
    damaged = bytearray(parts[1])
    damaged[8:12] = struct.pack(">i", -5)
    found, (unread,) = offsets(parts[0] + bytes(damaged))
    assert found == [0, 1]
    assert unread.position == len(parts[0])
    assert "-5" in unread.reason


def test_a_batch_that_is_longer_than_a_piece_is_read() -> None:
    parts = log(2, size=5000)
    assert offsets(b"".join(parts), chunk_bytes=64)[0] == [0, 1, 2, 3]


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(1, 200))
def test_any_bytes_among_batches_are_read_or_rejected(data: bytes, chunk_bytes: int) -> None:
    whole = b"".join(log(2))
    found, _ = offsets(whole + data, chunk_bytes=chunk_bytes, max_batch_bytes=10_000)
    assert found[:4] == [0, 1, 2, 3]
    offsets(data, chunk_bytes=chunk_bytes, max_batch_bytes=10_000)
