"""Read segment files of `__consumer_offsets` with Spark: the Data Source "groupsdk-segments"."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.history.kernel.batches import Records
from groupsdk.history.kernel.rows import Reject, reject_rows
from groupsdk.history.kernel.segments import CHUNK_BYTES, Chunk, Unread, read_segment
from groupsdk.history.sources.kinds import RAW_KIND, REST_KIND, cut, shape_of, spark_ddl
from groupsdk.history.sources.landing import Landing
from groupsdk.history.sources.places import Store, file_system


FORMAT: Final = "groupsdk-segments"
TOPIC: Final = "__consumer_offsets"
Cutter = Callable[[Records, int, str], Iterator[Any]]
"""Makes rows of records, of a partition of the log and from the place that is named."""

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log")
_NUMBER: Final = "(0|[1-9][0-9]{0,9})"  # as Kafka writes partitions
_LAST_PARTITION: Final = 2**31 - 1
_DEPTH: Final = 3  # of a folder with the data directories of a broker
_NOBODYS: Final = "lost+found"  # root's alone on every disk of its own


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One segment file of one partition."""

    path: str
    """As its file system names it."""
    partition: int
    size: int


class SegmentPartition(InputPartition):
    """One segment file, to be read by one task."""

    def __init__(self, root: str, segment: SegmentFile) -> None:
        self.root = root
        self.segment = segment


class SegmentsDataSource(DataSource):
    """Read the segment files of a topic of a coordinator, in workers and with pyarrow.

    `spark.read.format("groupsdk-segments").option("kind", "raw").load("/var/lib/kafka")`

    Options:
        path: a partition's directory (`__consumer_offsets-7`), a directory with such directories, or one
            with those of a broker's disks; a path, or a URI that pyarrow knows ("s3://...", "hdfs://...").
            Driver and executors have to see the same files.
        kind: "raw", "commits" or "rest": see `groupsdk.history.sources.kinds`.
        topic: the topic; `__consumer_offsets` unless given.
        chunk_bytes: how much of a file a worker reads at once.
        land: a directory of tables, with the kind "rest" only: what is read of committed offsets is written
            there; see `groupsdk.history.sources.landing`.
    """

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> str:
        return spark_ddl(shape_of(self.options.get("kind", RAW_KIND)))

    @override
    def reader(self, schema: Any) -> "SegmentsReader":
        return SegmentsReader(dict(self.options))


class SegmentsReader(DataSourceReader):
    """List the files on the driver, and read each in a worker."""

    def __init__(self, options: dict[str, str]) -> None:
        path = options.get("path")
        if not path:
            raise ConfigError(f"{FORMAT} needs the path of segment files: load(path)")
        self._path = path
        self._topic = options.get("topic", TOPIC)
        self._kind = options.get("kind", RAW_KIND)
        self._chunk_bytes = int(options.get("chunk_bytes", str(CHUNK_BYTES)))
        self._land = options.get("land")
        if self._land and self._kind != REST_KIND:
            raise ConfigError(
                f"{FORMAT} has land={self._land!r} with the kind {self._kind!r}: it goes with the kind"
                f" {REST_KIND!r}, as the others are given whole"
            )

    @override
    def partitions(self) -> Sequence[InputPartition]:
        return [
            SegmentPartition(self._path, each) for each in find_segments(self._path, self._topic)
        ]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SegmentPartition)
        system, _ = file_system(partition.root)
        segment = partition.segment
        with system.open_input_stream(segment.path) as file:
            if self._land:
                yield from land_rows(file, segment, self._land, chunk_bytes=self._chunk_bytes)
            else:
                yield from read_rows(file, segment, self._kind, chunk_bytes=self._chunk_bytes)


def land_rows(
    file: Any, segment: SegmentFile, root: str, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Any]:
    """Write the committed offsets of a segment file below `root`, and give its other rows."""
    system, inner = file_system(root)
    name = f"part-{segment.partition:05}-{Path(segment.path).stem}"
    landing = Landing(system, inner, name)
    try:
        yield from read_rows(file, segment, REST_KIND, chunk_bytes=chunk_bytes, cutter=landing.take)
        landing.close()
    finally:
        landing.abandon()


def read_rows(
    file: Any,
    segment: SegmentFile,
    kind: str,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    cutter: Cutter | None = None,
) -> Iterator[Any]:
    """Give the rows of a segment file as record batches of one kind.

    Args:
        file: opened for reading.
        segment: which one it is.
        kind: of the rows; see `groupsdk.history.sources.kinds`.
        chunk_bytes: how much to read at once.
        cutter: what makes rows of records, in the place of `kinds.cut`.
    """
    cutter = cutter or partial(cut, kind)
    for found in read_segment(file, chunk_bytes=chunk_bytes):
        rejects = []
        if isinstance(found, Unread):
            place = f"{segment.path}:{found.position}"
            rejects.append(Reject(None, place, found.reason, 0))
        else:
            yield from cutter(found.records, segment.partition, segment.path)
            rejects += _bad_batches(found, segment)
        if rejects and kind == REST_KIND:
            yield reject_rows(rejects, segment.partition)


def _bad_batches(chunk: Chunk, segment: SegmentFile) -> Iterator[Reject]:
    for bad in chunk.records.bad:
        place = f"{segment.path}:{chunk.position + bad.position}"
        yield Reject(bad.base_offset, place, bad.reason, bad.records_count)


