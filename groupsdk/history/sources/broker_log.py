"""Read from a broker's log why its coordinator rebalanced groups: the exact reasons, with what clients said (KIP-800)."""

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as f

from groupsdk.history.groups.causes import Cause


_PREPARING: Final = (
    # brokers before 4.0 put the partition before the reason, and their class behind it
    r"Preparing to rebalance group (.+?) in state \S+ with old generation (\d+)"
    r"(?: \(__consumer_offsets-\d+\))? \(reason: (.*?)\)(?:\.|$| \(kafka\.)"
)
_TIME: Final = r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"
_BUMPED: Final = r"\[GroupId (.+?)\] Bumped group epoch to (\d+) with"
_MODERN: Final = (
    r"\[GroupId (.+?)\] ("
    r"(?:Member|Static member) \S+ (?:with instance id \S+ )?joins the \w+ group.*"
    r"|Static member with instance id \S+ re-joins the \w+ group.*"
    r"|(?:Member|Static member) \S+ (?:with instance id \S+ )?left the \w+ group.*"
    r"|Member \S+ fenced from the group because .*"
    r"|Member \S+ updated its subscribed .*"
    r"|Computed new metadata hash: .*)"
)
"""What the coordinator says of groups of the newer protocols before it gives them another epoch."""

REASONS: Final[tuple[tuple[str, Cause, tuple[Cause, ...]], ...]] = (
    (
        r"(?i)heartbeat expiration|sync expiration|session (?:has )?expired|fenced from the group|pending sync request",
        Cause.EXPIRY,
        (Cause.EXPIRY, Cause.CLIENT_RESTART),
    ),
    (
        r"(?i)leavegroup|leave group|left the",
        Cause.LEAVE,
        (Cause.LEAVE, Cause.CLIENT_RESTART),
    ),
    (
        r"(?i)client reason: need to revoke partitions",
        Cause.COOPERATIVE_FOLLOWUP,
        (Cause.COOPERATIVE_FOLLOWUP,),
    ),
    (
        r"(?i)client reason: subscription has changed|updated its subscribed",
        Cause.SUBSCRIPTION_CHANGE,
        (Cause.SUBSCRIPTION_CHANGE,),
    ),
    (
        r"(?i)client reason: cached metadata has changed|new metadata hash",
        Cause.TOPIC_GROWTH,
        (Cause.TOPIC_GROWTH, Cause.SUBSCRIPTION_CHANGE),
    ),
    (
        r"(?i)(?:for|because) static member|instance id (?!null)\S+.*(?:replac|re-?join)",
        Cause.STATIC_REPLACED,
        (Cause.STATIC_REPLACED, Cause.SUBSCRIPTION_CHANGE),
    ),
    (
        r"(?i)adding new member|joins the \w+ group",
        Cause.JOIN,
        (Cause.JOIN, Cause.CLIENT_RESTART, Cause.STATIC_REPLACED),
    ),
    (
        r"(?i)leader \S+ re-?joining|updating metadata for member",
        Cause.REJOIN,
        (
            *(Cause.REJOIN, Cause.SUBSCRIPTION_CHANGE, Cause.TOPIC_GROWTH),
            *(Cause.COOPERATIVE_FOLLOWUP, Cause.STATIC_REPLACED),
        ),
    ),
)
"""How a reason reads, which cause it names, and which causes agree with it as they say more."""

_ENDS: Final = (
    (r"Member (\S+) in group (.+?) has failed, removing it from the group", 2, 1, Cause.EXPIRY),
    (r"\[GroupId (.+?)\] Member (\S+) fenced from the group because", 1, 2, Cause.EXPIRY),
    (r"\[Group (.+?)\] Member (\S+) has left group through explicit", 1, 2, Cause.LEAVE),
    (r"\[GroupId (.+?)\] Dynamic member (\S+) has left group through explicit", 1, 2, Cause.LEAVE),
    (
        r"\[GroupId (.+?)\] (?:Member|Static member) (\S+) (?:with instance id \S+ )?left the \w+ group",
        *(1, 2),
        Cause.LEAVE,
    ),
)
"""What the coordinator says of a member that goes: where the group and the member stand in it, and why it went."""


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


def read_ends(spark: SparkSession, path: str) -> DataFrame:
    """Read from log files of brokers why members are gone.

    Returns:
        See `ends`.
    """
    return spark.read.text(path).transform(ends)


def reasons(lines: DataFrame, *, zone: str = "UTC") -> DataFrame:
    """Take the reasons from the lines of a log, in the column `value`; other lines are passed over.

    Of groups of the newer protocols, whose coordinator names no reason, the last line before the new epoch is one:
    what stands further ahead, as of static members that come back, made none.

    Returns:
        One row for each generation: `group_id`, `generation` (the one that came of it), `ts`, `reason`
        (of the first line, which began the rebalance), `cause` and `compatible`, the causes that agree with
        it. The cause is null where the reason is none that is known.
    """
    time = f.to_timestamp(f.regexp_extract("value", _TIME, 1), "yyyy-MM-dd HH:mm:ss,SSS")
    at = f.to_utc_timestamp(time, zone).alias("ts")
    classic = lines.filter(f.col("value").rlike(_PREPARING)).select(
        f.regexp_extract("value", _PREPARING, 1).alias("group_id"),
        (f.regexp_extract("value", _PREPARING, 2).cast("int") + 1).alias("generation"),
        at,
        f.regexp_extract("value", _PREPARING, 3).alias("reason"),
    )
    return (
        classic.unionByName(_modern_reasons(lines, at))
        .distinct()
        .withColumn("cause", _cause())
        .withColumn("compatible", _compatible())
    )


def ends(lines: DataFrame) -> DataFrame:
    """Take from the lines of a log, in the column `value`, why members are gone.

    Returns:
        `group_id`, `member_id` and `reason`: "leave" or "expiry".
    """
    found = [
        lines.filter(f.col("value").rlike(pattern)).select(
            f.regexp_extract("value", pattern, group).alias("group_id"),
            f.regexp_extract("value", pattern, member).alias("member_id"),
            f.lit(str(cause)).alias("reason"),
        )
        for pattern, group, member, cause in _ENDS
    ]
    together = found[0]
    for each in found[1:]:
        together = together.unionByName(each)
    return together.distinct()


def _modern_reasons(lines: DataFrame, at: Column) -> DataFrame:
    said = lines.filter(f.col("value").rlike(_BUMPED) | f.col("value").rlike(_MODERN)).select(
        at,
        # the lines of a file keep their order: several are often of one millisecond
        f.monotonically_increasing_id().alias("place"),
        f.coalesce(_part(_BUMPED, 1), _part(_MODERN, 1)).alias("group_id"),
        _part(_BUMPED, 2).cast("int").alias("epoch"),
        _part(_MODERN, 2).alias("said"),
    )
    of_group = Window.partitionBy("group_id").orderBy("ts", "place")
    onward = of_group.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    latest = Window.partitionBy("group_id", "generation").orderBy(
        f.col("ts").desc(), f.col("place").desc()
    )
    return (
        said.withColumn("generation", f.first("epoch", ignorenulls=True).over(onward))
        .filter(f.col("generation").isNotNull() & f.col("said").isNotNull())
        .withColumn("nth", f.row_number().over(latest))
        .filter(f.col("nth") == 1)
        .select("group_id", "generation", "ts", f.rtrim(f.col("said")).alias("reason"))
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
