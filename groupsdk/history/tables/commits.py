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


def commit_parts(commits: DataFrame) -> DataFrame:
    """Lay committed offsets out as the sums of `kernel.spans`, one for each commit; only what counts in the end."""
    return commits.filter(
        (f.col("state") == COMMITTED) & f.col("committed_offset").isNotNull()
    ).select(
        *("group_id", "topic", "partition"),
        f.col("ts").alias("first_commit_ts"),
        f.col("ts").alias("last_commit_ts"),
        f.col("committed_offset").alias("last_offset"),
        f.lit(1).cast("bigint").alias("commits"),
        *("src_partition", "src_offset"),
    )


def commit_spans(generations: DataFrame) -> Step:
    """Return the step from the parts of spans, as `commit_parts` gives them, to the table `commit_spans`.

    A group's commits and generations stand in one partition of the log, so their offsets order them. What
    was committed before the first generation, or without any, has the `seq` -1.

    Args:
        generations: with `group_id`, `seq`, `src_partition` and `src_offset`.
    """
    so_far = (
        Window.partitionBy("group_id")
        .orderBy("src_partition", "src_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )

    def step(parts: DataFrame) -> DataFrame:
        marks = generations.select("group_id", "src_partition", "src_offset", "seq")
        return (
            parts.unionByName(marks, allowMissingColumns=True)
            .withColumn("in_force", f.coalesce(f.last("seq", True).over(so_far), f.lit(-1)))
            .filter(f.col("seq").isNull())
            .groupBy("group_id", f.col("in_force").alias("seq"), "topic", "partition")
            .agg(
                f.min("first_commit_ts").alias("first_commit_ts"),
                f.max("last_commit_ts").alias("last_commit_ts"),
                f.max_by("last_offset", "src_offset").alias("last_offset"),
                f.sum("commits").alias("commits"),
                f.min("src_partition").alias("src_partition"),
                f.max("src_offset").alias("src_offset"),
            )
            .transform(shaped("commit_spans"))
        )

    return step
