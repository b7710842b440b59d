"""Compact a log: keep the last value of each key (Kafka: LogCleaner).

Offsets do not change. A tombstone stays for delete.retention.ms after it was first compacted, so that a
reader that started earlier still sees it; so does a transaction marker once no data of its transaction is left.
Records of aborted transactions are dropped. The last batch of a producer keeps its header, which has the
sequence number that the producer's next batch must follow.
"""

import hashlib
import heapq
import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from groupsdk.broker.log.indexes import AbortedTxn
from groupsdk.broker.log.scan import Stored, corrupt
from groupsdk.broker.log.segment import Segment
from groupsdk.broker.log.segment_replacement import CLEANED
from groupsdk.errors import DecodeError
from groupsdk.limits import MAX_INT32
from groupsdk.wire.records.batch import BatchHeader, read_header
from groupsdk.wire.records.control import Marker, read_marker
from groupsdk.wire.records.record import Record, build_batch, build_empty, read_records


if TYPE_CHECKING:
    from groupsdk.broker.log.partition_log import PartitionLog


logger = logging.getLogger(__name__)
MAX_KEYS: Final = 5_000_000
"""How many keys are held in memory; a log that has more is compacted in several runs."""
_STEP_BYTES: Final = 4 * 1024
_STEP_RECORDS: Final = 128
"""How much is done in one step: some 0.2 ms."""
_WRITE_BYTES: Final = 128 * 1024
_LONG_KEY: Final = 32


@dataclass(frozen=True, slots=True)
class Range:
    """The part of a log that can be compacted."""

    start: int
    """The first offset that has not been compacted yet."""
    stop: int
    """The end of the range, exclusive: the base offset of the first segment that must stay as it is."""


def cleanable_range(log: "PartitionLog", now_ms: int) -> Range:
    """Return the range that can be compacted, perhaps empty: no active segment, open transaction or young record."""
    start = log.cleaned_offset
    if not log.log_start_offset <= start <= log.log_end_offset:
        start = log.log_start_offset
    newest_ms = now_ms - log.config.min_compaction_lag_ms
    stable = log.last_stable_offset
    stop = log.bases[0]
    for number, segment in enumerate(log.segments[:-1]):
        following = log.bases[number + 1]
        too_new = log.config.min_compaction_lag_ms > 0 and segment.max_timestamp > newest_ms
        if following > stable or (following > start and too_new):
            break
        stop = following
    return Range(start, stop)


def is_due(log: "PartitionLog", now_ms: int) -> bool:
    """Return whether a log should be compacted now.

    It should when the uncompacted part exceeds min.cleanable.dirty.ratio of the log's bytes, or when the first
    record of that part is older than max.compaction.lag.ms. Logs without the policy "compact" never are.
    """
    if not log.config.compact:
        return False
    part = cleanable_range(log, now_ms)
    dirty = [
        segment
        for segment in log.segments
        if segment.size and part.start < segment.end_offset <= part.stop
    ]
    if not dirty:
        return False
    dirty_bytes = sum(each.size for each in dirty)
    clean_bytes = sum(segment.size for segment in log.segments if segment.end_offset <= part.start)
    first_ms = min(
        each.max_timestamp if each.first_timestamp is None else each.first_timestamp
        for each in dirty
    )
    return (
        dirty_bytes / (dirty_bytes + clean_bytes) > log.config.min_cleanable_dirty_ratio
        or now_ms - first_ms > log.config.max_compaction_lag_ms
    )


