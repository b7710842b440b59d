"""Delete segments by retention.ms, retention.bytes and DeleteRecords (Kafka: UnifiedLog.deleteOldSegments)."""

import logging
from typing import TYPE_CHECKING, Final

from groupsdk.broker.log.segment import Segment


if TYPE_CHECKING:
    from groupsdk.broker.log.partition_log import PartitionLog


logger = logging.getLogger(__name__)
_UNLIMITED: Final = -1


def enforce(log: "PartitionLog", now_ms: int) -> int:
    """Delete whole segments from the start of a log. Return how many were deleted.

    A segment's age counts from its latest timestamp. The last segment is deleted only by age; a new one is rolled
    first. Of logs without the policy "delete" only segments before the start of the log are deleted: such a one is
    left where records were deleted up to the end of the last segment, and another segment followed.
    """
    count = _before_start(log)
    if log.config.delete:
        count = max(count, _too_old(log, now_ms), _too_much(log))
    if not count:
        return 0
    if count == len(log.segments):
        log.roll(now_ms)
    offset = log.bases[count]
    logger.info(
        "%s: deleting %d segments before offset %d (retention.ms=%d, retention.bytes=%d)",
        log.directory,
        count,
        offset,
        log.config.retention_ms,
        log.config.retention_bytes,
    )
    log.advance_start(offset)
    return count


def _before_start(log: "PartitionLog") -> int:
    return sum(base <= log.log_start_offset for base in log.bases[1:])


def _latest(segment: Segment) -> int:
    # records without timestamps are as old as their segment
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms


def _too_old(log: "PartitionLog", now_ms: int) -> int:
    limit = log.config.retention_ms
    if limit == _UNLIMITED:
        return 0
    count = 0
    for segment in log.segments:
        if now_ms - _latest(segment) <= limit or (segment is log.segments[-1] and not segment.size):
            break
        count += 1
    return count


def _too_much(log: "PartitionLog") -> int:
    limit = log.config.retention_bytes
    if limit == _UNLIMITED:
        return 0
    surplus = log.size - limit
    count = 0
    for segment in log.segments[:-1]:
        surplus -= segment.size
        if surplus < 0:
            break
        count += 1
    return count
