"""Read from a broker's log why its coordinator rebalanced groups: the exact reasons, with what clients said (KIP-800)."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from groupsdk.history.groups.causes import Cause


_PREPARING: Final = (
    # brokers before 4.0 put the partition before the reason, and their class behind it
    r"Preparing to rebalance group (.+?) in state \S+ with old generation (\d+)"
    r"(?: \(__consumer_offsets-\d+\))? \(reason: (.*?)\)(?:\.|$| \(kafka\.)"
)
_TIME: Final = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"

REASONS: Final[tuple[tuple[str, Cause, tuple[Cause, ...]], ...]] = (
    (
        r"(?i)heartbeat expiration|session (?:has )?expired",
        Cause.EXPIRY,
        (Cause.EXPIRY, Cause.CLIENT_RESTART),
    ),
    (
        r"(?i)leavegroup|leave group|left the group",
        Cause.LEAVE,
        (Cause.LEAVE, Cause.CLIENT_RESTART),
    ),
    (
        r"(?i)static member|instance id (?!null)\S+.*(?:replac|rejoin)",
        Cause.STATIC_REPLACED,
        (Cause.STATIC_REPLACED, Cause.SUBSCRIPTION_CHANGE),
    ),
    (
        r"(?i)adding new member",
        Cause.JOIN,
        (Cause.JOIN, Cause.CLIENT_RESTART, Cause.STATIC_REPLACED),
    ),
    (
        r"(?i)leader \S+ re-?joining|updating metadata for member",
        Cause.SUBSCRIPTION_CHANGE,
        (Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_GROWTH, Cause.COOPERATIVE_FOLLOWUP),
    ),
)
"""How a reason reads, which cause it names, and which causes agree with it as they say more."""


def read_broker_log(spark: SparkSession, path: str, *, zone: str = "UTC") -> DataFrame:
    """Read the reasons from log files of brokers, compressed ones as well.

    Args:
        spark: the session.
        path: a file, a directory or a pattern, as Spark takes it.
        zone: the time zone that the brokers write in.

    Returns:
        See `reasons`.
    """
    return spark.read.text(path).transform(lambda lines: reasons(lines, zone=zone))


def reasons(lines: DataFrame, *, zone: str = "UTC") -> DataFrame:
    """Take the reasons from the lines of a log, in the column `value`; other lines are passed over.

    Returns:
        One row for each generation: `group_id`, `generation` (the one that came of it), `ts`, `reason`
        (of the first line, which began the rebalance), `cause` and `compatible`, the causes that agree with
        it. The cause is null where the reason is none that is known.
    """
    time = f.to_timestamp(f.regexp_extract("value", _TIME, 1), "yyyy-MM-dd HH:mm:ss,SSS")
    return (
        lines.filter(f.col("value").rlike(_PREPARING))
        .select(
            f.regexp_extract("value", _PREPARING, 1).alias("group_id"),
            (f.regexp_extract("value", _PREPARING, 2).cast("int") + 1).alias("generation"),
            f.to_utc_timestamp(time, zone).alias("ts"),
            f.regexp_extract("value", _PREPARING, 3).alias("reason"),
        )
        .distinct()
        .withColumn("cause", _cause())
        .withColumn("compatible", _compatible())
    )


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
