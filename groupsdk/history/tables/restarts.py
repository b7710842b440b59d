"""Tell which rebalances came of a coordinator that was away, and not of clients that started again."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.groups.causes import CONFIDENCE, Cause
from groupsdk.history.tables.following import GENERATION, of_kind
from groupsdk.history.tables.shape import Step


RECOVERY_MS = 120_000
"""Within so long after another coordinator took over, clients that had lost their places are back."""
WORKING_MS = 60_000
"""A group that commits for so long under the new coordinator has got over it: one commit may be the last of old members."""
_ALONE = 0.5
"""The confidence where nothing else in the log tells when it took over."""


def restarts(commits: DataFrame, rest: DataFrame) -> Step:
    """Return the step from events to the generations in which clients came again for want of a coordinator.

    A client that cannot reach its coordinator for as long as its session lasts gives its place up, and comes with
    another member id when the coordinator is back. In the log that looks as if it had started again. It did not where
    the coordinator had just changed, and the group had not gone on committing under the new one.

    Args:
        commits: the table `offset_commits`.
        rest: records of the kind "rest".

    Returns:
        `group_id`, `seq` and `restart_confidence`.
    """
    place = ["src_partition", "leader_epoch"]

    def step(events: DataFrame) -> DataFrame:
        suspects = (
            events.transform(of_kind(GENERATION))
            .filter(
                f.col("coordinator_changed") & f.array_contains("causes", str(Cause.CLIENT_RESTART))
            )
            .select("group_id", "seq", "ts", *place)
        )
        told = commits.filter(f.col("committed_offset").isNotNull()).join(
            f.broadcast(suspects.select(*place).distinct()), place
        )
        committed = told.groupBy("group_id", *place).agg(f.min("ts").alias("working_since"))
        written = (
            rest.filter(f.col("ts").isNotNull()).groupBy(*place).agg(f.min("ts").alias("since"))
        )
        took_over = (
            committed.select(*place, f.col("working_since").alias("since"))
            .unionByName(written)
            .groupBy(*place)
            .agg(f.min("since").alias("since"))
        )
        alone = f.col("since") >= f.col("ts")
        return (
            suspects.join(took_over, place)
            .join(committed, ["group_id", *place], "left")
            .filter(f.unix_millis("ts") - f.unix_millis("since") <= RECOVERY_MS)
            .filter(
                f.coalesce(
                    f.unix_millis("ts") - f.unix_millis("working_since") < WORKING_MS, f.lit(True)
                )
            )
            .select(
                *("group_id", "seq"),
                f.when(alone, _ALONE)
                .otherwise(CONFIDENCE[Cause.COORDINATOR_RESTART])
                .alias("restart_confidence"),
            )
        )

    return step
