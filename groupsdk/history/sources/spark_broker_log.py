"""Read the coordinators' reasons for rebalances from brokers' logs with Spark, including those clients give (KIP-800)."""

from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as f

from groupsdk.history.sources.broker_log_lines import (
    BUMPED,
    CAME_BACK,
    CHANGED,
    ENDS,
    JOINED,
    LOGGER,
    OF_MODERN,
    PREPARING,
    RANKS,
    REASONS,
    REQUEST_MS,
    SAID,
    TIME,
    warn_unrecognised,
)


def read_broker_log(spark: SparkSession, path: str, *, zone: str = "UTC") -> DataFrame:
    """Read the reasons from log files of brokers, compressed ones as well.

    Args:
        path: a file, a directory or a pattern, as Spark takes it.

    Returns:
        See `reasons`.
    """
    return spark.read.text(path).transform(lambda lines: reasons(lines, zone=zone))


def read_ends(spark: SparkSession, path: str, *, zone: str = "UTC") -> DataFrame:
    """Read the reasons for departures from log files of brokers.

    Args:
        path: a file, a directory or a pattern, as Spark takes it.

    Returns:
        See `ends`.
    """
    return spark.read.text(path).transform(lambda lines: ends(lines, zone=zone))


def warn_if_unrecognised(spark: SparkSession, path: str) -> None:
    """Log a warning if no line of the brokers' log files is recognised; see `broker_log_lines.warn_unrecognised`."""
    lines = spark.read.text(path)
    patterns = (PREPARING, BUMPED, *(pattern for pattern, *_ in ENDS))
    if any(not lines.filter(f.col("value").rlike(each)).isEmpty() for each in patterns):
        return
    counted = lines.agg(
        f.count("*").alias("lines"), f.count_if(f.col("value").rlike(TIME)).alias("dated")
    ).first()
    assert counted is not None
    warn_unrecognised(path, counted["lines"], counted["dated"])


def reasons(lines: DataFrame, *, zone: str = "UTC") -> DataFrame:
    """Parse the reasons for rebalances in the lines of a log, in the column `value`; other lines are skipped.

    The coordinator names no reason for an epoch of the newer protocols: what it says of the request that made the
    epoch is one. Lines of earlier requests, which made none, do not count.

    Returns:
        One row for each time that a generation was made: `group_id`, `generation` (the one that came of it), `ts`,
        `reason` (of the first line, which began the rebalance), `cause` and `compatible`, the causes that agree with
        it. The cause is null where the reason is none that is known.
    """
    at = _at(zone).alias("ts")
    classic = lines.filter(f.col("value").rlike(PREPARING)).select(
        f.regexp_extract("value", PREPARING, 1).alias("group_id"),
        (f.regexp_extract("value", PREPARING, 2).cast("int") + 1).alias("generation"),
        at,
        f.regexp_extract("value", PREPARING, 3).alias("reason"),
    )
    return (
        classic.unionByName(_modern_reasons(lines, at))
        .distinct()
        .withColumn("cause", _cause())
        .withColumn("compatible", _compatible())
    )


def ends(lines: DataFrame, *, zone: str = "UTC") -> DataFrame:
    """Parse the reasons for departures in the lines of a log, in the column `value`.

    Returns:
        One row for each end: `group_id`, `member_id`, `ts` and `reason`: "leave" or "expiry". A member that comes
        back under its id may end several times.
    """
    found = [
        lines.filter(f.col("value").rlike(pattern)).select(
            f.regexp_extract("value", pattern, group).alias("group_id"),
            # a single one, or Java's form of a list
            f.explode(
                f.regexp_extract_all(
                    f.regexp_extract("value", pattern, member), f.lit(r"[^\s\[\],]+"), 0
                )
            ).alias("member_id"),
            _at(zone).alias("ts"),
            f.lit(str(cause)).alias("reason"),
        )
        for pattern, group, member, cause in ENDS
    ]
    together = found[0]
    for each in found[1:]:
        together = together.unionByName(each)
    return together.filter(~f.col("member_id").startswith("(org.apache.kafka.")).distinct()


def _at(zone: str) -> Column:
    time = f.to_timestamp(f.regexp_extract("value", TIME, 1), "yyyy-MM-dd HH:mm:ss,SSS")
    return f.to_utc_timestamp(time, zone)


def _modern_reasons(lines: DataFrame, at: Column) -> DataFrame:
    text = f.regexp_replace(f.regexp_replace("value", rf"^.*?{OF_MODERN}", ""), LOGGER, "")
    said = lines.filter(f.col("value").rlike(OF_MODERN)).select(
        at,
        # the lines of a file keep their order: several are often of one millisecond
        f.monotonically_increasing_id().alias("place"),
        f.regexp_extract("value", OF_MODERN, 1).alias("group_id"),
        f.nullif(f.regexp_extract("value", BUMPED, 3), f.lit("")).cast("int").alias("epoch"),
        text.alias("reason"),
        f.coalesce(
            *(f.when(text.rlike(f"^{pattern}"), f.lit(what)) for pattern, what in SAID)
        ).alias("what"),
        f.coalesce(
            _part(OF_MODERN, 2),
            *(
                f.when(text.rlike(f"^{pattern}"), f.regexp_extract(text, pattern, 1))
                for pattern, _ in SAID
            ),
        ).alias("member_id"),
    )
    known = said.filter(f.col("epoch").isNotNull() | f.col("what").isNotNull())
    order = ("ts", "place")
    of_member = Window.partitionBy("group_id", "member_id").orderBy(*order)
    of_group = Window.partitionBy("group_id").orderBy(*order)
    onward = of_group.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    # a classic member of such a group rejoins for each revocation and assignment
    again = (f.col("what") == JOINED) & f.coalesce(
        f.lag("what").over(of_member).isin(JOINED, CHANGED, CAME_BACK), f.lit(False)
    )
    of_epoch = Window.partitionBy("group_id", "bump").orderBy(
        f.array_position(f.array(*map(f.lit, RANKS)), f.col("what")),
        f.col("ts").desc(),
        f.col("place").desc(),
    )
    bump = f.struct("ts", "place", "epoch")
    return (
        known.withColumn("again", again)
        .withColumn(
            "bump",
            f.first(f.when(f.col("epoch").isNotNull(), bump), ignorenulls=True).over(onward),
        )
        .filter(f.col("epoch").isNull() & f.col("bump").isNotNull() & ~f.col("again"))
        .filter(f.unix_millis("bump.ts") - f.unix_millis("ts") <= REQUEST_MS)
        .withColumn("nth", f.row_number().over(of_epoch))
        .filter(f.col("nth") == 1)
        .select("group_id", f.col("bump.epoch").alias("generation"), "ts", "reason")
    )


def _part(pattern: str, group: int) -> Column:
    return f.nullif(f.regexp_extract("value", pattern, group), f.lit(""))


def _cause() -> Column:
    return f.coalesce(
        *(f.when(f.col("reason").rlike(pattern), str(cause)) for pattern, cause, _ in REASONS)
    )


def _compatible() -> Column:
    return f.coalesce(
        *(
            f.when(
                f.col("reason").rlike(pattern), f.array(*(f.lit(str(each)) for each in agreeing))
            )
            for pattern, _, agreeing in REASONS
        ),
        f.array().cast("array<string>"),
    )
