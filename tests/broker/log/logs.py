"""Logs for tests: small segments, batches in a word, and everything that a log holds in a list."""

import errno
from collections.abc import Callable, Iterable

from groupsdk.broker.log.files import Files, MemoryFiles
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import Record, build_batch, read_records


DIRECTORY = "data/t-0"
NOW_MS = 1_000_000
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100)
COMPACT = LogConfig(
    cleanup_policy=("compact",),
    segment_bytes=600,
    index_interval_bytes=100,
    delete_retention_ms=1_000,
)


def open_log(
    files: Files | None = None,
    config: LogConfig = SMALL,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_offset: int = 0,
) -> PartitionLog:
    """Open the log in DIRECTORY, as after a crash unless `clean`."""
    return PartitionLog.open(
        MemoryFiles() if files is None else files,
        DIRECTORY,
        config,
        NOW_MS,
        clean=clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        cleaned_offset=cleaned_offset,
    )


def reopen_clean(log: PartitionLog) -> PartitionLog:
    """Close a log and open it again."""
    log.close()
    return open_log(
        log.files,
        log.config,
        clean=True,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        cleaned_offset=log.cleaned_offset,
    )


def batch(
    *values: bytes | None,
    key: bytes | None = b"k",
    timestamp: int = NOW_MS,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    compression: int = 0,
) -> bytes:
    """Build a batch of values as a producer sends it."""
    return build_batch(
        [Record(number, timestamp, key, value) for number, value in enumerate(values)],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=transactional,
        compression=compression,
    )


def read_all(log: PartitionLog, *, committed: bool = False, max_bytes: int = 150) -> list[Record]:
    """Read a log as a consumer does, in small pieces; with `committed`, without what was aborted."""
    found: list[Record] = []
    offset = log.log_start_offset
    while True:
        read = log.read(offset, max_bytes, committed=committed)
        aborted = sorted((each.first_offset, each.producer_id) for each in read.aborted)
        open_aborted: set[int] = set()
        before = offset
        for header, position in batches(read.data):
            while aborted and aborted[0][0] <= header.last_offset:
                open_aborted.add(aborted.pop(0)[1])
            if header.is_control:
                open_aborted.discard(header.producer_id)
            elif not (committed and header.is_transactional and header.producer_id in open_aborted):
                records = read_records(read.data, position)
                found += [record for record in records if record.offset >= before]
            offset = header.last_offset + 1
        if offset == before:
            return found


def pairs(records: Iterable[Record]) -> list[tuple[int, bytes | None]]:
    """Leave offset and value of records."""
    return [(record.offset, record.value) for record in records]


def replayed(records: Iterable[Record]) -> dict[bytes, bytes]:
    """Apply records as a table: the last value of each key, no tombstones."""
    table: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


class PowerLossError(Exception):
    """The power went."""


class Countdown:
    """A `before` of files that raises at the n-th changing call."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, call: str, path: str) -> None:
        if self.left == 0:
            raise PowerLossError(f"{call} {path}")
        self.left -= 1


def failing(*calls: str, ending: str = "") -> Callable[[str, str], None]:
    """Make a `before` of files that lets these calls fail, for paths with an ending."""

    def fail(call: str, path: str) -> None:
        if call in calls and path.endswith(ending):
            raise OSError(errno.EIO, "Input/output error", path)

    return fail


def log_files(files: Files) -> list[str]:
    """List the paths of the segments in DIRECTORY."""
    return [f"{DIRECTORY}/{name}" for name in files.names(DIRECTORY) if name.endswith(".log")]
