"""The log of one partition: append, read, look up, retain and compact (Kafka: UnifiedLog)."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from groupsdk.broker.log import errors, segment_replacement, timestamp_lookup
from groupsdk.broker.log.cleaner import Cleaner
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.indexes import AbortedTxn
from groupsdk.broker.log.producer_state import Origin, Update
from groupsdk.broker.log.recovery import Recovered, Recovery
from groupsdk.broker.log.segment import Segment
from groupsdk.broker.log.timestamp_lookup import OffsetAndTimestamp, Search
from groupsdk.broker.log.validation import Checked, check
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.lazy_imports import override
from groupsdk.wire.records.batch import BatchHeader, Buffer, place, read_header
from groupsdk.wire.records.control import Marker, build_marker
from groupsdk.wire.records.record import build_pairs


logger = logging.getLogger(__name__)


class AppendInfo(NamedTuple):
    """The offsets assigned to appended batches, and the start of the log."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The time given to the records by LogAppendTime; -1: they keep their own."""
    log_start_offset: int
    duplicate: bool = False
    """Whether the batch was stored before; the offsets are those it has."""


class LogRead(NamedTuple):
    """The result of reading a log from an offset."""

    data: bytes
    """Batches as stored; the first may start before the offset, the last may be incomplete."""
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedTxn, ...] = ()
    """For reads of committed records, the aborted transactions that overlap the data."""


