"""Leader epochs are remembered with their first offsets."""

import pytest

from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.leader_epochs import LeaderEpochs


def made(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(MemoryFiles(), "d")
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
    return epochs


def test_the_file_is_kafkas_and_read_again() -> None:
    files = MemoryFiles()
    epochs = LeaderEpochs(files, "d")
    epochs.load()
    assert epochs.latest == -1
    epochs.assign(0, 0)
    epochs.assign(3, 10)
    epochs.assign(3, 15)
    epochs.assign(-1, 20)
    assert files.read("d/leader-epoch-checkpoint", 0, 99) == b"0\n2\n0 0\n3 10\n"
    again = LeaderEpochs(files, "d")
    again.load()
    assert again.entries == epochs.entries == [(0, 0), (3, 10)]
    files.write("d/leader-epoch-checkpoint", 4, b"x")
    damaged = LeaderEpochs(files, "d")
    damaged.load()
    assert damaged.entries == []


def test_the_end_of_an_epoch_is_found() -> None:
    epochs = made((1, 0), (3, 10), (5, 20))
    assert [epochs.end_offset(each, 30) for each in (-1, 0, 1, 2, 3, 4, 5, 6)] == [
        (-1, -1),
        (0, 0),
        (1, 10),
        (1, 10),
        (3, 20),
        (3, 20),
        (5, 30),
        (-1, -1),
    ]
    assert made().end_offset(0, 30) == (-1, -1)
    assert [epochs.epoch_at(each) for each in (0, 9, 10, 99)] == [1, 1, 3, 5]
    assert made((1, 5)).epoch_at(4) == -1
    assert epochs.agree(1, 3)
    assert epochs.agree(-1, 3)
    assert not epochs.agree(3, 3)


def test_epochs_are_cut_at_both_ends() -> None:
    epochs = made((1, 0), (3, 10), (5, 20))
    epochs.truncate_end(20)
    assert epochs.entries == [(1, 0), (3, 10)]
    epochs.truncate_start(5)
    assert epochs.entries == [(1, 5), (3, 10)]
    epochs.truncate_start(12)
    assert epochs.entries == [(3, 12)]
    epochs.truncate_start(3)
    assert epochs.entries == [(3, 12)]
    epochs.clear()
    assert epochs.latest == -1


def test_leader_epoch_of_the_log_is_noted_once() -> None:
    epochs = made((1, 5), (3, 10))
    assert not epochs.note(0, 0)
    assert not epochs.note(3, 12)
    assert epochs.note(4, 12)
    assert epochs.entries == [(1, 5), (3, 10), (4, 12)]


def test_an_epoch_that_cannot_be_written_is_not_known() -> None:
    files = MemoryFiles()
    epochs = LeaderEpochs(files, "d")
    epochs.assign(0, 0)
    files.capacity_bytes = 0
    with pytest.raises(StorageError, match="No space left"):
        epochs.assign(1, 5)
    assert epochs.entries == [(0, 0)]
