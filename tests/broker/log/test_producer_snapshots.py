"""Snapshot files are found, newest first, and damaged ones are passed over."""

import logging

import pytest

from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.producer_snapshots import Snapshots
from groupsdk.broker.log.producer_state import ProducerEntry, ProducerState


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