class PartitionLog:
    """The batches of one partition in segments on disk, its only replica.

    Appends are readable at once, and the high watermark is the end. Errors leave the log as it was: an append is
    stored completely or not at all. Create it by `open`. Not thread-safe: one thread calls it.
    """

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        files: Files,
        recovered: Recovered,
        *,
        recovery_point: int = 0,
        cleaned_offset: int = 0,
        on_checkpoint: Callable[[], None] | None = None,
    ) -> None:
        self.directory = directory
        self.files = files
        self._config = config
        self.segments = recovered.segments
        """Ascending; appends go to the last one. Not to be changed from outside."""
        self.bases = [segment.base_offset for segment in self.segments]
        """Their first offsets."""
        self.producers = recovered.producers
        self.epochs = recovered.epochs
        self.leader_epoch = recovered.epochs.latest
        """The newest leader epoch that wrote here; -1: none is known."""
        self.snapshots = recovered.snapshots
        self.log_start_offset = recovered.log_start_offset
        self.log_end_offset = max(self.segments[-1].end_offset, self.log_start_offset)
        self.recovery_point = min(recovery_point, self.log_end_offset)
        """Up to which offset everything is known to be on the disk."""
        self.cleaned_offset = cleaned_offset
        """Up to which offset compaction has been."""
        self._on_checkpoint = on_checkpoint
        self._unflushed_since_ms: int | None = None

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        now_ms: int,
        *,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_offset: int = 0,
        on_checkpoint: Callable[[], None] | None = None,
    ) -> "PartitionLog":
        """Open the log in a directory, or start one; nothing is created on disk before the first append.

        Args:
            on_checkpoint: called when the start of the log or `cleaned_offset` moved, to write the checkpoints.
        """
        recovered = Recovery(
            files,
            directory,
            config,
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        ).run()
        return cls(
            directory,
            config,
            files,
            recovered,
            recovery_point=recovery_point,
            cleaned_offset=cleaned_offset,
            on_checkpoint=on_checkpoint,
        )

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory}, {self.log_start_offset} to {self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """The topic's settings; new ones apply from the next call on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self.segments:
            segment.configure(config)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of an open transaction; the end of the log if there is none."""
        first = self.producers.first_open_offset
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    def write(
        self,
        data: Buffer,
        headers: Sequence[BatchHeader],
        bases: Sequence[int],
        update: Update | None,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """Write validated batches, stamped with their offsets, together with their producer update, atomically.

        Raises FencedLeaderEpochError if a newer leader has written to this log.
        """
        last = headers[-1]
        end = bases[-1] + last.last_offset_delta + 1
        timestamp = last.max_timestamp
        if len(headers) > 1:
            timestamp = max(header.max_timestamp for header in headers)
        segment = self.segments[-1]
        if segment.must_roll(len(data), end - 1, timestamp, now_ms):
            segment = self.roll(now_ms)
        if leader_epoch != self.leader_epoch:
            self._lead(leader_epoch)
        segment.files.append(data, segment.size)
        if end - self.recovery_point >= self._config.flush_messages:
            self._sync_written(segment, end)
        elif self._unflushed_since_ms is None:
            self._unflushed_since_ms = now_ms
        for header, base in zip(headers, bases, strict=True):
            segment.note(header, base)
        self.log_end_offset = end
        if update is not None:
            for aborted in self.producers.commit(update):
                segment.txn_index.append(aborted)

    def roll(self, now_ms: int) -> Segment:
        """Close the active segment. Return the new one (Kafka: UnifiedLog.roll, which flushes in the background).

        The closed one is flushed, as a power loss may otherwise leave a later segment without an earlier one.
        """
        end, active = self.log_end_offset, self.segments[-1]
        segment = Segment(self.files, self.directory, end, self._config, created_ms=now_ms)
        if not active.size:
            active.files.remove()
            self.segments[-1], self.bases[-1] = segment, end
            return segment
        self.flush()
        try:
            active.save_indexes()
            self.snapshots.take(self.producers, end)
        except errors.StorageError as error:
            # not an error: the next start rebuilds both from the segment
            logger.warning("%s; the next start will take longer", error)
        self.segments.append(segment)
        self.bases.append(end)
        return segment

    def advance_start(self, offset: int) -> None:
        """Move the start of the log up to an offset, never back, and remove the segments entirely before it."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.log_end_offset = max(self.log_end_offset, offset)
            self.epochs.truncate_start(offset)
            self._checkpoint()
        while len(self.segments) > 1 and self.bases[1] <= self.log_start_offset:
            segment = self.segments[0]
            segment.files.remove()
            self.snapshots.remove(segment.base_offset)
            del self.segments[0], self.bases[0]

    def replace(self, cleaned: Segment, replaced: Sequence[Segment]) -> None:
        """Replace adjacent segments, in ascending order, by the compacted one with the base offset of the first."""
        segment_replacement.replace(cleaned, replaced)
        first = self.segments.index(replaced[0])
        self.segments[first : first + len(replaced)] = [cleaned]
        self.bases = [segment.base_offset for segment in self.segments]
        for segment in replaced[1:]:
            self.snapshots.remove(segment.base_offset)

    def cleaned(self, offset: int) -> None:
        """Record the offset up to which the log is compacted."""
        self.cleaned_offset = offset
        self._checkpoint()

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap the offsets from `start` up to `end`, exclusive."""
        found: list[AbortedTxn] = []
        for segment in self.segments[max(bisect_right(self.bases, start) - 1, 0) :]:
            if segment.txn_index.collect(start, end, found):
                break
        return found

    def flush(self) -> None:
        """Sync everything that was appended to the disk."""
        self._flush_closed()
        self.segments[-1].sync()
        self.recovery_point = self.log_end_offset
        self._unflushed_since_ms = None

    def flush_if_due(self, now_ms: int) -> bool:
        """Flush if unsynced records are flush.ms old. Return whether it did."""
        since_ms = self._unflushed_since_ms
        if since_ms is None or now_ms - since_ms < self._config.flush_ms:
            return False
        self.flush()
        return True

    def close(self) -> None:
        """Flush, and write the state that saves the next start from scanning the log."""
        for segment in self.segments:
            segment.save_indexes()
        if self.log_end_offset > self.segments[0].base_offset:
            self.snapshots.take(self.producers, self.log_end_offset)
        self.flush()

    @property
    def high_watermark(self) -> int:
        """The high watermark: with one replica, the end of the log."""
        return self.log_end_offset

    def append(
        self,
        batches: Buffer,
        *,
        now_ms: int,
        leader_epoch: int = 0,
        first_sequence_zero: bool = False,
        checked: Checked | None = None,
    ) -> AppendInfo:
        """Append batches of a producer at the next offsets; those that `validation.checking` has passed are `checked`."""
        data, headers, append_time_ms = checked or check(batches, self._config, now_ms)
        for header in headers:
            known = self.producers.duplicate_of(header)
            if known is not None:
                return AppendInfo(
                    base_offset=known.first_offset,
                    last_offset=known.last_offset,
                    log_append_time_ms=known.timestamp,
                    log_start_offset=self.log_start_offset,
                    duplicate=True,
                )
        update = Update(self.producers, Origin.CLIENT, first_sequence_zero=first_sequence_zero)
        bases: list[int] = []
        offset, position = self.log_end_offset, 0
        for header in headers:
            if header.producer_id >= 0 and not header.is_control:
                update.add(header, offset)
            place(data, offset, leader_epoch, position)
            bases.append(offset)
            offset += header.last_offset_delta + 1
            position += header.size_in_bytes
        self.write(data, headers, bases, update, leader_epoch, now_ms)
        return AppendInfo(bases[0], offset - 1, append_time_ms, self.log_start_offset)

    def append_records(
        self,
        records: Sequence[tuple[bytes | None, bytes | None]],
        now_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
        leader_epoch: int = 0,
        compression: int = 0,
    ) -> int:
        """Append the records of a coordinator as one batch. Return the offset of the first."""
        if not records:
            raise errors.InvalidRecordError("there are no records to append")
        base, transactional = self.log_end_offset, producer_id >= 0
        header, data = build_pairs(
            records,
            now_ms,
            base,
            leader_epoch,
            producer_id,
            producer_epoch,
            transactional=transactional,
            compression=compression,
        )
        if len(data) > self._config.max_message_bytes:
            raise errors.MessageTooLargeError(
                f"a batch of {header.records_count} coordinator records is {len(data)} bytes, more than"
                f" max.message.bytes={self._config.max_message_bytes}"
            )
        update = None
        if transactional:
            update = Update(self.producers, Origin.COORDINATOR)
            update.add(header, base)
        self.write(data, (header,), (base,), update, leader_epoch, now_ms)
        return base

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        now_ms: int,
        leader_epoch: int = 0,
    ) -> AppendInfo:
        """Append a commit or abort marker, which ends the producer's transaction if one is open."""
        base = self.log_end_offset
        data = build_marker(
            producer_id,
            producer_epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
            base_offset=base,
            leader_epoch=leader_epoch,
        )
        update = Update(self.producers, Origin.COORDINATOR)
        marker = Marker(base, producer_id, producer_epoch, committed, coordinator_epoch, now_ms)
        update.end(marker, base)
        self.write(data, (read_header(data),), (base,), update, leader_epoch, now_ms)
        return AppendInfo(base, base, -1, self.log_start_offset)

    def read(
        self, offset: int, max_bytes: int, *, committed: bool = False, min_one: bool = True
    ) -> LogRead:
        """Read batches, starting with the one that contains an offset.

        Args:
            max_bytes: the most bytes to return; the last batch may be incomplete.
            committed: stop at the last stable offset, and return the aborted transactions.
            min_one: return the first batch completely even if it exceeds `max_bytes`.

        Raises:
            OffsetOutOfRangeError: the offset is before the start or after the end.
        """
        end, stable = self.log_end_offset, self.last_stable_offset
        if not self.log_start_offset <= offset <= end:
            raise errors.OffsetOutOfRangeError(
                f"{self.directory}: offset {offset} is out of range: the log has offsets {self.log_start_offset} to {end}"
            )
        limit = stable if committed else end
        data = b""
        aborted: tuple[AbortedTxn, ...] = ()
        number = max(bisect_right(self.bases, offset) - 1, 0)
        while offset < limit and number < len(self.segments):
            segment = self.segments[number]
            bound = limit if committed else None
            data, stop = segment.read(
                offset, max_bytes, limit_offset=bound, min_one=min_one, epochs=self.epochs
            )
            if data or stop < segment.size:
                if committed:
                    upper = min(segment.offset_index.offset_behind(stop) or end, limit)
                    aborted = tuple(self.aborted_transactions(offset, upper))
                break
            number += 1
        return LogRead(data, end, stable, self.log_start_offset, aborted)

    def earliest(self, leader_epoch: int) -> OffsetAndTimestamp:
        """Return the start of the log; in an empty log with the given epoch of the leader."""
        start = self.log_start_offset
        known = leader_epoch if start == self.log_end_offset else self.epochs.epoch_at(start)
        return OffsetAndTimestamp(start, -1, known)

    def latest(self, leader_epoch: int, *, committed: bool = False) -> OffsetAndTimestamp:
        """Return the end of the log, or the last stable offset if `committed`, with the newest leader epoch."""
        offset = self.last_stable_offset if committed else self.log_end_offset
        return OffsetAndTimestamp(offset, -1, max(leader_epoch, self.epochs.latest))

    def offset_for_timestamp(self, timestamp: int) -> Search:
        """Find the first record at or after a timestamp in milliseconds, in steps; None if there is none."""
        return timestamp_lookup.offset_for_timestamp(
            self.segments, self.epochs, timestamp, self.log_start_offset
        )

    def max_timestamp_offset(self) -> Search:
        """Find the first record with the latest timestamp of all, in steps; None in an empty log."""
        return timestamp_lookup.max_timestamp(self.segments, self.epochs, self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int, leader_epoch: int) -> tuple[int, int]:
        """Return the largest known epoch up to this one, and its end offset; (-1, -1) if unknown."""
        return self.epochs.end_offset(epoch, self.log_end_offset, leader_epoch)

    def delete_records(self, before: int) -> int:
        """Delete records before an offset. Return the start of the log, which never moves backwards.

        Args:
            before: the first offset to keep; -1: the high watermark.

        Raises:
            PolicyViolationError: the topic's cleanup.policy does not contain delete.
            OffsetOutOfRangeError: the offset is negative or behind the high watermark.
        """
        if not self.config.delete:
            raise errors.PolicyViolationError(
                f"{self.directory}: records cannot be deleted: cleanup.policy="
                f"{','.join(self.config.cleanup_policy)} does not contain delete"
            )
        offset = self.high_watermark if before == -1 else before
        if not 0 <= offset <= self.high_watermark:
            raise errors.OffsetOutOfRangeError(
                f"{self.directory}: records cannot be deleted up to offset {before}: the high watermark is"
                f" {self.high_watermark}"
            )
        self.advance_start(offset)
        return self.log_start_offset

    def compaction(self, now_ms: int) -> Iterator[None]:
        """Compact the log in steps: drop records that a later record of the same key replaces.

        Each step takes some milliseconds; appends and reads may run in between. Dropping the iterator stops the
        compaction, and leaves the segments not yet done as they were.
        """
        return Cleaner(self, now_ms).run()

    def compact(self, now_ms: int) -> None:
        """Compact the log without pauses; see `compaction`."""
        for _ in self.compaction(now_ms):
            pass

    def _lead(self, leader_epoch: int) -> None:
        if leader_epoch < self.leader_epoch:
            late = f"the leader epoch {leader_epoch} of an append is older than the current one, {self.leader_epoch}"
            raise errors.FencedLeaderEpochError(f"{self.directory}: {late}")
        self.epochs.assign(leader_epoch, self.log_end_offset)
        self.leader_epoch = self.epochs.latest

    def _sync_written(self, segment: Segment, end: int) -> None:
        try:
            self._flush_closed()
            segment.files.sync()
        except errors.StorageError:
            segment.take_back()
            raise
        self.recovery_point = end
        self._unflushed_since_ms = None

    def _flush_closed(self) -> None:
        """Sync the closed segments and their indexes to the disk."""
        if self.recovery_point >= self.bases[-1]:
            return
        for segment in self.segments[:-1]:
            if segment.end_offset > self.recovery_point:
                segment.sync()
                segment.save_indexes(durable=True)

    def _checkpoint(self) -> None:
        if self._on_checkpoint is not None:
            self._on_checkpoint()