def land_segments(spark: SparkSession, path: str) -> Callable[[str], DataFrame]:
    """Return what reads segment files at once, for `job.Inputs.land`.

    Args:
        spark: the session.
        path: of the files, as for `SegmentsDataSource`.
    """
    spark.dataSource.register(SegmentsDataSource)

    def land(root: str) -> DataFrame:
        return spark.read.format(FORMAT).option("kind", REST_KIND).option("land", root).load(path)

    return land


def read_with_spark(
    spark: SparkSession, path: str, kind: str = RAW_KIND, topic: str = TOPIC
) -> DataFrame:
    """Read segment files through Spark's own file systems, such as "s3a://..." and "hdfs://...".

    Each file is a row until it is read, and takes twice its size in memory: Kafka's are 100 MiB. Where pyarrow knows
    the file system `SegmentsDataSource` reads them piece by piece.

    Args:
        spark: the session, with the jars and settings of the file system.
        path: as for `SegmentsDataSource`; a URI.
        kind: of the rows; see `groupsdk.history.sources.kinds`.
        topic: the topic.

    Raises:
        ConfigError: Spark knows no such file system, there are no segment files, or a partition stands in two places.
    """
    partitions = {each.path: each.partition for each in _found_by_spark(spark, path, topic)}

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for uri, data in zip(batch.column("path"), batch.column("content"), strict=True):
                segment = SegmentFile(uri.as_py(), partitions[uri.as_py()], len(data.as_buffer()))
                yield from read_rows(pa.BufferReader(data.as_buffer()), segment, kind)

    files = spark.read.format("binaryFile").load(sorted(partitions))
    return files.select("path", "content").mapInArrow(run, spark_ddl(shape_of(kind)))


def _found_by_spark(spark: SparkSession, path: str, topic: str) -> list[SegmentFile]:
    store = Store(spark, path)
    inside = [f"{above}{topic}-*/" for above in ("", "*/", "*/*/")]
    if store.root.rpartition("/")[2].startswith(f"{topic}-"):
        inside = [""]
    found: dict[str, SegmentFile] = {}
    folders: dict[int, str] = {}
    for uri, size in (file for each in inside for file in store.find(f"{each}*.log")):
        folder, _, name = uri.rpartition("/")
        match = re.fullmatch(re.escape(topic) + "-" + _NUMBER, folder.rpartition("/")[2])
        if match is None or not size or not _SEGMENT.fullmatch(name):
            continue
        partition = int(match[1])
        if folders.setdefault(partition, folder) != folder:
            raise _twice(topic, partition, folders[partition], folder)
        found[uri] = SegmentFile(uri, partition, size)
    if not found:
        raise _missing(path, topic)
    return list(found.values())


def _twice(topic: str, partition: int, one: str, other: str) -> ConfigError:
    return ConfigError(
        f"partition {partition} of {topic} stands in {one} and in {other}:"
        " name the directory of one broker"
    )


def _missing(path: str, topic: str) -> ConfigError:
    return ConfigError(
        f"{path} has no segment files of {topic}: expected {topic}-<partition>/*.log in it"
    )


def find_segments(path: str, topic: str = TOPIC) -> list[SegmentFile]:
    """List the segment files of a topic under a path, by partition and offset.

    Empty files, indexes, and what a broker is about to delete or swap in are left out. Links are followed; a
    directory that is reached in several ways counts once.

    Raises:
        ConfigError: there is no such path, it has no segment files, something in it may not be listed, or a
            partition stands in two places, as the copies that two brokers have of it: both would be counted.
    """
    system, root = file_system(path)
    info = system.get_file_info(root)
    if info.type == fs.FileType.NotFound:
        raise ConfigError(f"there is no {path}")
    name = re.compile(re.escape(topic) + "-" + _NUMBER)
    found: dict[int, str] = {}
    segments: list[SegmentFile] = []
    if info.type == fs.FileType.File:
        match = name.fullmatch(Path(root).parent.name)
        if match is None or not _SEGMENT.fullmatch(Path(root).name):
            raise ConfigError(
                f"{path} is no segment file of a partition: its place would be"
                f" {topic}-<partition>/<offset of 20 digits>.log"
            )
        return [SegmentFile(root, int(match[1]), info.size)]
    for folder in _folders(system, root, name):
        partition = int(name.fullmatch(Path(folder).name)[1])  # type: ignore[index] # _folders looked
        if partition > _LAST_PARTITION:
            continue
        files = _files(system, folder, partition)
        if files and found.setdefault(partition, folder) != folder:
            raise _twice(topic, partition, found[partition], folder)
        segments += files
    if not segments:
        raise _missing(path, topic)
    return sorted(segments, key=lambda each: (each.partition, Path(each.path).name))


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
    """Tell where a directory really is: a link may lead back to one that was listed, or above it."""
    return str(Path(path).resolve()) if isinstance(system, fs.LocalFileSystem) else path


def _listed(system: Any, folder: str) -> list[Any]:
    try:
        # names are decoded as they are asked for
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
        if info.type == fs.FileType.File and info.size and _SEGMENT.fullmatch(info.base_name)
    ]
