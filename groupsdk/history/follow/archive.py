"""Keep raw records before compaction takes them, each exactly once, as Parquet files; and read raw records with Spark."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from groupsdk.history.read.reading import read_arrow_batches
from groupsdk.history.sources.spark_rows import PACKED_DDL, Reading, as_declared
from groupsdk.history.sources.spark_topic import FORMAT, TopicDataSource
from groupsdk.history.tables.packed import packed
from groupsdk.history.tables.schemas import RAW, TABLES


CHECKPOINT: Final = "_checkpoint"
TRIGGER: Final = "30 seconds"


def read_stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the stream of a live topic's raw records; see `sources.spark_topic.TopicDataSource` for the options."""
    spark.dataSource.register(TopicDataSource)
    return spark.readStream.format(FORMAT).options(**options).load()


def archive(
    stream: DataFrame, out: str, *, once: bool = False, trigger: str = TRIGGER
) -> StreamingQuery:
    """Write a stream of raw records below `out`, by day; returns the running query. With `once` it ends at the current end.

    Exactly once: the files of a batch count once they are in the sink's own log, and the checkpoint beside them has the
    position in the stream. A query that was stopped or killed continues from there. Move or delete both together.
    """
    writer = (
        stream.transform(as_declared(RAW))
        .writeStream.format("parquet")
        .partitionBy(*TABLES[RAW].partition_by)
        .option("path", f"{out.rstrip('/')}/{RAW}")
        .option("checkpointLocation", f"{out.rstrip('/')}/{CHECKPOINT}")
        .queryName("groupsdk history archive")
    )
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)
    return writer.start()


def read_archive(spark: SparkSession, out: str) -> DataFrame:
    """Read the archived records that the sink's log lists as complete."""
    table = TABLES[RAW]
    return spark.read.schema(table.ddl).parquet(f"{out.rstrip('/')}/{RAW}")


def read_raw(raw: DataFrame) -> Reading:
    """Return a function that reads raw records, for `job.Inputs`: rows with the columns of the table `raw_records`."""
    records = raw.transform(as_declared("raw_records"))

    def frame(buckets: int) -> DataFrame:
        def run(batches: Iterable[Any]) -> Iterator[Any]:
            return packed(read_arrow_batches(batches), buckets)

        return records.mapInArrow(run, PACKED_DDL)

    return Reading(frame)
