"""Find the segment files of a coordinator's topic, and read them."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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

    Empty files are left out, but for a first one before others: a broker begins the next file only when it has records.
    """
    found: list[SegmentFile] = []
    every = sorted(segments, key=lambda each: (each.partition, each.first_offset))
    for _, files in groupby(every, key=lambda each: each.partition):
        mine = list(files)
        full = [each for each in mine if each.size]
        if not full:
            continue
        if not mine[0].size:
            full.insert(0, mine[0])
        ends = [*(each.first_offset for each in full[1:]), None]
        found += [
            replace(each, end_offset=end, is_first=each is full[0])
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
        system, _ = file_system(self.root)
        with system.open_input_stream(self.segment.path) as file:
            yield from read_file(file, self.segment, chunk_bytes=self.chunk_bytes)

    def raw(self) -> Iterator[Any]:
        """Yield the undecoded records, as rows of the schema `read.arrow_rows.RAW`."""
        system, _ = file_system(self.root)
        with system.open_input_stream(self.segment.path) as file:
            for found in _pieces(file, self.segment, self.chunk_bytes):
                if isinstance(found, Chunk):
                    records = self.segment.own(found.records)
                    if len(records):
                        yield raw_rows(records, self.segment.partition)


def read_file(file: Any, segment: SegmentFile, *, chunk_bytes: int = CHUNK_BYTES) -> TableBatches:
    reader = Reader()
    if segment.is_first:
        reader.begin(segment.partition, segment.first_offset, segment.end_offset)
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
    that is reached in several ways counts once.

    Raises:
        ConfigError: the path does not exist, it has no segment files, a directory in it may not be listed, or a
            partition is in two directories, as the copies of two brokers: both would be counted.
    """
    system, root = file_system(path)
    info = system.get_file_info(root)
    if info.type == fs.FileType.NotFound:
        raise ConfigError(f"{path} does not exist")
    name = re.compile(re.escape(topic) + "-" + NUMBER)
    found: dict[int, str] = {}
    segments: list[SegmentFile] = []
    if info.type == fs.FileType.File:
        match = name.fullmatch(Path(root).parent.name)
        if match is None or not SEGMENT.fullmatch(Path(root).name):
            raise ConfigError(
                f"{path} is not a segment file of a partition: expected"
                f" {topic}-<partition>/<offset of 20 digits>.log"
            )
        return [SegmentFile(root, int(match[1]), info.size)]
    for folder in _folders(system, root, name):
        partition = int(name.fullmatch(Path(folder).name)[1])  # type: ignore[index] # _folders looked
        if partition > _LAST_PARTITION:
            continue
        files = _files(system, folder, partition)
        is_read = any(each.size for each in files)
        if is_read and found.setdefault(partition, folder) != folder:
            raise twice(topic, partition, found[partition], folder)
        segments += files if is_read else []
    if not segments:
        raise missing(path, topic)
    return followed(segments)


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


def _files(system: Any, folder: str, partition: int) -> list[SegmentFile]:
    return [
        SegmentFile(info.path, partition, info.size)
        for info in _listed(system, folder)
        if info.type == fs.FileType.File and SEGMENT.fullmatch(info.base_name)
    ]


def segment_tasks(path: str, topic: str = TOPIC) -> list[SegmentTask]:
    """Return the tasks that read the segment files under a path, one for each file; see `find_segments`."""
    return [SegmentTask(path, each) for each in find_segments(path, topic)]
