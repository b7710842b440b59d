"""Make the table of partitions that went from one member to another."""

from pyspark.sql import DataFrame, Window, functions as f

from groupsdk.history.tables.assignments import owned
from groupsdk.history.tables.shape import Step, shaped


def moves(spans: DataFrame) -> Step:
    """Return the step from the table `assignments` to `moves`.

    A partition that nobody had for some generations, as between the two rounds of a cooperative
    rebalance, moved from who had it last.

    Args:
        spans: the table `commit_spans`.
    """
    of_partition = Window.partitionBy("group_id", "topic", "partition").orderBy("seq")
    last = spans.select(
        "group_id",
        "topic",
        "partition",
        f.col("seq").alias("from_seq"),
        f.col("last_commit_ts").alias("last_of_from"),
    )
    first = spans.select(
        "group_id", "topic", "partition", "seq", f.col("first_commit_ts").alias("first_of_to")
    )
    place = ["group_id", "topic", "partition"]

    def step(assignments: DataFrame) -> DataFrame:
        return (
            assignments.filter(owned())
            .withColumn("from_member", f.lag("member_id").over(of_partition))
            .withColumn("from_client", f.lag("client_id").over(of_partition))
            .withColumn("from_seq", f.lag("seq").over(of_partition))
            .filter(f.col("from_member") != f.col("member_id"))
            .withColumnsRenamed({"member_id": "to_member", "client_id": "to_client"})
            .withColumn("idle_generations", f.col("seq") - f.col("from_seq") - 1)
            .withColumn("same_client", f.col("from_client") == f.col("to_client"))
            .join(last, [*place, "from_seq"], "left")
            .join(first, [*place, "seq"], "left")
            .withColumn(
                "gap_ms",
                f.unix_millis("first_of_to") - f.unix_millis("last_of_from"),
            )
            .transform(shaped("moves"))
        )

    return step
