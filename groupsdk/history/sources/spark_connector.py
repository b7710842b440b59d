"""Read a live `__consumer_offsets` with Spark's own Kafka connector, whose jar must be available."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, functions as f

from groupsdk.history.sources.segment_files import TOPIC
from groupsdk.history.sources.spark_rows import as_declared


DEPRECATED_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Without this setting Spark lists partitions in a way that leaves internal topics out, and reads nothing."""


def read_with_connector(
    spark: SparkSession,
    bootstrap_servers: str,
    partitions: Sequence[int],
    *,
    topic: str = TOPIC,
    stream: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read raw records with Spark's connector; see `session.connector_settings` for its jar.

    The options are the ones that matter: named partitions ("assign"), as with "subscribe" the driver joins a
    group and writes into the very topic that is read; and read_committed, as offsets of aborted transactions
    would count otherwise. What ends transactions is not shown by the connector, so all that is read is
    committed. `transactional` is false therefore, and producers and leader epochs are not known.

    Args:
        partitions: which to read: a number of partitions is 0 to that number, such as `range(50)`.
        options: more options of the connector, which go before these.
    """
    spark.conf.set(DEPRECATED_FETCHING, "true")
    reader = spark.readStream if stream else spark.read
    settings = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "assign": json.dumps({topic: list(partitions)}),
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        **(options or {}),
    }
    frame = reader.format("kafka").options(**settings).load()
    return from_connector(frame)


def from_connector(frame: DataFrame) -> DataFrame:
    """Convert the connector's rows to the columns of `raw_records`."""
    return frame.select(
        f.col("partition").alias("src_partition"),
        f.col("offset").alias("src_offset"),
        f.col("timestamp").alias("ts"),
        f.lit(-1).alias("leader_epoch"),
        f.lit(-1).cast("bigint").alias("producer_id"),
        f.lit(-1).cast("smallint").alias("producer_epoch"),
        f.lit(False).alias("transactional"),
        f.lit(False).alias("control"),
        "key",
        "value",
        f.to_date("timestamp").alias("day"),
    ).transform(as_declared("raw_records"))
