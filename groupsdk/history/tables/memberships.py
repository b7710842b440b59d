"""Make the table of members' stays in their groups."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.tables.following import MEMBERSHIP, of_kind
from groupsdk.history.tables.shape import Step, shaped


def memberships(departures: DataFrame) -> Step:
    """Return the step from events to the table `memberships`.

    Args:
        departures: of `departures.departures`; for the reason why a stay ended.
    """
    reasons = departures.select(
        "group_id", "member_id", f.col("seq").alias("end_seq"), f.col("reason").alias("told")
    )

    def step(events: DataFrame) -> DataFrame:
        return (
            events.transform(of_kind(MEMBERSHIP))
            .join(reasons, ["group_id", "member_id", "end_seq"], "left")
            .withColumn("end_reason", f.coalesce("end_reason", "told"))
            .transform(shaped("memberships"))
        )

    return step
