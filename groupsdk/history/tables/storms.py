"""Make the table of rebalance storms: many generations of a group in a short time, and who is behind them."""

from pyspark.sql import DataFrame, Window, functions as f

from groupsdk.history.groups.causes import Cause
from groupsdk.history.tables.shape import Step, shaped


GENERATIONS = 5
"""So many generations..."""
WINDOW_MS = 300_000
"""...within so long make a storm."""


def storms(
    memberships: DataFrame,
    *,
    generations: int = GENERATIONS,
    window_ms: int = WINDOW_MS,
) -> Step:
    """Return the step from the table `generations` to `storms`.

    A storm lasts for as long as each of its generations is one of `generations` within `window_ms`. Its
    culprit is the client whose members came and went most often in it.

    Args:
        memberships: the table `memberships`.
        generations: how many make a storm.
        window_ms: within how long.
    """
    of_group = Window.partitionBy("group_id").orderBy("seq")
    ahead = f.lead("ts", generations - 1).over(of_group)
    starts = f.coalesce(f.unix_millis(ahead) - f.unix_millis("ts") <= window_ms, f.lit(False))
    covered = f.max("starts").over(of_group.rowsBetween(1 - generations, 0))
    # two storms are one if less than a window lies between them
    before = f.lag("stormy").over(of_group)
    gap = f.unix_millis("ts") - f.unix_millis(f.lag("ts").over(of_group))
    begins = f.col("stormy") & (~f.coalesce(before, f.lit(False)) | (gap > window_ms))

    def step(frame: DataFrame) -> DataFrame:
        stormy = (
            # what is there before anyone joins is no rebalance
            frame.filter(f.col("primary_cause") != str(Cause.CREATED))
            .withColumn("starts", starts)
            .withColumn("stormy", covered)
            .withColumn("begins", begins)
            .filter(f.col("stormy"))
            .withColumn("storm", f.sum(f.col("begins").cast("int")).over(of_group))
        )
        of_storm = ["group_id", "storm"]
        totals = stormy.groupBy(*of_storm).agg(
            f.min("ts").alias("start_ts"),
            f.max("ts").alias("end_ts"),
            f.min("seq").alias("first_seq"),
            f.max("seq").alias("last_seq"),
            f.count("*").alias("generations"),
            f.sum("moved").alias("moves"),
            f.coalesce(f.sum("commit_gap_ms"), f.lit(0)).alias("downtime_ms"),
        )
        causes = (
            stormy.groupBy(*of_storm, "primary_cause")
            .agg(f.count("*").cast("int").alias("n"))
            .groupBy(*of_storm)
            .agg(f.map_from_entries(f.collect_list(f.struct("primary_cause", "n"))).alias("causes"))
        )
        return (
            totals.join(causes, of_storm)
            .join(_culprits(stormy, memberships), of_storm, "left")
            .transform(shaped("storms"))
        )

    return step


def _culprits(stormy: DataFrame, memberships: DataFrame) -> DataFrame:
    came = memberships.select("group_id", "client_id", f.col("first_seq").alias("seq"))
    went = memberships.filter(f.col("end_ts").isNotNull()).select(
        "group_id", "client_id", (f.col("last_seq") + 1).alias("seq")
    )
    return (
        stormy.select("group_id", "storm", "seq")
        .join(came.unionByName(went), ["group_id", "seq"])
        .groupBy("group_id", "storm", "client_id")
        .agg(f.count("*").alias("culprit_changes"))
        .groupBy("group_id", "storm")
        .agg(
            # the name decides between two that did the same, so that a second run says the same
            f.max_by("client_id", f.struct("culprit_changes", "client_id")).alias("culprit_client"),
            f.max("culprit_changes").alias("culprit_changes"),
        )
    )
