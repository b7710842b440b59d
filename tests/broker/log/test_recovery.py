"""Crashes at every write, full disks, and flipped bits: what was acknowledged stays, nothing false is served."""

import logging
from collections.abc import Iterator

import pytest
from typing_extensions import override

from groupsdk.broker.log.errors import CorruptLogError, OffsetOutOfRangeError, StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import Record, read_records
from tests.broker.log.logs import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    Countdown,
    PowerLossError,
    batch,
    failing,
    log_files,
    open_log,
    pairs,
    read_all,
    reopen_clean,
)


DURABLE = LogConfig(segment_bytes=400, index_interval_bytes=100, flush_messages=1)


class Tearing(MemoryFiles):
    """Writes a part of what it is given before the power goes."""

    def __init__(self, calls: int, part: int) -> None:
        super().__init__()
        self.countdown = Countdown(calls)
        self.before = self.countdown
        self.part = part

    @override
    def write(self, path: str, position: int, data: bytes | bytearray | memoryview) -> None:
        """Tears the last write."""
        if self.countdown.left == 0 and path.endswith(".log"):
            self.before = None
            super().write(path, position, data[: self.part])
            raise PowerLossError(path)
        super().write(path, position, data)


def steps(log: PartitionLog) -> Iterator[tuple[int, bytes]]:
    """Appends in all ways; gives what is acknowledged."""
    for number in range(4):
        info = log.append(
            batch(b"a%d" % number, b"b%d" % number), now_ms=NOW_MS, leader_epoch=number // 2
        )
        yield info.base_offset, b"a%d" % number
        yield info.last_offset, b"b%d" % number
        value = b"t%d" % number
        yield log.append_records([(b"k", value)], NOW_MS, 9, 0, number // 2), value
        log.append_marker(
            *(9, 0),
            committed=number % 2 == 0,
            coordinator_epoch=0,
            now_ms=NOW_MS,
            leader_epoch=number // 2,
        )


def collect(source: Iterator[tuple[int, bytes]], into: list[tuple[int, bytes]]) -> None:
    """Adds what comes, one by one: what came before an error stays."""
    while (each := next(source, None)) is not None:
        into.append(each)


def check_after_crash(files: MemoryFiles, acknowledged: list[tuple[int, bytes]]) -> None:
    """Opens a log after a crash: all that was acknowledged is there, at most one append more."""
    log = open_log(files, DURABLE)
    found = pairs(read_all(log))
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 2
    assert log.last_stable_offset in (log.log_end_offset, log.producers.first_open_offset)
    info = log.append(batch(b"after"), now_ms=NOW_MS, leader_epoch=7)
    again = open_log(files, DURABLE)
    assert pairs(read_all(again)) == [*found, (info.base_offset, b"after")]
    assert again.aborted_transactions(0, 1000) == log.aborted_transactions(0, 1000)


@pytest.mark.parametrize("torn", [0, 1, 40, 1000])
def test_a_crash_at_any_call_loses_nothing_acknowledged(torn: int) -> None:
    # Invariants 13 and 17.
    for calls in range(1000):
        countdown = Countdown(calls)
        files = MemoryFiles(before=countdown)
        acknowledged: list[tuple[int, bytes]] = []
        try:
            collect(steps(open_log(files, DURABLE)), acknowledged)
        except PowerLossError:
            files.before = None
            files.crash(torn)
            check_after_crash(files, acknowledged)
        else:
            assert calls > 30
            return
    pytest.fail("the steps never came to an end")


@pytest.mark.parametrize("part", [1, 11, 12, 30, 61, 70])
def test_a_torn_write_is_cut_off_and_said(part: int, caplog: pytest.LogCaptureFixture) -> None:
    said = 0
    for calls in range(200):
        files = Tearing(calls, part)
        acknowledged: list[tuple[int, bytes]] = []
        try:
            collect(steps(open_log(files)), acknowledged)
        except PowerLossError:
            files.before = None
            files.countdown.left = -1
            files.kill()
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                check_after_crash(files, acknowledged)
            said += any(
                "incomplete tail" in record.message and ".log: at byte" in record.message
                for record in caplog.records
            )
        else:
            break
    assert said >= 10


def test_death_without_loss_of_power_loses_nothing_at_all() -> None:
    files = MemoryFiles()
    acknowledged = list(steps(open_log(files)))
    files.kill()
    log = open_log(files)
    assert pairs(read_all(log)) == acknowledged
    assert log.epochs.entries == [(0, 0), (1, 8)]


def test_a_full_disk_refuses_appends_and_goes_on_when_there_is_room() -> None:
    plain = MemoryFiles()
    list(steps(open_log(plain, DURABLE)))
    # index files are not written when there is no room, and the append goes on without them
    needed = sum(plain.size(path) for path in log_files(plain))
    for capacity in range(needed):
        files = MemoryFiles(capacity_bytes=capacity)
        log = open_log(files, DURABLE)
        acknowledged: list[tuple[int, bytes]] = []
        with pytest.raises(StorageError, match=f"{DIRECTORY}.*No space left on device") as raised:
            collect(steps(log), acknowledged)
        assert raised.value.retriable
        end = log.log_end_offset
        assert pairs(read_all(log)) == acknowledged
        files.capacity_bytes = None
        log.append(batch(b"room"), now_ms=NOW_MS, leader_epoch=7)
        assert pairs(read_all(log)) == [*acknowledged, (end, b"room")]
        assert pairs(read_all(open_log(files, DURABLE))) == [*acknowledged, (end, b"room")]


@pytest.mark.parametrize("call", ["sync", "truncate"])
def test_a_disk_that_fails_to_sync_or_cut_leaves_the_log_as_it_was(call: str) -> None:
    files = MemoryFiles()
    log = open_log(files, DURABLE)
    log.append(batch(b"a"), now_ms=NOW_MS)
    files.before = failing("sync", call, ending=".log")
    with pytest.raises(StorageError, match="Input/output error"):
        log.append(batch(b"lost and longer"), now_ms=NOW_MS)
    assert pairs(read_all(log)) == [(0, b"a")]
    files.before = None
    log.append(batch(b"b"), now_ms=NOW_MS)
    assert pairs(read_all(log)) == [(0, b"a"), (1, b"b")]
    assert pairs(read_all(open_log(files, DURABLE))) == [(0, b"a"), (1, b"b")]


def served(log: PartitionLog, offset: int) -> list[tuple[int, Record]]:
    """Gives what one read serves: records from the offset on, with their leader epochs."""
    data = log.read(offset, 500).data
    return [
        (header.partition_leader_epoch, record)
        for header, position in batches(data)
        for record in read_records(data, position)
        if record.offset >= offset
    ]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_no_flipped_bit_is_ever_served(clean: bool, bit: int) -> None:
    # Invariant 19.
    files = MemoryFiles()
    log = open_log(files, SMALL)
    for number in range(12):
        values = [b"value %d" % number] * (1 + number % 3)
        log.append(batch(*values), now_ms=NOW_MS, leader_epoch=number // 5)
    log.close()
    end, truth = log.log_end_offset, {}
    for offset in range(end):
        epoch, record = served(log, offset)[0]
        truth[record.offset] = (epoch, record)
    assert sorted(truth) == list(range(end))
    assert len(log.segments) == 2

    reported = 0
    for name in files.names(DIRECTORY):
        path = f"{DIRECTORY}/{name}"
        original = files.read(path, 0, 10_000)
        for position in range(len(original)):
            damaged = MemoryFiles()
            for each in files.names(DIRECTORY):
                each_path = f"{DIRECTORY}/{each}"
                damaged.write(each_path, 0, files.read(each_path, 0, 10_000))
            damaged.write(path, position, bytes([original[position] ^ bit]))
            reported += check_damaged(damaged, truth, name, clean=clean, end=end)
    assert reported > 100


def check_damaged(
    files: MemoryFiles,
    truth: dict[int, tuple[int, Record]],
    name: str,
    *,
    clean: bool,
    end: int,
) -> int:
    """Reads every offset of a damaged log; returns how many were refused."""
    log = open_log(files, SMALL, clean=clean, recovery_point=end if clean else 0)
    if not name.endswith(".log"):
        assert log.log_end_offset == end
    refused = 0
    for offset in range(end):
        try:
            found = served(log, offset)
        except CorruptLogError as error:
            if not (name.endswith(".log") or name == "leader-epoch-checkpoint"):
                raise
            refused += ".log: at byte" in str(error)
        except OffsetOutOfRangeError:
            assert name.endswith(".log")
            assert not clean
            refused += 1
        else:
            first = found[0][1].offset if found else offset
            for each in found:
                assert each == truth[each[1].offset]
            assert first == offset
    return refused


def test_the_end_that_was_noted_decides_after_a_clean_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    log = open_log(files)
    for value in (b"a", b"b"):
        log.append(batch(value), now_ms=NOW_MS)
    log.close()
    (path,) = log_files(files)
    # the base offset of the last batch is covered by no checksum
    size = files.size(path) // 2
    files.write(path, size, (5).to_bytes(8))
    files.remove(path.replace(".log", ".index"))

    with caplog.at_level(logging.WARNING):
        log = open_log(files, clean=True, recovery_point=2)
    assert log.log_end_offset in (2, 6)


def test_damage_before_the_last_segment_is_kept_and_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    first = log.segments[0]
    files.write(first.path, first.size // 2, b"\xff\xff\xff")

    with caplog.at_level(logging.WARNING):
        again = open_log(files)
    assert "the corrupt batch will not be served" in caplog.text
    assert first.path in caplog.text
    assert again.log_end_offset == 20
    with pytest.raises(CorruptLogError, match="at byte"):
        read_all(again)
    behind = again.bases[1]
    assert pairs(read_all(again_from(again, behind)))[0] == (behind, b"%d" % behind)


def again_from(log: PartitionLog, offset: int) -> PartitionLog:
    """Lets a log start later."""
    log.delete_records(offset)
    return log


def test_a_log_that_ends_before_its_start_is_begun_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append(batch(b"a"), now_ms=NOW_MS)
    with caplog.at_level(logging.WARNING):
        log = open_log(files, log_start_offset=10)
    assert "before its start at 10" in caplog.text
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.append(batch(b"b"), now_ms=NOW_MS).base_offset == 10


def test_stray_files_are_removed_by_recovery(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append(batch(b"a"), now_ms=NOW_MS)
    stray = f"{DIRECTORY}/00000000000000000777.index"
    files.write(stray, 0, b"x")
    files.write(f"{DIRECTORY}/00000000000000000777.snapshot", 0, b"x")
    files.write(f"{DIRECTORY}/00000000000000000000.log.deleted", 0, b"x")
    with caplog.at_level(logging.WARNING):
        open_log(files)
    assert f"{stray}: removing an index that belongs to no segment" in caplog.text
    assert not any("777" in name or "deleted" in name for name in files.names(DIRECTORY))


def test_producers_and_transactions_are_known_again() -> None:
    log = open_log()
    for number in range(6):
        log.append(batch(b"%d" % number, producer=(3, 1), sequence=number), now_ms=NOW_MS)
    log.append(batch(b"x", producer=(4, 0), sequence=0, transactional=True), now_ms=NOW_MS)
    for again in (open_log(log.files), reopen_clean(log)):
        assert again.last_stable_offset == 6
        assert again.append(batch(b"5", producer=(3, 1), sequence=5), now_ms=NOW_MS).duplicate
        entry = again.producers.entries[3]
        assert (entry.epoch, entry.last_sequence, entry.last_offset) == (1, 5, 5)
