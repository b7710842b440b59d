"""Read with Spark what the tests need."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from groupsdk.history.sources.spark_segments import FORMAT, SegmentsDataSource
from groupsdk.history.tables.schemas import TABLES


def read_raw_segments(spark: SparkSession, path: Path) -> DataFrame:
    """Read the records of segment files as they stand there."""
    spark.dataSource.register(SegmentsDataSource)
    return spark.read.format(FORMAT).load(str(path))


TOPIC_NAMES = [("5Lg8OeAMQFCUaUVBd20FiA", "jobs"), ("CaotL4xPQ2OKVZ8FhT8vWQ", "events")]
"""The topics of the sample, which the driver of its groups wrote down."""


def topic_names(spark: SparkSession) -> DataFrame:
    """Name the topics of the sample."""
    return spark.createDataFrame(TOPIC_NAMES, "topic_id string, topic string")


def table(spark: SparkSession, name: str, *rows: dict[str, Any]) -> DataFrame:
    """Make a table of a few rows; what a row does not say is null."""
    declared = TABLES[name]
    unknown = {column for row in rows for column in row} - set(declared.columns)
    assert not unknown, f"{name} has no columns {unknown}"
    full = [tuple(row.get(column) for column in declared.columns) for row in rows]
    return spark.createDataFrame(full, declared.ddl)


def plain(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Collect some columns, in the order of the rows' own values."""
    found = [tuple(row) for row in frame.select(*columns).collect()]
    return sorted(found, key=str)
