"""Find records of a log by their time (Kafka: ListOffsets)."""

from collections.abc import Sequence
from typing import NamedTuple

from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.broker.log.scan import Stored, corrupt
from groupsdk.broker.log.segment import Segment
from groupsdk.errors import DecodeError
from groupsdk.wire.records.record import Record, read_records


class OffsetAndTimestamp(NamedTuple):
    """Where a record is."""

    offset: int
    timestamp: int
    """Milliseconds; -1 where no record was asked for, but an end of the log."""
    leader_epoch: int
    """Of the leader that wrote it; -1: not known."""


def offset_for_timestamp(
    segments: Sequence[Segment], epochs: LeaderEpochs, timestamp: int, start_offset: int
) -> OffsetAndTimestamp | None:
    """Find the first record with this timestamp or a later one; None where there is none.

    Args:
        segments: the log's.
        epochs: the log's.
        timestamp: in milliseconds.
        start_offset: where the log starts.

    Raises:
        CorruptLogError: a batch on the way is damaged.
        StorageError: the disk failed.
    """
    for segment in segments:
        if segment.max_timestamp < timestamp or segment.end_offset <= start_offset:
            continue
        start = max(segment.time_index.lookup(timestamp), start_offset)
        for stored in segment.scan(segment.locate(start)[0], epochs):
            if stored.header.max_timestamp < timestamp:
                continue
            for record in _records(segment, stored):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return _found(record, stored)
    return None


def max_timestamp(
    segments: Sequence[Segment], epochs: LeaderEpochs, start_offset: int
) -> OffsetAndTimestamp | None:
    """Find the first record with the latest timestamp of all; None in an empty log (KIP-734).

    Raises:
        CorruptLogError: a batch on the way is damaged.
        StorageError: the disk failed.
    """
    with_records = [each for each in segments if each.size and each.max_timestamp >= 0]
    if not with_records:
        return None
    latest = max(with_records, key=lambda each: each.max_timestamp).max_timestamp
    return offset_for_timestamp(segments, epochs, latest, start_offset)


def _records(segment: Segment, stored: Stored) -> list[Record]:
    try:
        return list(read_records(stored.data, stored.at))
    except DecodeError as error:
        raise corrupt(segment.path, stored.position, error) from error


def _found(record: Record, stored: Stored) -> OffsetAndTimestamp:
    return OffsetAndTimestamp(record.offset, record.timestamp, stored.header.partition_leader_epoch)
