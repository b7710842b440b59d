"""Make the table of partitions that went from one member to another."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.tables.following import MOVE, of_kind
from groupsdk.history.tables.shape import Step, shaped


def moves(spans: DataFrame) -> Step:
    """Return the step from events to the table `moves`.

    Args:
        spans: the table `commit_spans`; for how long nobody committed.
    """
    place = ["group_id", "topic", "partition"]
    last = spans.select(
        *place, f.col("seq").alias("from_seq"), f.col("last_commit_ts").alias("last_of_from")
    )
    first = spans.select(*place, "seq", f.col("first_commit_ts").alias("first_of_to"))

    def step(events: DataFrame) -> DataFrame:
        return (
            events.transform(of_kind(MOVE))
            .withColumn("idle_generations", f.col("seq") - f.col("from_seq") - 1)
            .withColumn("same_client", f.col("from_client") == f.col("to_client"))
            .join(last, [*place, "from_seq"], "left")
            .join(first, [*place, "seq"], "left")
            .withColumn("gap_ms", f.unix_millis("first_of_to") - f.unix_millis("last_of_from"))
            .transform(shaped("moves"))
        )

    return step