class CleanedTransactions:
    """Tracks which batches belong to aborted transactions, and which markers are no longer needed.

    Batches have to be given in the order of the log.
    """

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTxn]] = []
        self._committed: set[int] = set()
        # the open aborted transaction of each producer, and whether data of it was seen
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        self.kept: list[AbortedTxn] = []
        """Aborted transactions that still have data: the index of the compacted segment needs them."""

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions before their first batch; a second one of an open producer is ignored."""
        for transaction in transactions:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def discard_data(self, header: BatchHeader) -> bool:
        """Process a data batch. Return whether it was aborted and can be dropped."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (found[0], True)
        return True

    def discard_marker(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Process a control batch. Return whether it can be dropped, as no data of its transaction is left."""
        self._begin(header.last_offset)
        if marker is None:
            # only its header is left, or it does not end a transaction
            return header.records_count == 0
        producer_id = header.producer_id
        if marker.committed:
            if producer_id not in self._committed:
                return True
            self._committed.remove(producer_id)
            return False
        found = self._aborted.pop(producer_id, None)
        if found is None or not found[1]:
            return True
        self.kept.append(found[0])
        return False

    def _begin(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heapq.heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, (transaction, False))


class Cleaner:
    """Compacts one log once, in steps.

    Args:
        max_keys: how many keys are held in memory. A log with more is compacted up to the batch that reaches this
            number; later runs continue there.
    """

    def __init__(self, log: "PartitionLog", now_ms: int, *, max_keys: int = MAX_KEYS) -> None:
        self._log = log
        self._now_ms = now_ms
        self._max_keys = max_keys
        self._offsets: dict[bytes, int] = {}
        self._latest = -1
        self._stop = -1
        self._last_of_producer: dict[int, tuple[int, int]] = {}

    def run(self) -> Iterator[None]:
        """Compact, yielding after each step of some milliseconds.

        Appends, reads and retention may run between two steps. A segment that retention removed meanwhile ends the
        run. Raises CorruptLogError if a batch on the way is corrupt; segments that were replaced by then stay
        replaced.
        """
        part = cleanable_range(self._log, self._now_ms)
        if part.stop <= part.start:
            return
        self._stop = part.stop
        yield from self._map_offsets(part)
        end = self._latest + 1
        before = self._log.size
        transactions = CleanedTransactions()
        for group in self._groups([each for each in self._log.segments if each.base_offset < end]):
            if not all(segment in self._log.segments for segment in group):
                return  # retention deleted it meanwhile
            yield from self._clean(group, transactions)
        self._log.cleaned(max(end, self._log.cleaned_offset))
        logger.info(
            "%s: compacted up to offset %d: %d of %d bytes are left",
            self._log.directory,
            end,
            self._log.size,
            before,
        )

    def _map_offsets(self, part: Range) -> Iterator[None]:
        """Build the map from each key to its last offset."""
        transactions = CleanedTransactions()
        transactions.add_aborted(self._log.aborted_transactions(part.start, part.stop))
        for segment in self._dirty(part):
            done = 0
            for stored in segment.scan(segment.locate(part.start)[0], self._log.epochs):
                header = stored.header
                if header.is_control:
                    transactions.discard_marker(header, _marker(segment, stored))
                elif not transactions.discard_data(header):
                    yield from self._map_batch(_records(segment, stored), part.start)
                self._latest = max(self._latest, header.last_offset)
                if len(self._offsets) >= self._max_keys:
                    return
                done += header.size_in_bytes
                if done >= _STEP_BYTES:
                    done = 0
                    yield
            self._latest = max(self._latest, min(segment.end_offset, part.stop) - 1)

    def _map_batch(self, records: Iterator[Record], start: int) -> Iterator[None]:
        for number, record in enumerate(records, 1):
            if record.key is not None and record.offset >= start:
                self._offsets[_short(record.key)] = record.offset
            if not number % _STEP_RECORDS:
                yield

    def _dirty(self, part: Range) -> list[Segment]:
        return [
            segment
            for segment in self._log.segments
            if segment.end_offset > part.start and segment.base_offset < part.stop
        ]

    def _groups(self, segments: Sequence[Segment]) -> Iterator[list[Segment]]:
        """Group adjacent segments that fit into one."""
        group: list[Segment] = []
        size = 0
        for segment in segments:
            fits = size + segment.size <= self._log.config.segment_bytes
            if group and fits and segment.end_offset - group[0].base_offset <= MAX_INT32:
                group.append(segment)
                size += segment.size
                continue
            if group:
                yield group
            group, size = [segment], segment.size
        if group:
            yield group

    def _clean(self, group: list[Segment], transactions: CleanedTransactions) -> Iterator[None]:
        log = self._log
        self._last_of_producer = {
            entry.producer_id: (entry.last_offset, entry.epoch)
            for entry in log.producers.entries.values()
        }
        base = group[0].base_offset
        cleaned = Segment(log.files, log.directory, base, log.config, suffix=CLEANED)
        cleaned.files.remove()
        try:
            for segment in group:
                overlapping = log.aborted_transactions(segment.base_offset, segment.end_offset)
                transactions.add_aborted(overlapping)
                yield from self._copy(segment, cleaned, transactions)
            if not all(segment in log.segments for segment in group):
                return  # retention deleted it meanwhile
            for entry in transactions.kept:
                cleaned.txn_index.append(entry)
            transactions.kept.clear()
            cleaned.end_offset = group[-1].end_offset
            log.replace(cleaned, group)
        finally:
            if cleaned not in log.segments and cleaned.path.endswith(CLEANED):
                cleaned.files.remove()

    def _copy(
        self, source: Segment, target: Segment, transactions: CleanedTransactions
    ) -> Iterator[None]:
        kept = bytearray()
        headers: list[BatchHeader] = []
        done = 0
        for stored in source.scan(0, self._log.epochs):
            batch = yield from self._filtered(source, stored, transactions)
            if batch:
                kept += batch
                headers.append(read_header(batch))
            done += stored.header.size_in_bytes
            if len(kept) >= _WRITE_BYTES:
                _write(target, kept, headers)
            if done >= _STEP_BYTES:
                done = 0
                yield
                if source not in self._log.segments:
                    return
        _write(target, kept, headers)

    def _filtered(
        self, source: Segment, stored: Stored, transactions: CleanedTransactions
    ) -> Generator[None, None, bytes | None]:
        """Return the remaining part of a batch; None if nothing remains."""
        header = stored.header
        if header.is_control:
            may_go = transactions.discard_marker(header, _marker(source, stored))
            horizon = header.base_timestamp if header.has_delete_horizon else None
            drop = may_go and horizon is not None and horizon <= self._now_ms
            marks_horizon = may_go and horizon is None and header.records_count > 0
        else:
            drop = transactions.discard_data(header)
            marks_horizon = False
        kept: list[Record] = []
        for number, record in enumerate(() if drop else _records(source, stored), 1):
            if self._keeps(header, record):
                kept.append(record)
            if not number % _STEP_RECORDS:
                yield
        if not kept:
            return build_empty(header) if self._keeps_header(header) else None
        if not header.is_control and not header.has_delete_horizon:
            marks_horizon = any(record.value is None for record in kept)
        if len(kept) == header.records_count and not marks_horizon:
            return stored.batch
        return self._rebuilt(header, kept, marks_horizon)

    def _keeps(self, header: BatchHeader, record: Record) -> bool:
        if header.is_control or record.offset > self._latest:
            return True
        if record.key is None:
            return False
        if record.offset < self._offsets.get(_short(record.key), -1):
            return False
        return (
            record.value is not None
            or not header.has_delete_horizon
            or self._now_ms < header.base_timestamp
        )

    def _keeps_header(self, header: BatchHeader) -> bool:
        """Return whether an empty batch must be kept: the last one of its producer, or of the log."""
        if header.last_offset + 1 == self._stop:
            return True
        last_offset, epoch = self._last_of_producer.get(header.producer_id, (None, None))
        if header.producer_id < 0 or last_offset is None:
            return False
        if last_offset >= 0:
            return header.last_offset == last_offset
        return header.is_control and header.producer_epoch == epoch

    def _rebuilt(self, header: BatchHeader, kept: list[Record], marks_horizon: bool) -> bytes:
        horizon: int | None = None
        if marks_horizon:
            horizon = self._now_ms + self._log.config.delete_retention_ms
        elif header.has_delete_horizon:
            horizon = header.base_timestamp
        return build_batch(
            kept,
            header.base_offset,
            header.partition_leader_epoch,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            transactional=header.is_transactional,
            control=header.is_control,
            compression=header.compression,
            timestamp_type=header.timestamp_type,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp if header.timestamp_type else None,
            delete_horizon_ms=horizon,
        )


def _write(target: Segment, kept: bytearray, headers: list[BatchHeader]) -> None:
    if not kept:
        return
    target.files.append(kept, target.size)
    for header in headers:
        target.note(header, header.base_offset)
    kept.clear()
    headers.clear()


def _short(key: bytes) -> bytes:
    return key if len(key) < _LONG_KEY else hashlib.blake2b(key, digest_size=_LONG_KEY).digest()


def _marker(segment: Segment, stored: Stored) -> Marker | None:
    try:
        return read_marker(stored.data, stored.at)
    except DecodeError as error:
        raise corrupt(segment.path, stored.position, error) from error


def _records(segment: Segment, stored: Stored) -> Iterator[Record]:
    try:
        yield from read_records(stored.data, stored.at)
    except DecodeError as error:
        raise corrupt(segment.path, stored.position, error) from error
