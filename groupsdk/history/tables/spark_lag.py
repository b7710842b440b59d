"""Make the table `lag`: how far each group is behind, as far as known."""

from pyspark.sql import DataFrame, Window, functions as f

from groupsdk.history.read.reading import COMMITTED
from groupsdk.history.read.whole_log import LOWER_BOUND, SAMPLED
from groupsdk.history.tables.spark_columns import Step, as_declared


_PLACE = ("topic", "partition")


def lower_bounds(spans: DataFrame) -> DataFrame:
    """Make the table `lag` from `commit_spans` alone: the log does not hold the ends of partitions."""
    by_then = (
        Window.partitionBy(*_PLACE)
        .orderBy("last_commit_ts")
        .rangeBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        spans.withColumn("end_offset", f.max("last_offset").over(by_then))
        .withColumn("ts", f.col("last_commit_ts"))
        .withColumn("committed_offset", f.col("last_offset"))
        .withColumn("lag", f.col("end_offset") - f.col("last_offset"))
        .withColumn("time_lag_ms", f.lit(None))
        .withColumn("kind", f.lit(LOWER_BOUND))
        .transform(as_declared("lag"))
    )


def sampled(ends: DataFrame) -> Step:
    """Return the step from the table `offset_commits` to `lag`.

    Args:
        ends: samples of partitions' ends: `topic`, `partition`, `ts`, `end_offset`.

    The time lag is how long before the sample the partition's end was at the committed offset or below it:
    null where no sample is that old, or a later one has a lower end.
    """
    samples = ends.select(*_PLACE, "ts", f.col("end_offset").cast("bigint"))

    def step(commits: DataFrame) -> DataFrame:
        given = commits.filter(
            (f.col("state") == COMMITTED) & f.col("committed_offset").isNotNull()
        ).select(
            "group_id",
            *_PLACE,
            "ts",
            "committed_offset",
            f.lit(None).cast("bigint").alias("end_offset"),
            "src_partition",
            "src_offset",
        )
        wanted = given.select("group_id", *_PLACE).distinct().join(samples, [*_PLACE])
        marks = wanted.select(
            "group_id",
            *_PLACE,
            "ts",
            f.lit(None).cast("bigint").alias("committed_offset"),
            "end_offset",
        )
        so_far = (
            Window.partitionBy("group_id", *_PLACE)
            .orderBy("ts", f.col("end_offset").isNotNull(), "src_partition", "src_offset")
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        known = (
            given.unionByName(marks, allowMissingColumns=True)
            .withColumn("committed_offset", f.last("committed_offset", True).over(so_far))
            .filter(f.col("end_offset").isNotNull() & f.col("committed_offset").isNotNull())
            .drop("src_partition", "src_offset")
        )
        return (
            known.transform(_with_time_lag(samples))
            # a commit may be ahead of a sample that is older than it
            .withColumn(
                "lag", f.greatest(f.col("end_offset") - f.col("committed_offset"), f.lit(0))
            )
            .withColumn("kind", f.lit(SAMPLED))
            .transform(as_declared("lag"))
        )

    return step


def _with_time_lag(samples: DataFrame) -> Step:
    """Find for each row the last sample, not after it, whose end was not beyond its committed offset."""
    reached = samples.select(
        f.lit(None).cast("string").alias("group_id"),
        *_PLACE,
        "ts",
        f.col("end_offset").alias("committed_offset"),
        f.lit(None).cast("bigint").alias("end_offset"),
        f.col("ts").alias("reached_ts"),
    )
    up_to = (
        Window.partitionBy(*_PLACE)
        .orderBy("committed_offset", f.col("reached_ts").isNull())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )

    def step(frame: DataFrame) -> DataFrame:
        marked = frame.withColumn("reached_ts", f.lit(None).cast("timestamp"))
        return (
            marked.unionByName(reached)
            .withColumn("reached", f.max("reached_ts").over(up_to))
            .filter(f.col("group_id").isNotNull())
            .withColumn(
                "time_lag_ms",
                f.when(f.col("end_offset") <= f.col("committed_offset"), 0)
                # a later one: the end went back meanwhile, so its time means nothing
                .when(
                    f.col("reached") < f.col("ts"), f.unix_millis("ts") - f.unix_millis("reached")
                )
                .cast("bigint"),
            )
        )

    return step
