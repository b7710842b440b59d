"""Find the segment files of a coordinator's topic, and read them."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.read.arrow_rows import Reject, raw_rows
from groupsdk.history.read.batches import Chunk, Records, read_segment
from groupsdk.history.read.reading import Reader, TableBatches
from groupsdk.history.sources.filesystems import file_system
from groupsdk.wire.records.batch_walk import CHUNK_BYTES, Unread


TOPIC: Final = "__consumer_offsets"

SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
NUMBER: Final = "(0|[1-9][0-9]{0,9})"  # as Kafka writes partitions
_LAST_PARTITION: Final = 2**31 - 1
META_PROPERTIES: Final = "meta.properties"
_META_BYTES: Final = 64 * 1024
_LOG_STARTS: Final = "log-start-offset-checkpoint"
_LOG_ENDS: Final = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
"""What a broker notes of the partitions of a data directory: up to where they are on the disk, and where all replicas have them."""
_CHECKPOINT_BYTES: Final = 16 * 1024 * 1024
_DEPTH: Final = 3  # of a folder with the data directories of a broker
_NOBODYS: Final = "lost+found"  # root's alone on every disk of its own


@dataclass(frozen=True, slots=True)
class SegmentFile:
    path: str
    partition: int
    size: int
    end_offset: int | None = None
    """Where the next file of the partition begins; None: there is none."""
    is_first: bool = False
    """Whether it is the partition's first file."""
    log_start: int | None = None
    """Of a first file: where the partition begins, as its broker has noted; None: nothing is noted."""
    log_end: int | None = None
    """Of a last file: up to where the partition goes at least, as its broker has noted."""

    @property
    def name(self) -> str:
        """The name of its task's output files, unique in the log."""
        return f"part-{self.partition:05}-{Path(self.path).stem}"

    @property
    def first_offset(self) -> int:
        """The least offset that it may have."""
        return int(Path(self.path).stem)

    def own(self, records: Records) -> Records:
        """Return the records that are not those of the next file.

        A copy of a broker's directory made while its cleaner put files in the place of others has some records in two files.
        """
        if self.end_offset is None or not len(records) or records.offsets[-1] < self.end_offset:
            return records
        return records.take(records.offsets < self.end_offset)


def followed(segments: Iterable[SegmentFile]) -> list[SegmentFile]:
    """Return segment files in the order of partitions and offsets, each with where the next one begins.

    Empty files are left out, but for a first one before others: a broker begins the next file only when it has records. So is a
    partition whose files are all empty, unless its broker has noted that it had records.
    """
    found: list[SegmentFile] = []
    every = sorted(segments, key=lambda each: (each.partition, each.first_offset))
    for _, files in groupby(every, key=lambda each: each.partition):
        mine = list(files)
        full = [each for each in mine if each.size]
        if not mine[0].size and (full or (mine[0].log_end or 0) > mine[0].first_offset):
            full.insert(0, mine[0])
        if not full:
            continue
        ends = [*(each.first_offset for each in full[1:]), None]
        found += [
            replace(
                each,
                end_offset=end,
                is_first=each is full[0],
                log_start=each.log_start if each is full[0] else None,
                log_end=each.log_end if end is None else None,
            )
            for each, end in zip(full, ends, strict=True)
        ]
    return found


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """Reads one segment file, on the file system of the path or URI `root`."""

    root: str
    segment: SegmentFile
    chunk_bytes: int = CHUNK_BYTES

    @property
    def name(self) -> str:
        return self.segment.name

    @property
    def size(self) -> int:
        return self.segment.size

    def read(self) -> TableBatches:
        with self._open() as file:
            yield from read_file(file, self.segment, chunk_bytes=self.chunk_bytes)

    def _open(self) -> Any:
        if not self.segment.size:
            # it may be gone: what counts is what it lacks
            return BytesIO()
        system, _ = file_system(self.root)
        return system.open_input_stream(self.segment.path)

    def raw(self) -> Iterator[Any]:
        """Yield the undecoded records, as rows of the schema `read.arrow_rows.RAW`."""
        with self._open() as file:
            for found in _pieces(file, self.segment, self.chunk_bytes):
                if isinstance(found, Chunk):
                    records = self.segment.own(found.records)
                    if len(records):
                        yield raw_rows(records, self.segment.partition)


