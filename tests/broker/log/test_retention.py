"""Old segments go by time and size, whole ones from the start."""

import pytest

from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.log_manager import enforce_retention
from groupsdk.broker.settings.topic import LogConfig
from tests.broker.log.logs import NOW_MS, SMALL, batch, open_log


def filled(**settings: int) -> PartitionLog:
    log = open_log()
    for number in range(30):
        log.append(batch(b"x", timestamp=NOW_MS + number), now_ms=NOW_MS)
    log.config = LogConfig(
        segment_bytes=SMALL.segment_bytes,
        retention_ms=settings.get("retention_ms", -1),
        retention_bytes=settings.get("retention_bytes", -1),
        cleanup_policy=("delete",) if settings.get("delete", 1) else ("compact",),
    )
    return log


def test_segments_go_once_their_latest_record_is_too_old() -> None:
    log = filled(retention_ms=1_000)
    second = log.segments[1]
    assert enforce_retention(log, NOW_MS + 1_000) == 0
    assert enforce_retention(log, log.segments[0].max_timestamp + 1_001) == 1
    assert log.log_start_offset == second.base_offset
    assert log.segments[0] is second

    last = log.segments[-1]
    assert enforce_retention(log, NOW_MS + 10_000) == len(log.bases) + 2
    assert last not in log.segments
    assert (log.log_start_offset, log.log_end_offset, log.size) == (30, 30, 0)
    assert enforce_retention(log, NOW_MS + 10_000) == 0
    assert log.append(batch(b"y"), now_ms=NOW_MS).base_offset == 30


def test_segments_go_while_enough_is_left() -> None:
    log = filled()
    sizes = [segment.size for segment in log.segments]
    log = filled(retention_bytes=sum(sizes[1:]) + 1)
    assert enforce_retention(log, NOW_MS) == 0
    log = filled(retention_bytes=sum(sizes[1:]))
    assert enforce_retention(log, NOW_MS) == 1
    log = filled(retention_bytes=0)
    assert enforce_retention(log, NOW_MS) == len(sizes) - 1
    assert len(log.segments) == 1


@pytest.mark.parametrize("delete", [0, 1])
def test_a_segment_goes_that_was_the_last_when_its_records_were_deleted(delete: int) -> None:
    log = open_log()
    log.append(batch(b"x"), now_ms=NOW_MS)
    assert log.delete_records(1) == 1
    log.roll(NOW_MS)
    log.append(batch(b"y"), now_ms=NOW_MS)
    assert log.bases == [0, 1]
    log.config = filled(delete=delete).config

    assert enforce_retention(log, NOW_MS) == 1
    assert log.bases == [1]
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)
    assert enforce_retention(log, NOW_MS) == 0


def test_nothing_goes_without_the_policy_or_limits() -> None:
    assert enforce_retention(filled(), 2 * NOW_MS) == 0
    assert enforce_retention(filled(retention_ms=1, retention_bytes=1, delete=0), 2 * NOW_MS) == 0
    assert enforce_retention(open_log(), 2 * NOW_MS) == 0
