"""Segments are rolled, flushed, removed and closed."""

import logging

import pytest

from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.settings.topic import LogConfig
from tests.broker.log.logs import DIRECTORY, NOW_MS, SMALL, batch, open_log, pairs, read_all


def test_a_roll_leaves_indexes_and_a_snapshot() -> None:
    log = open_log()
    log.append(batch(b"a"), now_ms=NOW_MS)
    assert log.files.names(DIRECTORY) == ["00000000000000000000.log", "leader-epoch-checkpoint"]
    log.roll(NOW_MS)
    assert log.files.names(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
    ]
    again = log.roll(NOW_MS)  # nothing to close
    assert log.segments[-1] is again
    assert log.bases == [0, 1]
    assert repr(log) == "PartitionLog(data/t-0, 0 to 1)"


def test_a_roll_on_a_full_disk_goes_on_without_indexes(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append(batch(b"a"), now_ms=NOW_MS)
    files.capacity_bytes = 0
    with caplog.at_level(logging.WARNING):
        log.roll(NOW_MS)
    assert "the next start will take longer" in caplog.text
    files.capacity_bytes = None
    log.append(batch(b"b"), now_ms=NOW_MS)
    assert pairs(read_all(open_log(files))) == [(0, b"a"), (1, b"b")]


def test_flushing_goes_by_count_and_by_time() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig(flush_messages=3, flush_ms=100))
    assert not log.flush_if_due(NOW_MS + 1_000)
    log.append(batch(b"a", b"b"), now_ms=NOW_MS)
    assert log.recovery_point == 0
    log.append(batch(b"c"), now_ms=NOW_MS)
    assert log.recovery_point == 3
    log.append(batch(b"d"), now_ms=NOW_MS)
    assert not log.flush_if_due(NOW_MS + 99)
    assert log.flush_if_due(NOW_MS + 100)
    assert log.recovery_point == 4
    log.append(batch(b"lost"), now_ms=NOW_MS)
    files.crash()
    assert pairs(read_all(open_log(files))) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]


def test_flushed_segments_are_not_read_again_by_recovery() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.flush()
    log.append(batch(b"last"), now_ms=NOW_MS)
    files.kill()
    # damage in what is known to be on the disk is found when it is read, not before
    files.write(log.segments[0].path, 61, b"\xff")
    again = open_log(files, recovery_point=log.recovery_point)
    assert again.log_end_offset == 31
    with pytest.raises(Exception, match="at byte 0"):
        again.read(0, 100)
    again.read(20, 100)


def test_a_flush_reaches_the_segments_before_too() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    files.kill()
    again = open_log(files, LogConfig(segment_bytes=600, flush_messages=1))
    assert again.recovery_point == 0
    again.append(batch(b"synced"), now_ms=NOW_MS)
    assert again.recovery_point == 21
    files.crash()
    assert len(read_all(open_log(files, recovery_point=21))) == 21


def test_new_settings_hold_from_the_next_append_on() -> None:
    log = open_log(config=LogConfig())
    log.append(batch(b"a"), now_ms=NOW_MS)
    log.config = LogConfig(segment_bytes=100)
    assert log.config.segment_bytes == 100
    log.append(batch(b"b"), now_ms=NOW_MS)
    assert log.bases == [0, 1]


def test_the_start_moves_forward_only_and_is_noted() -> None:
    noted: list[int] = []
    log = open_log()
    log._on_checkpoint = lambda: noted.append(log.log_start_offset)
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS, leader_epoch=number // 5)
    log.advance_start(12)
    log.advance_start(3)
    assert noted == [12]
    assert log.bases[0] <= 12
    assert log.epochs.entries == [(2, 12), (3, 15)]
    log.cleaned(15)
    assert (noted, log.cleaned_offset) == ([12, 12], 15)


def test_closing_on_a_full_disk_is_an_error() -> None:
    files = MemoryFiles()
    log = open_log(files, SMALL)
    log.append(batch(b"a"), now_ms=NOW_MS)
    files.capacity_bytes = 0
    with pytest.raises(StorageError):
        log.close()
    files.capacity_bytes = None
    assert pairs(read_all(open_log(files))) == [(0, b"a")]


def test_a_roll_flushes_so_that_no_later_segment_outlives_an_earlier_one() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append(batch(b"a", b"b"), now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.append(batch(b"lost"), now_ms=NOW_MS)
    assert log.recovery_point == 2
    files.crash()
    assert pairs(read_all(open_log(files))) == [(0, b"a"), (1, b"b")]