def read_file(file: Any, segment: SegmentFile, *, chunk_bytes: int = CHUNK_BYTES) -> TableBatches:
    reader = Reader()
    first = segment.first_offset
    if segment.is_first:
        first = min(first, first if segment.log_start is None else segment.log_start)
        end = segment.log_end if segment.end_offset is None else segment.end_offset
        reader.begin(segment.partition, first, end)
    if segment.log_end is not None:
        reader.end(segment.partition, first, segment.log_end)
    for found in _pieces(file, segment, chunk_bytes):
        if isinstance(found, Unread):
            place = f"{segment.path}:{found.position}"
            reject = Reject(found.first_offset, place, found.reason, found.lost)
            yield from reader.refuse([reject], segment.partition)
        else:
            records = segment.own(found.records)
            yield from reader.take(
                records, segment.partition, segment.path, has_holes=found.has_holes
            )
            yield from reader.refuse(_bad_batches(found, segment), segment.partition)
    yield from reader.close()


def _pieces(file: Any, segment: SegmentFile, chunk_bytes: int) -> Iterator[Chunk | Unread]:
    return read_segment(file, first_offset=segment.first_offset, chunk_bytes=chunk_bytes)


def _bad_batches(chunk: Chunk, segment: SegmentFile) -> Iterator[Reject]:
    for bad in chunk.records.bad:
        place = f"{segment.path}:{chunk.position + bad.position}"
        yield Reject(bad.base_offset, place, bad.reason, bad.records_count)


def cluster_of(path: str) -> str:
    """Return the id of the cluster of a broker's data directory, or of a directory in it; "" if its files do not say."""
    system, root = file_system(path)
    for place in (root, root.rpartition("/")[0]):
        name = f"{place}/{META_PROPERTIES}"
        if system.get_file_info(name).type != fs.FileType.File:
            continue
        with system.open_input_stream(name) as file:
            text = file.read(_META_BYTES).decode("utf-8", "replace")
        found = re.search(r"^cluster\.id\s*[=:]\s*(\S+)", text, re.MULTILINE)
        if found:
            return found[1]
    return ""


def twice(topic: str, partition: int, one: str, other: str) -> ConfigError:
    return ConfigError(
        f"partition {partition} of {topic} is in both {one} and {other}:"
        " name the directory of one broker"
    )


def missing(path: str, topic: str) -> ConfigError:
    return ConfigError(
        f"{path} has no segment files of {topic}: expected {topic}-<partition>/*.log in it"
    )


def find_segments(path: str, topic: str = TOPIC) -> list[SegmentFile]:
    """List the segment files of a topic under a path, by partition and offset.

    Skips empty files (see `followed`), indexes, and files that a broker is about to delete or swap in. Follows links; a directory
    that is reached in several ways counts once. A partition whose files are gone, of which a broker's data directory still tells
    that it had records, is listed with an empty file, so that these count as missing.

    Raises:
        ConfigError: the path does not exist, it has no segment files, a directory in it may not be listed, or a
            partition is in two directories, as the copies of two brokers: both would be counted.
    """
    system, root = file_system(path)
    info = system.get_file_info(root)
    if info.type == fs.FileType.NotFound:
        raise ConfigError(f"{path} does not exist")
    name = re.compile(re.escape(topic) + "-" + NUMBER)
    if info.type == fs.FileType.File:
        match = name.fullmatch(Path(root).parent.name)
        if match is None or not SEGMENT.fullmatch(Path(root).name):
            raise ConfigError(
                f"{path} is not a segment file of a partition: expected"
                f" {topic}-<partition>/<offset of 20 digits>.log"
            )
        return [SegmentFile(root, int(match[1]), info.size)]
    noted: dict[str, dict[int, _Noted]] = {}
    read: dict[int, list[SegmentFile]] = {}
    empty: dict[int, list[SegmentFile]] = {}
    for folder in _folders(system, root, name):
        partition = int(name.fullmatch(Path(folder).name)[1])  # type: ignore[index] # _folders looked
        if partition > _LAST_PARTITION:
            continue
        directory = folder.rpartition("/")[0]
        if directory not in noted:
            # before the files: a broker that runs goes on to write
            noted[directory] = _noted(system, directory, topic)
        files = _files(system, folder, partition, noted[directory].get(partition, _Noted()))
        if not any(each.size for each in files):
            empty[partition] = files
        elif partition in read:
            other = read[partition][0].path.rpartition("/")[0]
            raise twice(topic, partition, other, folder)
        else:
            read[partition] = files
    if not read:
        raise missing(path, topic)
    lost = [] if name.fullmatch(Path(root).name) else list(_lost(noted, topic, read, empty))
    return followed([*(each for files in read.values() for each in files), *lost])


