"""One segment of a partition's log: a file of batches with its indexes (Kafka: LogSegment)."""

import logging
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from groupsdk.broker.log.errors import CorruptLogError
from groupsdk.broker.log.files import Files
from groupsdk.broker.log.indexes import (
    OFFSET_ENTRY_SIZE,
    CorruptIndexError,
    OffsetIndex,
    TimeIndex,
    TxnIndex,
)
from groupsdk.broker.log.leader_epochs import LeaderEpochs
from groupsdk.broker.log.scan import PEEK, Stored, corrupt, read_file, scan, walk
from groupsdk.broker.log.segment_files import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SegmentFiles,
)
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT32
from groupsdk.wire.records.batch import LENGTH_END, BatchHeader


logger = logging.getLogger(__name__)
_MAX_TIMESTAMP_AT: Final = 35
_NO_BATCH: Final = (-1, 0, 0, 0)


class Segment:
    """One file of batches with its indexes: append, and find offsets and timestamps.

    No file is created before the first append. Batches found on disk are verified when first read. The indexes are
    kept in memory and written by `save_indexes`.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self.files = SegmentFiles(files, directory, base_offset, suffix)
        self.base_offset = base_offset
        self._path_hash = zlib.crc32(self.files.log.encode())
        self.configure(config)
        self.created_ms = created_ms
        self.size = 0
        self.end_offset = base_offset
        """The offset behind the last record."""
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        """The last offset of the batch with the latest timestamp."""
        self.first_timestamp: int | None = None
        self.sealed = False
        """Whether appends belong into a new segment whatever this one's size."""
        self.offset_index = OffsetIndex(base_offset)
        self.time_index = TimeIndex(base_offset)
        self.txn_index = TxnIndex()
        self._since_entry = 0
        self._newest = _NO_BATCH
        self._untrusted = 0
        self._checked = Spans()
        self._index_loaded = False
        self._saved = True

    @override
    def __repr__(self) -> str:
        return f"Segment({self.path}, {self.size} bytes, to {self.end_offset})"

    @property
    def path(self) -> str:
        """The path of the .log file."""
        return self.files.log

    def configure(self, config: LogConfig) -> None:
        """Apply new settings; they take effect with the next append."""
        self._max_bytes = config.segment_bytes
        # constant for a segment, and different for the partitions of a topic
        jitter_ms = min(config.segment_jitter_ms, config.roll_ms)
        self._max_wait_ms = config.roll_ms - (self._path_hash % jitter_ms if jitter_ms else 0)
        self._max_entries = config.segment_index_bytes // OFFSET_ENTRY_SIZE - 1
        self._interval = config.index_interval_bytes

    def take_back(self) -> None:
        """Truncate bytes written but not noted, now or, if that fails, before the next append."""
        self.files.take_back(self.size)

    def note(self, header: BatchHeader, base_offset: int) -> None:
        """Account for a batch written at the end of the file: extend the indexes and the end offset."""
        position, size = self.size, LENGTH_END + header.batch_length
        last_offset, timestamp = base_offset + header.last_offset_delta, header.max_timestamp
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last_offset
        if self._since_entry > self._interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
            self._since_entry = 0
        self._since_entry += size
        self._newest = (base_offset, position, size, last_offset + 1)
        self.size = position + size
        self.end_offset = last_offset + 1
        self._saved = False

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Return whether an append needs a new segment (Kafka: LogSegment.shouldRoll)."""
        if last_offset - self.base_offset > MAX_INT32:
            return True  # the index stores offsets relative to the first one, in four bytes
        if not self.size:
            return False
        if self.size + size > self._max_bytes or self.sealed:
            return True
        if self.first_timestamp is not None and self.first_timestamp >= 0:
            waited_ms = max_timestamp - self.first_timestamp
        else:
            waited_ms = now_ms - self.created_ms
        return waited_ms > self._max_wait_ms or len(self.offset_index.offsets) >= self._max_entries

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        limit_offset: int | None = None,
        min_one: bool = True,
        epochs: LeaderEpochs | None = None,
    ) -> tuple[bytes, int]:
        """Read batches, starting with the one that contains an offset, or the next one.

        Args:
            max_bytes: the most bytes to return; the last batch may be incomplete.
            min_one: return the first batch completely even if it exceeds `max_bytes`.

        Returns:
            The bytes, empty at the end of the segment or if the first batch does not fit; and the position after them
            in the file.
        """
        end = self.size
        if self._untrusted:
            end = self._check_before_reading(offset, max_bytes, epochs)
        position, first_size = self.locate(offset)
        if limit_offset is not None and limit_offset < self.end_offset:
            end = min(end, self.locate(limit_offset)[0])
        if position >= end or (first_size > max_bytes and not min_one):
            return b"", position
        stop = min(position + max(max_bytes, first_size), end)
        return read_file(self.files.files, self.path, position, stop - position), stop

    def locate(self, offset: int) -> tuple[int, int]:
        """Return position and size of the first batch that ends at or above an offset; if none, the size and 0."""
        base, position, size, end = self._newest
        if offset >= base >= 0:
            return (position, size) if offset < end else (self.size, 0)
        entry_offset, position = self.offset_index.lookup(offset)
        if entry_offset >= 0 and self._index_loaded and not self._is_entry(entry_offset, position):
            if not self._reindex():
                raise corrupt(
                    self.path,
                    position,
                    f"the offset index has offset {entry_offset} here, where no batch ends",
                )
            position = self.offset_index.lookup(offset)[1]
        return walk(self.files.files, self.path, self.size, position, offset)

    def _is_entry(self, offset: int, position: int) -> bool:
        """Return whether the batch at a position ends at the offset given by an index file."""
        data = read_file(self.files.files, self.path, position, PEEK.size)
        if len(data) < PEEK.size:
            return False
        base, _, delta = PEEK.unpack(data)
        return bool(base + delta == offset)

    def scan(self, start: int = 0, epochs: LeaderEpochs | None = None) -> Iterator[Stored]:
        """Iterate over all batches from a position on, verifying each, the epochs too if they are given."""
        return scan(
            self.files.files,
            self.path,
            self.size,
            start=start,
            lowest_offset=self.base_offset,
            epochs=epochs,
        )

    def load(self, end_offset: int | None) -> None:
        """Load the state of the segment from its files; without an `end_offset`, read it from the last batches.

        Raises CorruptIndexError if an index is missing or corrupt; `rebuild` recreates the indexes.
        """
        self.size = self._untrusted = self.files.size()
        self.end_offset = self.base_offset if end_offset is None else end_offset
        if not self.size:
            return
        base, files = self.base_offset, self.files
        index, times = files.read_index(INDEX_SUFFIX), files.read_index(TIME_INDEX_SUFFIX)
        if index is None or times is None:
            raise CorruptIndexError("the index files are missing")
        self.offset_index = OffsetIndex.decode(index, base, self.size)
        self._index_loaded = True
        self.time_index = TimeIndex.decode(times, base)
        self.txn_index = TxnIndex.decode(files.read_index(TXN_INDEX_SUFFIX) or b"", base)
        self.max_timestamp, self.max_timestamp_offset = self.time_index.last
        if end_offset is None:
            self._load_tail()

    def rebuild(self, *, gaps: bool = True) -> Iterator[Stored]:
        """Yield all batches, each verified, and rebuild the indexes.

        Batches that were yielded are trusted afterwards. If it raises, the segment ends before the corrupt batch but its
        file does not: call `cut` or `keep_rest`. The caller adds the aborted transactions to `txn_index`.
        """
        size = self.files.size()
        self._forget()
        files, path = self.files.files, self.path
        for stored in scan(files, path, size, lowest_offset=self.base_offset, gaps=gaps):
            self.note(stored.header, stored.header.base_offset)
            yield stored

    def cut(self) -> int:
        """Truncate the file after the last noted batch. Return how many bytes were removed."""
        return self.files.cut(self.size)

    def keep_rest(self, end_offset: int) -> None:
        """Keep a file with corrupt batches as it is; all batches are verified when read, and nothing is appended."""
        self.size = self.files.size()
        self.end_offset = end_offset
        self.sealed = True
        self._newest = _NO_BATCH
        self.distrust()

    def distrust(self) -> None:
        """Verify every batch again when it is next read."""
        self._untrusted = self.size
        self._checked = Spans()

    def save_indexes(self, *, durable: bool = False) -> None:
        """Write the index files, unless they are up to date; `durable` ones are synced in any case."""
        if not self.size or (self._saved and not durable):
            return
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.max_timestamp_offset)
        self.files.write_index(INDEX_SUFFIX, self.offset_index.encode(), durable=durable)
        self.files.write_index(TIME_INDEX_SUFFIX, self.time_index.encode(), durable=durable)
        self.files.write_index(TXN_INDEX_SUFFIX, self.txn_index.encode(), durable=durable)
        self._saved = True

    def sync(self) -> None:
        if self.size:
            self.files.sync()

    def _forget(self) -> None:
        self.size = 0
        self.end_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = -1, self.base_offset
        self.first_timestamp = None
        self.offset_index.clear()
        self.time_index.clear()
        self.txn_index.clear()
        self._since_entry = 0
        self._newest = _NO_BATCH
        self._untrusted = 0
        self._checked = Spans()
        self._index_loaded = False

    def _load_tail(self) -> None:
        """Read the end offset, and the state that the next append needs, from the last index entry on."""
        entry_offset, position = self.offset_index.lookup(2**63 - 1)
        for stored in self.scan(position):
            header = stored.header
            if stored.position == position and entry_offset not in (-1, header.last_offset):
                raise CorruptIndexError(
                    f"the batch at position {position} does not end at offset {entry_offset}, as its entry says"
                )
            self.end_offset = header.last_offset + 1
            size = header.size_in_bytes
            self._newest = (header.base_offset, stored.position, size, self.end_offset)
        self._since_entry = self.size - position
        first = read_file(self.files.files, self.path, _MAX_TIMESTAMP_AT, 8)
        self.first_timestamp = int.from_bytes(first, signed=True)

    def _check_before_reading(
        self, offset: int, max_bytes: int, epochs: LeaderEpochs | None
    ) -> int:
        """Verify batches that were found on disk and not read yet. Return the position up to which they may be served."""
        try:
            position, size = self.locate(offset)
        except CorruptLogError:
            position, size = -1, 0
        start = self.offset_index.lookup(offset)[1]
        if start >= self._untrusted:
            return self.size
        stop = min(position + max(size, max_bytes), self.size, self._untrusted)
        if position >= 0 and self._checked.covers(start, stop):
            return self.size
        try:
            return self._check(self.offset_index.before(start), offset, max_bytes, epochs)
        except CorruptLogError:
            if position < 0:
                raise
        # the damage may be before the entry; index and log agree on the entry, so go on from there
        return self._check(start, offset, max_bytes, epochs)

    def _check(self, start: int, offset: int, max_bytes: int, epochs: LeaderEpochs | None) -> int:
        """Verify the batches that a read walks over and returns, and that the following one has a higher offset.

        A corrupt batch after the first wanted one does not fail the read, but ends it.
        """
        stop = position = start
        wanted, last = -1, -1
        limit = self.size
        try:
            for stored in self.scan(start, epochs):
                position, last = stored.position, stored.header.last_offset
                stop = position + stored.header.size_in_bytes
                if wanted < 0 and last >= offset:
                    wanted = position + max_bytes
                if 0 <= wanted <= stop:
                    break
        except CorruptLogError:
            if wanted < 0:
                raise
            limit = stop
        following = self.end_offset
        if stop < self.size:
            data = read_file(self.files.files, self.path, stop, 8)
            following = int.from_bytes(data, signed=True)
        if last >= following:
            raise corrupt(self.path, position, f"offset {last} comes before offset {following}")
        self._checked.add(start, stop)
        if self._checked.covers(0, self._untrusted):
            self._untrusted = 0
        return limit

    def _reindex(self) -> bool:
        """Rebuild the offset index if the log itself is intact. Return whether it is."""
        fresh = OffsetIndex(self.base_offset)
        since = 0
        try:
            for stored in self.scan():
                if since > self._interval:
                    fresh.append(stored.header.last_offset, stored.position)
                    since = 0
                since += stored.header.size_in_bytes
        except CorruptLogError:
            return False
        logger.warning("%s: index corrupt, rebuilt", self.path)
        self.offset_index = fresh
        self._index_loaded = False
        self._saved = False
        return True


class Spans:
    """A set of byte positions, kept as ranges that are joined where they touch."""

    __slots__ = ("_starts", "_stops")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Add the positions from `start` to before `stop`."""
        if stop <= start:
            return
        first = bisect_left(self._stops, start)
        behind = bisect_right(self._starts, stop)
        if first < behind:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[behind - 1])
        self._starts[first:behind] = [start]
        self._stops[first:behind] = [stop]

    def covers(self, start: int, stop: int) -> bool:
        """Return whether all positions from `start` to before `stop` are in the set; True for an empty range."""
        if stop <= start:
            return True
        found = bisect_right(self._starts, start) - 1
        return found >= 0 and self._stops[found] >= stop
