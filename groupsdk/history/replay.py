"""Sum up what other assignors would have made of the recorded generations."""

from typing import Final

from pyspark.sql import DataFrame, Window, functions as f

from groupsdk.history.tables.shape import shaped


DEFAULT_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""What is replayed unless the user says otherwise; names, for the package `assignors` to know."""


def summary(replayed: DataFrame) -> DataFrame:
    """Make the table `replay_summary` from `replay`.

    The assignor that moves least is the first of its group; among equals, the one that is more even.
    """
    of_group = Window.partitionBy("group_id").orderBy(
        f.col("problems"), f.col("moves"), f.col("mean_stddev"), f.col("revoked")
    )
    done = f.col("problem").isNull()
    return (
        replayed.groupBy("group_id", "assignor")
        .agg(
            f.count("*").alias("generations"),
            f.sum("moved").alias("moves"),
            f.sum("revoked").alias("revoked"),
            f.avg(f.when(done, f.col("stddev"))).alias("mean_stddev"),
            f.max(f.col("max_load") - f.col("min_load")).alias("worst_spread"),
            f.count_if(~done).alias("problems"),
        )
        .withColumn("rank", f.rank().over(of_group))
        .transform(shaped("replay_summary"))
    )
