"""Tests the snapshots of producers: which one is taken, and what is in its file."""

import logging

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.producer_snapshots import CorruptSnapshotError, Snapshots, decode, encode
from groupsdk.broker.log.producer_state import BatchMetadata, ProducerEntry, ProducerState


def test_the_newest_whole_one_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    snapshots = Snapshots(files, "d")
    state = ProducerState()
    for offset in (10, 20, 30):
        state.load(ProducerEntry(offset, 1, 1, 5, offset - 1))
        snapshots.take(state, offset)
    snapshots.take(ProducerState(), 25)  # older than the newest: nothing to say
    assert snapshots.offsets() == [10, 20, 30]
    assert files.names("d")[0] == "00000000000000000010.snapshot"

    files.write("d/00000000000000000030.snapshot", 20, b"\x7e")
    found = ProducerState()
    with caplog.at_level(logging.WARNING):
        assert Snapshots(files, "d").load(found, [10, 20, 30], 99) == 20
    assert "00000000000000000030.snapshot" in caplog.text
    assert set(found.entries) == {10, 20}
    assert found.first_open_offset == 9
    assert snapshots.offsets() == [10, 20]
    assert Snapshots(files, "d").load(ProducerState(), [10, 20], 19) == 10
    assert Snapshots(files, "d").load(ProducerState(), [10, 20], 9) is None


def test_one_that_was_removed_can_be_taken_again() -> None:
    snapshots = Snapshots(MemoryFiles(), "d")
    snapshots.take(ProducerState(), 5)
    snapshots.remove(5)
    assert snapshots.offsets() == []
    snapshots.take(ProducerState(), 5)
    assert snapshots.offsets() == [5]


def test_a_full_disk_leaves_no_half_of_one() -> None:
    files = MemoryFiles(capacity_bytes=3)
    with pytest.raises(StorageError, match="writing a producer snapshot failed"):
        Snapshots(files, "d").take(ProducerState(), 5)
    assert Snapshots(files, "d").offsets() == []


ENTRIES = (
    ProducerEntry(7, 3, 4, 1000, 20, (BatchMetadata(4, 10, 1, 900), BatchMetadata(5, 21, 0, 1000))),
    ProducerEntry(8, 0, -1, 5),
)


def values(entry: ProducerEntry) -> tuple[object, ...]:
    return (
        *(entry.producer_id, entry.epoch, entry.coordinator_epoch, entry.last_timestamp),
        *(entry.txn_first_offset, entry.batches[-1:]),
    )


def test_a_snapshot_keeps_the_last_batch_of_each_producer() -> None:
    data = encode(ENTRIES)
    assert data[:2] == b"\0\1"
    assert data[6:10] == b"\0\0\0\2"
    assert data[10:].hex() == (
        "0000000000000007"
        "0003"
        "00000005"
        "0000000000000015"
        "00000000"
        "00000000000003e8"
        "00000004"
        "0000000000000014"
        "0000000000000008"
        "0000"
        "ffffffff"
        "ffffffffffffffff"
        "00000000"
        "0000000000000005"
        "ffffffff"
        "ffffffffffffffff"
    )
    assert [values(each) for each in decode(data)] == [values(each) for each in ENTRIES]
    assert decode(encode(())) == []


def test_every_flipped_bit_is_found() -> None:
    data = encode(ENTRIES)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptSnapshotError):
                decode(bytes(damaged))


@given(st.binary(max_size=100))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshotError):
        decode(data)
