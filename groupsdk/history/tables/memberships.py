"""Make the table of members' stays in their groups."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.groups.causes import Cause
from groupsdk.history.tables.following import MEMBERSHIP, of_kind
from groupsdk.history.tables.shape import Step, shaped


def memberships(departures: DataFrame, restarts: DataFrame | None = None) -> Step:
    """Return the step from events to the table `memberships`.

    Args:
        departures: of `departures.departures`; for the reason why a stay ended.
        restarts: of `restarts.restarts`; None: nothing is known of coordinators.
    """
    reasons = departures.select(
        "group_id", "member_id", f.col("seq").alias("end_seq"), f.col("reason").alias("told")
    )

    again = (f.col("end_reason") == str(Cause.CLIENT_RESTART)) & f.col("lost").isNotNull()

    def step(events: DataFrame) -> DataFrame:
        stays = events.transform(of_kind(MEMBERSHIP))
        if restarts is None:
            stays = stays.withColumn("lost", f.lit(None).cast("double"))
        else:
            lost = restarts.withColumnsRenamed({"seq": "end_seq", "restart_confidence": "lost"})
            stays = stays.join(lost, ["group_id", "end_seq"], "left")
        return (
            stays.join(reasons, ["group_id", "member_id", "end_seq"], "left")
            .withColumn("end_reason", f.coalesce("end_reason", "told"))
            .withColumn(
                "end_reason",
                f.when(again, str(Cause.COORDINATOR_RESTART)).otherwise(f.col("end_reason")),
            )
            .withColumn("stay_ms", f.unix_millis("end_ts") - f.unix_millis("start_ts"))
            .transform(shaped("memberships"))
        )

    return step
