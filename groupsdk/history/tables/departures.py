"""Tell of members that are gone whether they left or their sessions timed out."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.groups.causes import Cause
from groupsdk.history.tables.assignments import named
from groupsdk.history.tables.following import DEPARTURE, of_kind
from groupsdk.history.tables.shape import Step


DEFAULT_SESSION_TIMEOUT_MS = 45_000
"""Of a member of a newer protocol, whose session timeout is the broker's to know."""
_SURE, _LIKELY, _GUESS = 0.9, 0.7, 0.4


def departures(
    names: DataFrame,
    spans: DataFrame,
    generations: DataFrame,
    *,
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
) -> Step:
    """Return the step from events to one row for each member that is gone without a successor.

    A member that leaves commits on its way out, or has committed not long ago; one that died has been
    silent for its session timeout at least. Where it was silent but never committed more often than that,
    or had nothing to commit, the log shows little: the `confidence` says so.

    Args:
        names: the table `topics`.
        spans: the table `commit_spans`.
        generations: with `group_id`, `seq` and `ts`.
        session_timeout_ms: of members whose records do not say.

    Returns:
        `group_id`, `seq` (the first generation without it), `member_id`, `client_id`, `reason` ("leave" or
        "expiry"), `confidence` and `silence_ms`.
    """
    began = generations.select(
        "group_id", (f.col("seq") + 1).alias("seq"), f.col("ts").alias("before_ts")
    )
    before = spans.select(
        "group_id",
        (f.col("seq") + 1).alias("seq"),
        "topic",
        "partition",
        "first_commit_ts",
        "last_commit_ts",
        "commits",
    )

    def step(events: DataFrame) -> DataFrame:
        gone = events.transform(of_kind(DEPARTURE)).withColumn(
            "timeout_ms",
            f.when(f.col("session_timeout_ms") < 0, session_timeout_ms).otherwise(
                f.col("session_timeout_ms")
            ),
        )
        # the names of topics do not matter to members of the classic protocol, whose records have them
        had = (
            gone.withColumn("each", f.explode("assigned"))
            .withColumn("partition", f.explode("each.partitions"))
            .withColumn("topic", f.col("each.topic"))
            .withColumn(
                "protocol", f.when(f.col("session_timeout_ms") < 0, "consumer").otherwise("classic")
            )
            .transform(named(names))
        )
        committed = (
            had.join(before, ["group_id", "seq", "topic", "partition"])
            .groupBy("group_id", "seq", "member_id")
            .agg(
                f.max("last_commit_ts").alias("last_ts"),
                f.min(
                    (f.unix_millis("last_commit_ts") - f.unix_millis("first_commit_ts"))
                    / f.nullif(f.col("commits") - 1, f.lit(0))
                ).alias("interval_ms"),
            )
        )
        alive = f.coalesce("last_ts", "before_ts")
        silent = f.col("silence_ms") >= f.col("timeout_ms")
        busy = f.col("interval_ms") < f.col("timeout_ms")
        return (
            gone.join(committed, ["group_id", "seq", "member_id"], "left")
            .join(began, ["group_id", "seq"], "left")
            .withColumn("silence_ms", f.unix_millis("ts") - f.unix_millis(alive))
            .withColumn("reason", f.when(silent, str(Cause.EXPIRY)).otherwise(str(Cause.LEAVE)))
            .withColumn(
                "confidence",
                f.when(f.col("last_ts").isNull(), _GUESS)
                .when(silent & ~f.coalesce(busy, f.lit(False)), _GUESS)
                .when(silent, _SURE)
                .otherwise(_LIKELY),
            )
            .select(
                *("group_id", "seq", "member_id", "client_id"),
                *("reason", "confidence", "silence_ms"),
            )
        )

    return step
