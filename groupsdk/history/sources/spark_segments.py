"""Read segment files of `__consumer_offsets` with Spark: the Data Source "groupsdk-segments"."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from groupsdk.errors import ConfigError
from groupsdk.history.session import is_remote
from groupsdk.history.sources import segment_files, spark_rows
from groupsdk.history.sources.filesystems import StorageDirectory
from groupsdk.history.tables.packed import packed
from groupsdk.lazy_imports import override
from groupsdk.wire.records.batch_walk import CHUNK_BYTES


FORMAT: Final = "groupsdk-segments"


class SegmentPartition(InputPartition):
    def __init__(self, task: segment_files.SegmentTask) -> None:
        self.task = task


class SegmentsDataSource(DataSource):
    """Read the segment files of a topic of a coordinator, in workers and with pyarrow.

    `spark.read.format("groupsdk-segments").load("/var/lib/kafka")`

    Options:
        path: a partition's directory (`__consumer_offsets-7`), a directory with such directories, or one
            with those of a broker's disks; a path, or a URI that pyarrow knows ("s3://...", "hdfs://...").
            Driver and executors have to see the same files.
        kind: "raw" or "read": see `groupsdk.history.sources.spark_rows`.
        topic: the topic; `__consumer_offsets` unless given.
        chunk_bytes: how much of a file a worker reads at once.
        buckets: with the kind "read", over how many buckets group records are spread; 1 unless given.
    """

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> str:
        return spark_rows.spark_ddl(spark_rows.shape_of(spark_rows.kind_of(self.options)))

    @override
    def reader(self, schema: Any) -> "SegmentsReader":
        return SegmentsReader(dict(self.options))


class SegmentsReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        path = options.get("path")
        if not path:
            raise ConfigError(f"{FORMAT} needs the path of segment files: load(path)")
        self._path = path
        self._topic = options.get("topic", segment_files.TOPIC)
        self._kind = spark_rows.kind_of(options)
        self._chunk_bytes = int(options.get("chunk_bytes", str(CHUNK_BYTES)))
        self._buckets = int(options.get("buckets", "1"))

    @override
    def partitions(self) -> Sequence[InputPartition]:
        return [
            SegmentPartition(segment_files.SegmentTask(self._path, each, self._chunk_bytes))
            for each in segment_files.find_segments(self._path, self._topic)
        ]

    @override
    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SegmentPartition)
        task = partition.task
        if self._kind != spark_rows.READ_KIND:
            return task.raw()
        return packed(task.read(), self._buckets)


def read_segments(spark: SparkSession, path: str) -> spark_rows.Reading:
    """Return a function that reads segment files, for `job.Inputs`; the path is as for `SegmentsDataSource`."""

    def frame(buckets: int) -> DataFrame:
        spark.dataSource.register(SegmentsDataSource)
        reader = spark.read.format(FORMAT).option("kind", spark_rows.READ_KIND)
        return reader.option("buckets", str(buckets)).load(path)

    if is_remote(spark):
        # the server lists the files, which this machine need not have
        return spark_rows.Reading(frame)
    return spark_rows.Reading(frame, lambda: segment_files.segment_tasks(path))


def read_with_spark(
    spark: SparkSession, path: str, topic: str = segment_files.TOPIC
) -> spark_rows.Reading:
    """Return a function that reads segment files through Spark's own file systems, such as "s3a://..." and "hdfs://...".

    Each file is a row until it is read, and takes twice its size in memory: Kafka's are 100 MiB. Where pyarrow knows
    the file system `SegmentsDataSource` reads them piece by piece. Raises ConfigError if Spark knows no such file
    system, there are no segment files, or a partition stands in two places.
    """
    segments = {each.path: each for each in _found_by_spark(spark, path, topic)}
    files = spark.read.format("binaryFile").load(sorted(segments)).select("path", "content")

    def frame(buckets: int) -> DataFrame:
        def run(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                for uri, data in zip(batch.column("path"), batch.column("content"), strict=True):
                    file = pa.BufferReader(data.as_buffer())
                    yield from packed(segment_files.read_file(file, segments[uri.as_py()]), buckets)

        return files.mapInArrow(run, spark_rows.PACKED_DDL)

    return spark_rows.Reading(frame)


def _found_by_spark(spark: SparkSession, path: str, topic: str) -> list[segment_files.SegmentFile]:
    store = StorageDirectory(spark, path)
    inside = [f"{above}{topic}-*/" for above in ("", "*/", "*/*/")]
    if store.root.rpartition("/")[2].startswith(f"{topic}-"):
        inside = [""]
    found: dict[str, segment_files.SegmentFile] = {}
    folders: dict[int, str] = {}
    for uri, size in (file for each in inside for file in store.find(f"{each}*.log")):
        folder, _, name = uri.rpartition("/")
        match = re.fullmatch(
            re.escape(topic) + "-" + segment_files.NUMBER, folder.rpartition("/")[2]
        )
        if match is None or not segment_files.SEGMENT.fullmatch(name):
            continue
        partition = int(match[1])
        if folders.setdefault(partition, folder) != folder:
            raise segment_files.twice(topic, partition, folders[partition], folder)
        found[uri] = segment_files.SegmentFile(uri, partition, size)
    segments = segment_files.followed(found.values())
    if not segments:
        raise segment_files.missing(path, topic)
    return segments
