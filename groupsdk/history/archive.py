"""Keep raw records before compaction takes them: a stream into Parquet files, each record exactly once."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from groupsdk.history.schemas import TABLES
from groupsdk.history.sources.archive_files import RAW as RAW
from groupsdk.history.sources.topic import FORMAT, TopicDataSource
from groupsdk.history.tables.shape import shaped


CHECKPOINT: Final = "_checkpoint"
TRIGGER: Final = "30 seconds"


def read_stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return the stream of a live topic's raw records; see `sources.topic.TopicDataSource` for the options."""
    spark.dataSource.register(TopicDataSource)
    return spark.readStream.format(FORMAT).options(**options).load()


def archive(
    stream: DataFrame, out: str, *, once: bool = False, trigger: str = TRIGGER
) -> StreamingQuery:
    """Write a stream of raw records below `out`, by day; returns the running query.

    Exactly once: the files of a batch count when they stand in the sink's own log, and how far the stream
    was read is in the checkpoint beside them. A query that was stopped or killed goes on from there; both
    belong together, so move or delete them together.

    Args:
        stream: of `read_stream`, or of `sources.connector.read_with_connector`.
        out: a directory that driver and executors share.
        once: read what is there and end; otherwise go on until it is stopped.
        trigger: how often to write, where it goes on; each time makes new files.
    """
    writer = (
        stream.transform(shaped(RAW))
        .writeStream.format("parquet")
        .partitionBy(*TABLES[RAW].partition_by)
        .option("path", f"{out.rstrip('/')}/{RAW}")
        .option("checkpointLocation", f"{out.rstrip('/')}/{CHECKPOINT}")
        .queryName("groupsdk history archive")
    )
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)
    return writer.start()


def read_archive(spark: SparkSession, out: str) -> DataFrame:
    """Read what was archived: only what the sink's log says is complete."""
    table = TABLES[RAW]
    return spark.read.schema(table.ddl).parquet(f"{out.rstrip('/')}/{RAW}")
