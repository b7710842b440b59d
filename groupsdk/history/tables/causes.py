"""Make the table of generations: what each was like, why it came, and how far that can be trusted."""

from pyspark.sql import Column, DataFrame, Window, functions as f

from groupsdk.history.groups.causes import CONFIDENCE, MISSING_FACTOR, Cause
from groupsdk.history.tables.following import GENERATION, of_kind
from groupsdk.history.tables.shape import Step, shaped


LOG = "log"
"""Evidence: the groups' own records."""
BROKER_LOG = "broker_log"
"""Evidence: the reason that the coordinator gave in its log."""
_SKEW_MS = 1_000
"""By how much the clocks of two brokers may differ, where the coordinator moved."""


def generations(
    departures: DataFrame,
    moves: DataFrame,
    spans: DataFrame,
    reasons: DataFrame | None = None,
    restarts: DataFrame | None = None,
) -> Step:
    """Return the step from events to the table `generations`.

    Args:
        departures: of `departures.departures`.
        moves: the table `moves`.
        spans: the table `commit_spans`.
        reasons: of `sources.broker_log.reasons`; None without it.
        restarts: of `restarts.restarts`; None: nothing is known of coordinators.
    """

    def step(events: DataFrame) -> DataFrame:
        of_group = Window.partitionBy("group_id").orderBy("seq")
        previous = f.lag("ts").over(of_group)
        frame = events.transform(of_kind(GENERATION))
        if restarts is None:
            frame = frame.withColumn("restart_confidence", f.lit(None).cast("double"))
        else:
            frame = frame.join(restarts, ["group_id", "seq"], "left")
        frame = (
            frame.withColumn("since_previous_ms", f.unix_millis("ts") - f.unix_millis(previous))
            .withColumn("causes", _renamed("causes"))
            .join(_gone(departures), ["group_id", "seq"], "left")
            .join(_moved(moves), ["group_id", "seq"], "left")
            .join(_gaps(spans), ["group_id", "seq"], "left")
            .withColumn("moved", f.coalesce("moved", f.lit(0)))
            .withColumn("causes", _ordered(f.concat("causes", f.coalesce("told", f.array()))))
            .withColumn(
                "primary_cause", f.coalesce(f.try_element_at("causes", f.lit(1)), f.lit("unknown"))
            )
            .withColumn("confidence", _confidence())
            .withColumn("evidence", f.lit(LOG))
            .withColumn("reason", f.lit(None).cast("string"))
        )
        if reasons is not None:
            frame = frame.transform(_with_reasons(reasons))
        return frame.transform(shaped("generations"))

    return step


def _gone(departures: DataFrame) -> DataFrame:
    return departures.groupBy("group_id", "seq").agg(
        f.collect_set("reason").alias("told"), f.max("confidence").alias("told_confidence")
    )


def _moved(moves: DataFrame) -> DataFrame:
    return moves.groupBy("group_id", "seq").agg(f.count("*").alias("moved"))


def _gaps(spans: DataFrame) -> DataFrame:
    """Measure for how long partitions had no commit around each generation: the typical one, and the worst."""
    of_partition = Window.partitionBy("group_id", "topic", "partition").orderBy("seq")
    gap = f.unix_millis("first_commit_ts") - f.unix_millis(
        f.lag("last_commit_ts").over(of_partition)
    )
    return (
        spans.withColumn("gap", gap)
        .filter(f.col("gap").isNotNull())
        .groupBy("group_id", "seq")
        .agg(
            f.percentile("gap", f.lit(0.5)).alias("commit_gap_ms"),
            f.max("gap").alias("commit_gap_max_ms"),
        )
    )


def _ordered(causes: Column) -> Column:
    every = f.array(*(f.lit(str(cause)) for cause in Cause))
    return f.filter(every, lambda cause: f.array_contains(causes, cause))


def _renamed(causes: str) -> Column:
    """Name what clients did for want of a coordinator by that."""
    restart, other = str(Cause.COORDINATOR_RESTART), str(Cause.CLIENT_RESTART)
    renamed = f.transform(causes, lambda each: f.when(each == other, restart).otherwise(each))
    return f.when(f.col("restart_confidence").isNotNull(), renamed).otherwise(f.col(causes))


def _confidence() -> Column:
    table = f.create_map(
        *(f.lit(part) for cause, how in CONFIDENCE.items() for part in (str(cause), how))
    )
    departed = f.col("primary_cause").isin(str(Cause.LEAVE), str(Cause.EXPIRY))
    restarted = f.col("primary_cause") == str(Cause.COORDINATOR_RESTART)
    known = (
        f.when(departed, f.col("told_confidence"))
        .when(restarted, f.col("restart_confidence"))
        .otherwise(table[f.col("primary_cause")])
    )
    return known * f.when(f.col("missing_before") > 0, MISSING_FACTOR).otherwise(1.0)


def _with_reasons(reasons: DataFrame) -> Step:
    """Take the coordinator's own reasons over; what the log tells more closely than they do stays."""
    given = reasons.select(
        f.col("group_id").alias("told_group"),
        f.col("generation").alias("told_generation"),
        f.col("ts").alias("told_ts"),
        f.col("reason").alias("told_reason"),
        f.col("cause").alias("told_cause"),
        "compatible",
    )
    # numbers come again, as when a group is deleted and made again: the reason was given since the generation before
    match = (
        (f.col("group_id") == f.col("told_group"))
        & (f.col("generation") == f.col("told_generation"))
        & (f.col("told_ts") <= f.col("ts"))
        & f.coalesce(
            f.unix_millis("told_ts") >= f.unix_millis("ts") - f.col("since_previous_ms") - _SKEW_MS,
            f.lit(True),
        )
    )
    latest = Window.partitionBy("group_id", "seq").orderBy(f.col("told_ts").desc())
    agrees = f.array_contains("compatible", f.col("primary_cause"))
    same = f.col("told_cause") == f.col("primary_cause")
    known = f.col("told_cause").isNotNull()

    def step(frame: DataFrame) -> DataFrame:
        return (
            frame.join(given, match, "left")
            .withColumn("place", f.row_number().over(latest))
            .filter(f.col("place") == 1)
            .withColumn("reason", f.col("told_reason"))
            .withColumn("evidence", f.when(known, BROKER_LOG).otherwise(f.col("evidence")))
            # where it only does not contradict, what was told from the records is as sure as it was
            .withColumn(
                "confidence",
                f.when(known & (same | ~agrees), 1.0).otherwise(f.col("confidence")),
            )
            .withColumn(
                "primary_cause",
                f.when(known & ~agrees, f.col("told_cause")).otherwise(f.col("primary_cause")),
            )
            .withColumn(
                "causes",
                f.when(known, _ordered(f.array_append("causes", f.col("primary_cause")))).otherwise(
                    f.col("causes")
                ),
            )
        )

    return step
