"""Say what the columns of assignments mean: the names of their topics, and which of them are ownership."""

from pyspark.sql import Column, DataFrame, functions as f

from groupsdk.history.groups.owners import OWNED
from groupsdk.history.tables.shape import Step


def named(names: DataFrame) -> Step:
    """Return the step that puts a topic's name in the place of its id in the column `topic`.

    Adds `topic_id`. A topic of a classic group has its name already; an id that is not known stays.
    """
    known = names.select(f.col("topic_id").alias("known_id"), f.col("topic").alias("known_name"))

    def step(frame: DataFrame) -> DataFrame:
        is_id = f.col("protocol") != "classic"
        return (
            frame.join(f.broadcast(known), is_id & (f.col("topic") == f.col("known_id")), "left")
            .withColumn("topic_id", f.when(is_id, f.col("topic")))
            .withColumn("topic", f.coalesce("known_name", "topic"))
            .drop("known_id", "known_name")
        )

    return step


def owned() -> Column:
    """Tell which assignments count as ownership; the partitions of share groups have no owner."""
    return f.col("phase").isin(*OWNED) & (f.col("protocol") != "share")