@dataclass(frozen=True, slots=True)
class _Noted:
    start: int | None = None
    end: int | None = None


def _noted(system: Any, directory: str, topic: str) -> dict[int, _Noted]:
    """Read where the partitions of a topic begin and end, as their broker has noted in a data directory."""
    starts = _checkpoint(system, f"{directory}/{_LOG_STARTS}", topic)
    ends: dict[int, int] = {}
    for name in _LOG_ENDS:
        for partition, offset in _checkpoint(system, f"{directory}/{name}", topic).items():
            ends[partition] = max(ends.get(partition, 0), offset)
    return {
        partition: _Noted(starts.get(partition), ends.get(partition))
        for partition in sorted({*starts, *ends})
    }


def _checkpoint(system: Any, path: str, topic: str) -> dict[int, int]:
    """Read the offsets of a topic's partitions from a broker's checkpoint; lines that are none are skipped."""
    if system.get_file_info(path).type != fs.FileType.File:
        return {}
    with system.open_input_stream(path) as file:
        text = file.read(_CHECKPOINT_BYTES).decode("utf-8", "replace")
    line = rf"^{re.escape(topic)} {NUMBER} ([0-9]{{1,18}})$"
    every = ((int(each[1]), int(each[2])) for each in re.finditer(line, text, re.MULTILINE))
    return {partition: offset for partition, offset in every if partition <= _LAST_PARTITION}


def _lost(
    noted: Mapping[str, Mapping[int, _Noted]],
    topic: str,
    read: Collection[int],
    empty: Mapping[int, list[SegmentFile]],
) -> Iterator[SegmentFile]:
    """Yield the files of partitions that are noted and have none with records: the empty ones, or one that is not there."""
    for directory, partitions in noted.items():
        for partition, known in partitions.items():
            if partition in read:
                continue
            start = known.start or 0
            path = f"{directory}/{topic}-{partition}/{start:020}.log"
            gone = SegmentFile(path, partition, 0, log_start=start, log_end=known.end)
            yield from empty.get(partition) or [gone]


def _folders(system: Any, root: str, name: "re.Pattern[str]") -> Iterator[str]:
    if name.fullmatch(Path(root).name):
        yield root
        return
    seen = {_place(system, root)}
    partitions: set[str] = set()
    level = [root]
    for _ in range(_DEPTH):
        below: list[str] = []
        for folder in level:
            for info in _listed(system, folder):
                if info.type != fs.FileType.Directory:
                    continue
                is_partition = name.fullmatch(info.base_name) is not None
                known, place = partitions if is_partition else seen, _place(system, info.path)
                if place in known:
                    continue
                known.add(place)
                if is_partition:
                    yield info.path
                elif info.base_name != _NOBODYS:
                    below.append(info.path)
        level = below


def _place(system: Any, path: str) -> str:
    """Return the real path of a directory: a link may lead back to one that was listed, or above it."""
    return os.path.realpath(path) if isinstance(system, fs.LocalFileSystem) else path


def _listed(system: Any, folder: str) -> list[Any]:
    try:
        # names are decoded when they are read
        return sorted(system.get_file_info(fs.FileSelector(folder)), key=lambda each: each.path)
    except PermissionError as error:
        raise ConfigError(
            f"{folder} may not be listed, and may have segment files: {error}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{folder} has a name in it that is not UTF-8: {error}") from error


def _files(system: Any, folder: str, partition: int, noted: _Noted) -> list[SegmentFile]:
    return [
        SegmentFile(info.path, partition, info.size, log_start=noted.start, log_end=noted.end)
        for info in _listed(system, folder)
        if info.type == fs.FileType.File and SEGMENT.fullmatch(info.base_name)
    ]


def segment_tasks(path: str, topic: str = TOPIC) -> list[SegmentTask]:
    """Return the tasks that read the segment files under a path, one for each file; see `find_segments`."""
    return [SegmentTask(path, each) for each in find_segments(path, topic)]
