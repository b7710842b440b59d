"""Make the table of committed offsets, and sum up what was committed while each generation lasted."""

from pyspark.sql import Column, DataFrame, Window, functions as f

from groupsdk.history.tables.shape import Step, shaped
from groupsdk.history.tables.transactions import COMMITTED, with_state


def offset_commits(ends: DataFrame) -> Step:
    """Return the step from records of the kind "commits" to the table `offset_commits`.

    Args:
        ends: of `transactions.outcomes`.
    """

    def step(commits: DataFrame) -> DataFrame:
        return (
            commits.transform(with_state(ends))
            .withColumn("topic_id", topic_id_text("topic_id"))
            .transform(shaped("offset_commits"))
        )

    return step


def topic_id_text(column: str) -> Column:
    """Write a topic's id as Kafka's tools do: URL-safe base64 without padding."""
    return f.rtrim(f.translate(f.base64(f.col(column)), "+/=", "-_ "))


def commit_spans(generations: DataFrame) -> Step:
    """Return the step from the table `offset_commits` to `commit_spans`.

    A group's commits and generations stand in one partition of the log, so their offsets order them. What
    was committed before the first generation, or without any, has the `seq` -1. Only what was committed in
    the end counts.

    Args:
        generations: with `group_id`, `seq`, `src_partition` and `src_offset`.
    """
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("src_partition", "src_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )

    def step(commits: DataFrame) -> DataFrame:
        given = commits.filter(
            (f.col("state") == COMMITTED) & f.col("committed_offset").isNotNull()
        ).select(
            "group_id",
            "topic",
            "partition",
            "ts",
            "committed_offset",
            "src_partition",
            "src_offset",
            f.lit(None).cast("bigint").alias("seq"),
        )
        marks = generations.select(
            "group_id",
            f.lit(None).cast("string").alias("topic"),
            f.lit(None).cast("int").alias("partition"),
            f.lit(None).cast("timestamp").alias("ts"),
            f.lit(None).cast("bigint").alias("committed_offset"),
            "src_partition",
            "src_offset",
            "seq",
        )
        return (
            given.unionByName(marks)
            .withColumn("in_force", f.coalesce(f.last("seq", True).over(so_far), f.lit(-1)))
            .filter(f.col("seq").isNull())
            .groupBy("group_id", f.col("in_force").alias("seq"), "topic", "partition")
            .agg(
                f.min("ts").alias("first_commit_ts"),
                f.max("ts").alias("last_commit_ts"),
                f.max_by("committed_offset", "src_offset").alias("last_offset"),
                f.count("*").alias("commits"),
                f.min("src_partition").alias("src_partition"),
                f.max("src_offset").alias("src_offset"),
            )
            .transform(shaped("commit_spans"))
        )

    return step
