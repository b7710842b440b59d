"""Learn the names of topics that records of the newer protocols name by their ids."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.tables.following import TOPIC, of_kind
from groupsdk.history.tables.shape import shaped


def topics(events: DataFrame, commits: DataFrame, given: DataFrame | None = None) -> DataFrame:
    """Make the table `topics` from what the log tells, and from what the user gives.

    Commits name a topic by both since Kafka 4.1, records of type 4 did so before it.

    Args:
        events: of `following.events`.
        commits: the table `offset_commits`.
        given: `topic_id` and `topic`, as asked from a cluster; goes before what the log tells.
    """
    told = (
        events.transform(of_kind(TOPIC))
        .unionByName(commits.filter(f.col("topic_id").isNotNull()).select("topic_id", "topic"))
        .withColumn("rank", f.lit(1))
    )
    if given is not None:
        told = told.unionByName(given.select("topic_id", "topic").withColumn("rank", f.lit(0)))
    return (
        told.groupBy("topic_id")
        .agg(f.min_by("topic", f.struct("rank", "topic")).alias("topic"))
        .transform(shaped("topics"))
    )
