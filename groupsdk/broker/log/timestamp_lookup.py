"""Find records of a log by timestamp (Kafka: UnifiedLog.fetchOffsetByTimestamp)."""

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple

from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.broker.log.scan import Stored, corrupt
from groupsdk.broker.log.segment import Segment
from groupsdk.errors import DecodeError
from groupsdk.wire.records.record import read_records


_STEP_RECORDS: Final = 2048
_STEP_BATCHES: Final = 256
"""After this many records, or batches that are not decompressed, other requests get their turn: some
milliseconds' work.
"""


class OffsetAndTimestamp(NamedTuple):
    """The result of an offset lookup."""

    offset: int
    """The offset of the record, or of the requested end of the log."""
    timestamp: int
    """Its timestamp in milliseconds; -1 for an end of the log."""
    leader_epoch: int
    """The epoch of the leader that wrote it; -1: unknown."""


Search = Generator[None, None, OffsetAndTimestamp | None]
"""A search in steps of some milliseconds that returns its result at the end; None: no such record."""


def offset_for_timestamp(
    segments: Sequence[Segment], epochs: LeaderEpochs, timestamp: int, start_offset: int
) -> Search:
    """Find the first record with this timestamp or a later one in the segments as they are now."""
    for segment in list(segments):
        if segment.max_timestamp < timestamp or segment.end_offset <= start_offset:
            continue
        start = max(segment.time_index.lookup(timestamp), start_offset)
        position = segment.locate(start)[0]
        for number, stored in enumerate(segment.scan(position, epochs), 1):
            if stored.header.max_timestamp >= timestamp:
                record = yield from _first_record(segment, stored, timestamp, start_offset)
                if record is not None:
                    return record
            if not number % _STEP_BATCHES:
                yield
    return None


def max_timestamp(segments: Sequence[Segment], epochs: LeaderEpochs, start_offset: int) -> Search:
    """Find the first record with the latest timestamp of all; None in an empty log (KIP-734)."""
    with_records = [segment for segment in segments if segment.size and segment.max_timestamp >= 0]
    if not with_records:
        return None
    latest = max(with_records, key=lambda each: each.max_timestamp).max_timestamp
    return (yield from offset_for_timestamp(segments, epochs, latest, start_offset))


def _first_record(segment: Segment, stored: Stored, timestamp: int, start_offset: int) -> Search:
    """Look into a batch, one record after the other: a few bytes may be decompressed to a million of them."""
    try:
        for number, record in enumerate(read_records(stored.data, stored.at), 1):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                epoch = stored.header.partition_leader_epoch
                return OffsetAndTimestamp(record.offset, record.timestamp, epoch)
            if not number % _STEP_RECORDS:
                yield
    except DecodeError as error:
        raise corrupt(segment.path, stored.position, error) from error
    return None
