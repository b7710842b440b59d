"""Idempotent producers and transactions of one partition, rule by rule (transactions.md, section 10)."""

import pytest

from groupsdk.broker.log.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from groupsdk.broker.log.producer_state import BatchMetadata, Origin, ProducerState, Update
from groupsdk.limits import MAX_INT32
from groupsdk.wire.records.batch import BatchHeader, read_header
from groupsdk.wire.records.control import Marker
from tests.broker.log.logs import batch


def header(
    sequence: int, count: int = 1, epoch: int = 0, *, transactional: bool = False, pid: int = 7
) -> BatchHeader:
    """The header of a batch of a producer."""
    return read_header(
        batch(*[b""] * count, producer=(pid, epoch), sequence=sequence, transactional=transactional)
    )


def marker(
    epoch: int = 0, *, committed: bool = True, coordinator_epoch: int = 0, pid: int = 7
) -> Marker:
    """The end of a producer's transaction."""
    return Marker(0, pid, epoch, committed, coordinator_epoch, 5)


class Partition:
    """A state with the offset that comes next."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.offset = 0

    def append(self, *headers: BatchHeader, origin: Origin = Origin.CLIENT) -> None:
        update = Update(self.state, origin)
        offset = self.offset
        for each in headers:
            update.add(each, offset)
            offset = offset + each.last_offset_delta + 1
        self.state.commit(update)
        self.offset = offset

    def end(self, end: Marker, origin: Origin = Origin.COORDINATOR) -> list[tuple[int, ...]]:
        update = Update(self.state, origin)
        update.end(end, self.offset)
        self.offset += 1
        return [tuple(each) for each in self.state.commit(update)]


def test_the_last_five_batches_are_known_again() -> None:
    partition = Partition()
    for sequence in range(7):
        partition.append(header(sequence * 2, 2))
    state = partition.state
    known = state.duplicate_of(header(4, 2))
    assert known is not None
    assert (known.first_offset, known.last_offset) == (4, 5)
    assert state.duplicate_of(header(2, 2)) is None
    assert state.duplicate_of(header(4, 1)) is None
    assert state.duplicate_of(header(4, 2, epoch=1)) is None
    assert state.duplicate_of(header(4, 2, pid=8)) is None
    with pytest.raises(OutOfOrderSequenceError, match="sequence number 14, not 2"):
        partition.append(header(2, 2))


def test_numbers_follow_each_other_and_wrap() -> None:
    partition = Partition()
    partition.append(header(MAX_INT32 - 1, 3))  # any number where the producer is not known
    assert partition.state.entries[7].last_sequence == 0
    known = partition.state.duplicate_of(header(MAX_INT32 - 1, 3))
    assert known == BatchMetadata(0, 2, 2, 1_000_000)
    assert known.first_sequence == MAX_INT32 - 1
    with pytest.raises(OutOfOrderSequenceError, match="the sequence number 1, not 2"):
        partition.append(header(2))
    partition.append(header(1))
    other = Partition()
    other.append(header(MAX_INT32))
    other.append(header(0))


def test_a_new_epoch_starts_at_zero_and_an_old_one_is_refused() -> None:
    partition = Partition()
    partition.append(header(0, epoch=3))
    with pytest.raises(InvalidProducerEpochError, match="has the epoch 2, older than 3"):
        partition.append(header(1, epoch=2))
    with pytest.raises(OutOfOrderSequenceError, match="sequence number 0, not 1"):
        partition.append(header(1, epoch=4))
    partition.append(header(0, epoch=4))
    assert partition.state.duplicate_of(header(0, epoch=3)) is None
    assert len(partition.state.entries[7].batches) == 1


def test_a_refused_update_changes_nothing() -> None:
    partition = Partition()
    partition.append(header(0))
    before = partition.state.entries[7]
    with pytest.raises(OutOfOrderSequenceError):
        partition.append(header(1, transactional=True), header(5, transactional=True))
    assert partition.state.entries[7] is before
    assert partition.state.first_open_offset is None


def test_transactions_open_and_end() -> None:
    partition = Partition()
    partition.append(header(0))
    partition.append(header(1, transactional=True))
    partition.append(header(0, transactional=True, pid=8))
    state = partition.state
    assert state._open == {1: 7, 2: 8}
    with pytest.raises(InvalidTxnStateError, match="since offset 1"):
        partition.append(header(2))
    assert partition.end(marker(committed=False)) == [(7, 1, 3, 2)]
    assert state._open == {2: 8}
    assert partition.end(marker(pid=8)) == []
    assert state.first_open_offset is None
    # a marker without data makes no entry, and raises the epoch
    assert partition.end(marker(5, committed=False)) == []
    with pytest.raises(InvalidProducerEpochError):
        partition.append(header(2))
    with pytest.raises(OutOfOrderSequenceError):
        partition.append(header(2, epoch=5))
    partition.append(header(0, epoch=5))


def test_an_old_coordinator_is_fenced() -> None:
    partition = Partition()
    partition.end(marker(coordinator_epoch=4))
    with pytest.raises(TransactionCoordinatorFencedError, match="epoch 3, older than 4"):
        partition.end(marker(coordinator_epoch=3))
    with pytest.raises(InvalidProducerEpochError):
        partition.end(marker(-1, coordinator_epoch=4))


def test_replayed_batch_is_never_refused() -> None:
    partition = Partition()
    replay = Origin.REPLAY
    partition.append(header(5, epoch=4, transactional=True), origin=replay)
    partition.append(header(9, epoch=3), origin=replay)
    partition.end(marker(coordinator_epoch=4), origin=replay)
    partition.end(marker(coordinator_epoch=1), origin=replay)
    assert partition.state.entries[7].coordinator_epoch == 1


def test_silent_producers_expire() -> None:
    partition = Partition()
    partition.append(header(0))
    partition.append(header(0, pid=8, transactional=True))
    assert partition.state.expire(1_000_000 + 5, 6) == 0
    assert partition.state.expire(1_000_000 + 6, 6) == 1
    assert len(partition.state.entries) == 1
    partition.state.clear()
    assert not partition.state.entries
