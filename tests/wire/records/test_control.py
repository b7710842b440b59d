"""Tests the markers that end transactions: Kafka's own bytes, and what is no marker."""

import struct

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.batch import CorruptBatchError, read_header, verify
from groupsdk.wire.records.control import Marker, build_marker, read_marker
from groupsdk.wire.records.record import Record, build_batch, build_empty
from tests.wire.records.vectors import COMMIT, TRANSACTIONAL


def test_a_commit_is_as_kafka_writes_it() -> None:
    written = build_marker(
        5, 1, committed=True, coordinator_epoch=4, timestamp_ms=1000, leader_epoch=0
    )

    assert written == COMMIT
    assert read_marker(COMMIT) == Marker(0, 5, 1, True, 4, 1000)
    assert read_marker(b"xx" + COMMIT, 2) == Marker(0, 5, 1, True, 4, 1000)


@given(
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**15 - 1),
    st.booleans(),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(0, 2**60),
)
def test_written_marker_is_read_back(
    producer_id: int, epoch: int, committed: bool, coordinator_epoch: int, offset: int
) -> None:
    batch = build_marker(
        producer_id,
        epoch,
        committed=committed,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=7,
        base_offset=offset,
    )

    header = read_header(batch)
    verify(batch, header)
    assert header.is_control
    assert header.is_transactional
    assert header.base_sequence == -1
    assert read_marker(batch) == Marker(offset, producer_id, epoch, committed, coordinator_epoch, 7)


def control(key: bytes | None, value: bytes | None) -> bytes:
    """Builds a control batch around any key and value."""
    return build_batch([Record(0, 1, key, value)], transactional=True, control=True)


@pytest.mark.parametrize("kind", [2, 3, 6, 99, -1])
def test_control_records_of_other_kinds_end_nothing(kind: int) -> None:
    assert read_marker(control(struct.pack(">hh", 0, kind), b"")) is None


def test_a_marker_that_was_compacted_away_ends_nothing() -> None:
    empty = build_empty(read_header(COMMIT))

    assert read_header(empty).is_control
    assert read_marker(empty) is None


def test_newer_versions_are_read_by_what_they_share_with_the_first() -> None:
    batch = control(struct.pack(">hhi", 1, 0, 77), struct.pack(">hii", 1, 6, 77))

    assert read_marker(batch) == Marker(0, -1, -1, False, 6, 1)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        (None, None, "at offset 0 is too short"),
        (b"\0\0\0", None, "at offset 0 is too short"),
        (b"\0\0\0\0", None, "at offset 0 is too short"),
        (b"\0\0\0\0", b"\0\0\0\0\0", "at offset 0 is too short"),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0", "has version -1"),
        (b"\0\0\0\0", b"\xff\xff\0\0\0\0", "has version -1"),
    ],
)
def test_a_control_record_that_is_wrong_is_refused(
    key: bytes | None, value: bytes | None, problem: str
) -> None:
    with pytest.raises(CorruptBatchError, match=problem):
        read_marker(control(key, value))


def test_a_batch_of_data_is_no_marker() -> None:
    with pytest.raises(DecodeError, match="base offset 10 is not a control batch"):
        read_marker(TRANSACTIONAL)


def test_an_epoch_that_does_not_fit_is_refused() -> None:
    with pytest.raises(EncodeError, match="the coordinator epoch 2147483648"):
        build_marker(1, 1, committed=True, coordinator_epoch=2**31, timestamp_ms=1)
    with pytest.raises(EncodeError, match="cannot be written"):
        build_marker(1, 2**15, committed=True, coordinator_epoch=1, timestamp_ms=1)
