"""The segments of one partition, and what is known of their contents (Kafka: LocalLog)."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence

from typing_extensions import override

from groupsdk.broker.log import swap
from groupsdk.broker.log.config import LogConfig
from groupsdk.broker.log.errors import FencedLeaderEpochError, StorageError
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.producer_state import Update
from groupsdk.broker.log.recovery import Recovered
from groupsdk.broker.log.segment import Segment
from groupsdk.broker.log.txn_index import AbortedTxn
from groupsdk.wire.records.batch import BatchHeader
from groupsdk.wire.records.checksum import Buffer


_LOG = logging.getLogger(__name__)


class LocalLog:
    """Write to segments, roll, flush, remove and close them; whoever appends has checked what.

    Args:
        directory: the partition's.
        config: the topic's settings.
        files: where the directory is.
        recovered: the log as it was found.
        recovery_point: up to which offset everything is known to be on the disk.
        cleaned_offset: up to which offset compaction has been.
        on_checkpoint: called when the start of the log or `cleaned_offset` moved, to note it.
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
        self.snapshots = recovered.snapshots
        self.log_start_offset = recovered.log_start_offset
        self.log_end_offset = max(self.segments[-1].end_offset, self.log_start_offset)
        self.recovery_point = min(recovery_point, self.log_end_offset)
        """Up to which offset everything is known to be on the disk."""
        self.cleaned_offset = cleaned_offset
        """Up to which offset compaction has been."""
        self._on_checkpoint = on_checkpoint
        self._unflushed_since_ms: int | None = None

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory}, {self.log_start_offset} to {self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """The topic's settings; new ones hold from the next call on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self.segments:
            segment.configure(config)

    @property
    def last_stable_offset(self) -> int:
        """The first offset whose transaction is open; the end where none is."""
        first = self.producers.first_open_offset
        return self.log_end_offset if first is None else max(first, self.log_start_offset)

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that wrote here; -1: none is known."""
        return self.epochs.latest

    def write(
        self,
        data: Buffer,
        headers: Sequence[BatchHeader],
        bases: Sequence[int],
        update: Update | None,
        leader_epoch: int,
        now_ms: int,
    ) -> None:
        """Write batches that were checked and placed; all of it, or nothing.

        Args:
            data: the batches.
            headers: theirs.
            bases: their base offsets.
            update: what they change in the state of producers.
            leader_epoch: of this leader.
            now_ms: the time.

        Raises:
            FencedLeaderEpochError: a newer leader has written here.
            StorageError: the disk failed or is full.
        """
        last = headers[-1]
        end = bases[-1] + last.last_offset_delta + 1
        timestamp = last.max_timestamp
        if len(headers) > 1:
            timestamp = max(header.max_timestamp for header in headers)
        segment = self.segments[-1]
        if segment.must_roll(len(data), end - 1, timestamp, now_ms):
            segment = self.roll(now_ms)
        if leader_epoch != self.epochs.latest:
            self._lead(leader_epoch)
        segment.write(data)
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
        """Close the last segment and start a new one; returns it.

        What is closed is flushed, as a loss of power may otherwise leave a later segment without an earlier one.
        (Kafka: UnifiedLog.roll, which does it in the background.)

        Raises:
            StorageError: the disk failed; there is no new segment.
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
        except StorageError as error:
            # nothing is lost by it: a start finds out by reading the segment
            _LOG.warning("%s; the next start will take longer", error)
        self.segments.append(segment)
        self.bases.append(end)
        return segment

    def advance_start(self, offset: int) -> None:
        """Let the log start at an offset, and remove the segments that are before it as a whole.

        Raises:
            StorageError: the disk failed or is full.
        """
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.log_end_offset = max(self.log_end_offset, offset)
        self.epochs.truncate_start(offset)
        self._checkpoint()
        while len(self.segments) > 1 and self.bases[1] <= offset:
            segment = self.segments[0]
            segment.files.remove()
            self.snapshots.remove(segment.base_offset)
            del self.segments[0], self.bases[0]

    def replace(self, cleaned: Segment, replaced: Sequence[Segment]) -> None:
        """Put a compacted segment in place of those that it was made of.

        Raises:
            StorageError: the disk failed; a later start completes or undoes it.
        """
        swap.replace(cleaned, replaced)
        first = self.segments.index(replaced[0])
        self.segments[first : first + len(replaced)] = [cleaned]
        self.bases = [segment.base_offset for segment in self.segments]
        for segment in replaced[1:]:
            self.snapshots.remove(segment.base_offset)

    def cleaned(self, offset: int) -> None:
        """Note up to where compaction has been.

        Raises:
            StorageError: the disk failed or is full.
        """
        self.cleaned_offset = offset
        self._checkpoint()

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap the offsets from `start` to before `end`."""
        found: list[AbortedTxn] = []
        for segment in self.segments[max(bisect_right(self.bases, start) - 1, 0) :]:
            if segment.txn_index.collect(start, end, found):
                break
        return found

    def flush(self) -> None:
        """Make everything that was appended outlast a loss of power.

        Raises:
            StorageError: the disk failed.
        """
        self._flush_closed()
        self.segments[-1].sync()
        self.recovery_point = self.log_end_offset
        self._unflushed_since_ms = None

    def flush_if_due(self, now_ms: int) -> bool:
        """Flush when flush.ms asks for it; tells whether it did.

        Raises:
            StorageError: the disk failed.
        """
        since_ms = self._unflushed_since_ms
        if since_ms is None or now_ms - since_ms < self._config.flush_ms:
            return False
        self.flush()
        return True

    def close(self) -> None:
        """Flush, and write down what saves the next start from reading everything.

        Raises:
            StorageError: the disk failed or is full; the next start has to take it for a crash.
        """
        for segment in self.segments:
            segment.save_indexes()
        if self.log_end_offset > self.segments[0].base_offset:
            self.snapshots.take(self.producers, self.log_end_offset)
        self.flush()

    def _lead(self, leader_epoch: int) -> None:
        if leader_epoch < self.epochs.latest:
            raise FencedLeaderEpochError(
                f"{self.directory}: an append of the leader epoch {leader_epoch} comes after"
                f" {self.epochs.latest}"
            )
        self.epochs.assign(leader_epoch, self.log_end_offset)

    def _sync_written(self, segment: Segment, end: int) -> None:
        try:
            self._flush_closed()
            segment.files.sync()
        except StorageError:
            segment.take_back()
            raise
        self.recovery_point = end
        self._unflushed_since_ms = None

    def _flush_closed(self) -> None:
        """Make the segments before the last one outlast a loss of power, with their indexes."""
        if self.recovery_point >= self.bases[-1]:
            return
        for segment in self.segments[:-1]:
            if segment.end_offset > self.recovery_point:
                segment.sync()
                segment.save_indexes(durable=True)

    def _checkpoint(self) -> None:
        if self._on_checkpoint is not None:
            self._on_checkpoint()
