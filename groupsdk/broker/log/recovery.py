"""Open the log of a partition, after a clean shutdown or after a crash (Kafka: LogLoader)."""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from groupsdk.broker.log import segment_replacement
from groupsdk.broker.log.errors import CorruptLogError, storage_errors
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.indexes import AbortedTxn, CorruptIndexError
from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.broker.log.producer_snapshots import Snapshots
from groupsdk.broker.log.producer_state import Origin, ProducerState, Update
from groupsdk.broker.log.scan import Stored, corrupt
from groupsdk.broker.log.segment import Segment
from groupsdk.broker.log.segment_files import LOG_SUFFIX
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.errors import DecodeError
from groupsdk.wire.records.control import Marker, read_marker


logger = logging.getLogger(__name__)
_NAME: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex)")


@dataclass(slots=True)
class Recovered:
    """The state of a partition's log after loading it."""

    segments: list[Segment]
    """Ascending by offset; at least one. Appends go to the last one."""
    producers: ProducerState
    epochs: LeaderEpochs
    snapshots: Snapshots
    log_start_offset: int
    """The first readable offset; the first segment may start before it."""


class Recovery:
    """Loads one partition's directory; used once.

    After a clean shutdown the indexes and the newest producer snapshot are trusted. Otherwise every segment that
    may not be on the disk is read completely, and the last segment is truncated before its first corrupt batch, as a
    crash only tears the end. Corruption anywhere else is logged and kept; reading it raises an error.

    Args:
        recovery_point: the offset up to which everything is known to be on the disk; the end after a clean shutdown.
        log_start_offset: the checkpointed start; the first segment may start before it.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        now_ms: int = 0,
        clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._now_ms = now_ms
        self._clean = clean
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._producers = ProducerState()
        self._epochs = LeaderEpochs(files, directory)
        self._snapshots = Snapshots(files, directory)
        self._segments: list[Segment] = []
        self._to_scan: set[int] = set()
        self._epochs_known = False
        self._new_epochs = False
        self._doubts = 0

    def run(self) -> Recovered:
        """Load the log, repairing or truncating it where necessary."""
        names = segment_replacement.finish(self._files, self._directory)
        self._epochs.load()
        self._epochs_known = bool(self._epochs.entries)
        self._load_segments(self._bases(names))
        offsets = self._snapshots.offsets(names)
        if self._segments:
            self._rebuild(offsets)
        if self._segments and self._segments[-1].end_offset < self._log_start_offset:
            self._drop_all()
        if not self._segments:
            self._segments.append(self._segment(self._log_start_offset))
        self._clean_up(offsets)
        return Recovered(
            self._segments,
            self._producers,
            self._epochs,
            self._snapshots,
            max(self._log_start_offset, self._segments[0].base_offset),
        )

    def _bases(self, names: Sequence[str]) -> list[int]:
        """List the segments, and remove indexes that belong to none."""
        found = [match for name in names if (match := _NAME.fullmatch(name))]
        bases = sorted(int(match[1]) for match in found if match[2] == LOG_SUFFIX)
        for match in found:
            if int(match[1]) not in bases:
                path = f"{self._directory}/{match[0]}"
                logger.warning("%s: removing an index that belongs to no segment", path)
                with storage_errors("removing", path):
                    self._files.remove(path)
        return bases

    def _segment(self, base_offset: int) -> Segment:
        return Segment(
            self._files, self._directory, base_offset, self._config, created_ms=self._now_ms
        )

    def _load_segments(self, bases: Sequence[int]) -> None:
        for number, base in enumerate(bases):
            following = bases[number + 1] if number + 1 < len(bases) else None
            segment = self._segment(base)
            self._segments.append(segment)
            if not self._clean and (following is None or following > self._recovery_point):
                self._to_scan.add(base)
                continue
            try:
                segment.load(following)
            except CorruptIndexError as error:
                logger.warning("%s: index corrupt, rebuilding: %s", segment.path, error)
                self._to_scan.add(base)
            except CorruptLogError as error:
                self._damaged_end(segment, error)
            else:
                if following is None and segment.end_offset != self._recovery_point:
                    # no checksum covers the offset of a batch, so trust the recovery point
                    self._damaged_end(
                        segment,
                        f"its last batch ends at offset {segment.end_offset}",
                    )

    def _damaged_end(self, segment: Segment, problem: object) -> None:
        if self._recovery_point < segment.base_offset:
            self._to_scan.add(segment.base_offset)
            return
        logger.warning(
            "%s: the log was closed at offset %d, but %s",
            segment.path,
            self._recovery_point,
            problem,
        )
        segment.keep_rest(self._recovery_point)

    def _rebuild(self, offsets: list[int]) -> None:
        """Load the producers from the newest snapshot and the log after it, and rebuild segments where necessary."""
        segments = self._segments
        highest = min(self._to_scan, default=segments[-1].end_offset)
        start = self._snapshots.load(self._producers, offsets, highest)
        if start is None:
            start = segments[0].base_offset
        for number, segment in enumerate(segments):
            if segment.base_offset in self._to_scan:
                if self._scan(segment, number):
                    break
            elif segment.end_offset > start:
                self._replay(segment, start)

    def _replay(self, segment: Segment, start: int) -> None:
        try:
            for stored in segment.scan(segment.locate(start)[0], self._epochs):
                replay(self._producers, stored, segment.path)
        except CorruptLogError as error:
            logger.warning(
                "%s; the rest of this segment is missing from the state of its producers", error
            )

    def _scan(self, segment: Segment, number: int) -> bool:
        """Rebuild a segment. Return whether the log ends here, as its tail was truncated."""
        self._doubts = 0
        ends = False
        try:
            # only compaction leaves gaps, and it never touches the last segment
            gaps = self._config.compact or number + 1 < len(self._segments)
            self._rebuild_segment(segment, gaps)
        except CorruptLogError as error:
            ends = self._damaged(segment, number, error)
        if self._doubts:
            # do not truncate: the checkpoint of the epochs may be wrong, not the log
            logger.warning(
                "%s: the leader epoch of %d batches differs from leader-epoch-checkpoint; they will not be"
                " served",
                segment.path,
                self._doubts,
            )
            segment.distrust()
        if number + 1 < len(self._segments):
            segment.save_indexes()
        return ends

    def _rebuild_segment(self, segment: Segment, gaps: bool) -> None:
        epochs, known = self._epochs, self._epochs_known
        for stored in segment.rebuild(gaps=gaps):
            header = stored.header
            epoch, offset = header.partition_leader_epoch, header.base_offset
            if known and not epochs.agree(epoch, offset):
                self._doubts += 1
            elif epoch != epochs.latest and epochs.note(epoch, offset):
                self._new_epochs = True
            if header.producer_id >= 0:
                for aborted in replay(self._producers, stored, segment.path):
                    segment.txn_index.append(aborted)

    def _damaged(self, segment: Segment, number: int, error: CorruptLogError) -> bool:
        """Truncate the torn tail of the log, or keep corruption within it. Return whether it was truncated."""
        behind = self._segments[number + 1 :]
        if self._clean or any(each.files.size() for each in behind):
            logger.warning("%s; the corrupt batch will not be served", error)
            end = behind[0].base_offset if behind else self._recovery_point
            segment.keep_rest(max(end, segment.end_offset))
            return False
        size = segment.cut()
        logger.warning(
            "%s: truncated an incomplete tail of %d bytes; the log ends at offset %d",
            error,
            size,
            segment.end_offset,
        )
        for each in behind:
            each.files.remove()
        del self._segments[number + 1 :]
        return True

    def _drop_all(self) -> None:
        logger.warning(
            "%s: the log ends at offset %d, before its start at %d; removing all segments",
            self._directory,
            self._segments[-1].end_offset,
            self._log_start_offset,
        )
        for segment in self._segments:
            segment.files.remove()
        self._segments.clear()
        self._producers.clear()
        self._epochs.clear()
        self._new_epochs = True

    def _clean_up(self, offsets: list[int]) -> None:
        end_offset = self._segments[-1].end_offset
        bases = {segment.base_offset for segment in self._segments}
        newest = max((offset for offset in offsets if offset <= end_offset), default=-1)
        for offset in offsets:
            if offset > end_offset or (offset != newest and offset not in bases):
                self._snapshots.remove(offset)
        if self._new_epochs:
            self._epochs.save()
        self._epochs.truncate_end(end_offset)


def replay(state: ProducerState, stored: Stored, path: str) -> list[AbortedTxn]:
    """Apply one batch of the log to the producer state. Return the transactions that it aborts."""
    header = stored.header
    if header.producer_id < 0:
        return []
    update = Update(state, Origin.REPLAY)
    if not header.is_control:
        update.add(header, header.base_offset)
        return state.commit(update)
    try:
        marker = read_marker(stored.data, stored.at)
    except DecodeError as error:
        raise corrupt(path, stored.position, error) from error
    if marker is None:
        if header.records_count:
            return []
        # compaction left only the header, which still has the producer's epoch
        known = state.entries.get(header.producer_id)
        marker = Marker(
            header.base_offset,
            header.producer_id,
            header.producer_epoch,
            committed=True,
            coordinator_epoch=-1 if known is None else known.coordinator_epoch,
            timestamp=header.max_timestamp,
        )
    update.end(marker, header.base_offset)
    return state.commit(update)
