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
_LOGGER: Final = r"\s*(?:\(org\.apache\.kafka\.[\w.$]+\))?\s*$"
"""The class that Kafka's usual layout puts behind each line."""
_OF_MODERN: Final = r"\[GroupId ([^\]]+)\](?:\[MemberId ([^\]]+)\])? "
_BUMPED: Final = _OF_MODERN + r"Bumped (?:streams )?group epoch to (\d+) with"
_INSTANCE: Final = r"(?:with instance id \S+ )?"
_ENDED: Final = "ended"
_JOINED: Final = "joined"
_CHANGED: Final = "changed"
_TOPICS: Final = "topics"
_CAME_BACK: Final = "came back"
_SAID: Final = (
    (rf"(?:(?:Static|Dynamic) member|Member) (\S+) {_INSTANCE}left the \w+ group", _ENDED),
    (
        rf"(?:Static|Dynamic) member (\S+) {_INSTANCE}has left group through explicit `LeaveGroup`",
        _ENDED,
    ),
    (r"(?:Member|Streams member) (\S+) fenced from the group because", _ENDED),
    (
        r"Static member with instance id \S+ re-joins the \w+ group .*new member (\S+) to",
        _CAME_BACK,
    ),
    (rf"(?:Member|Static member) (?:(\S+) )?{_INSTANCE}joins the \w+ group", _JOINED),
    (r"Member (?:(\S+) )?updated its (?:subscribed|member metadata)", _CHANGED),
    (r"Member initialized the topology()", _CHANGED),
    (r"Received updated regular expressions()", _TOPICS),
    (r"Computed new metadata hash()", _TOPICS),
)
"""What the coordinator says of groups of the newer protocols before it gives them another epoch; what that is."""
_RANKS: Final = (_ENDED, _JOINED, _CHANGED, _TOPICS, _CAME_BACK)
"""Of several lines of one request the first of these is what it was about."""
_REQUEST_MS: Final = 1_000
"""The lines of one request are written together: what stands further ahead is of another one, which made no epoch."""

_RESTARTS: Final = (Cause.COORDINATOR_RESTART, Cause.CLIENT_RESTART)
REASONS: Final[tuple[tuple[str, Cause, tuple[Cause, ...]], ...]] = (
    (
        r"(?i)heartbeat expiration|sync expiration|session (?:has )?expired|fenced from the group|pending sync request",
        Cause.EXPIRY,
        (Cause.EXPIRY, *_RESTARTS),
    ),
    (
        # the last member of the newer protocol is gone, in whichever way
        r"(?i)downgrade group \S+ from \w+ to classic for member leaving",
        Cause.LEAVE,
        (Cause.LEAVE, Cause.EXPIRY, *_RESTARTS),
    ),
    (
        r"(?i)leavegroup|leave group|left the",
        Cause.LEAVE,
        (Cause.LEAVE, *_RESTARTS),
    ),
    (
        r"(?i)client reason: need to revoke partitions",
        Cause.COOPERATIVE_FOLLOWUP,
        (Cause.COOPERATIVE_FOLLOWUP,),
    ),
    (
        r"(?i)client reason: subscription has changed|updated its |initialized the topology",
        Cause.SUBSCRIPTION_CHANGE,
        (Cause.SUBSCRIPTION_CHANGE,),
    ),
    (
        r"(?i)client reason: cached metadata has changed|new metadata hash|updated regular expressions",
        Cause.TOPIC_GROWTH,
        (Cause.TOPIC_GROWTH, Cause.SUBSCRIPTION_CHANGE),
    ),
    (
        r"(?i)with stale assignment|(?:for|because) static member|instance id (?!null)\S+.*(?:replac|re-?join)",
        Cause.STATIC_REPLACED,
        (Cause.STATIC_REPLACED, Cause.SUBSCRIPTION_CHANGE),
    ),
    (
        r"(?i)adding new member|joins the \w+ group",
        Cause.JOIN,
        (Cause.JOIN, *_RESTARTS, Cause.STATIC_REPLACED),
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
    (r"Group (.+?) removed dynamic members who haven't joined: (.*)$", 1, 2, Cause.EXPIRY),
    (
        r"Group (.+?) removed members who haven't sent their sync requests: (.*)$",
        1,
        2,
        Cause.EXPIRY,
    ),
    (
        rf"\[Group (.+?)\] (?:Static member|Member) (\S+) {_INSTANCE}has left group through explicit",
        *(1, 2),
        Cause.LEAVE,
    ),
    (
        _OF_MODERN + r"(?:Member|Streams member) (\S+) fenced from the group because",
        1,
        3,
        Cause.EXPIRY,
    ),
    (
        _OF_MODERN + rf"(?:(?:Static|Dynamic) member|Member) (\S+) {_INSTANCE}"
        r"(?:left the \w+ group|has left group through explicit)",
        *(1, 3),
        Cause.LEAVE,
    ),
)
"""What the coordinator says of members that go: where the group and they stand in it, and why they went."""


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


def read_ends(spark: SparkSession, path: str, *, zone: str = "UTC") -> DataFrame:
    """Read from log files of brokers why members are gone.

    Args:
        spark: the session.
        path: a file, a directory or a pattern, as Spark takes it.
        zone: the time zone that the brokers write in.

    Returns:
        See `ends`.
    """
    return spark.read.text(path).transform(lambda lines: ends(lines, zone=zone))


def reasons(lines: DataFrame, *, zone: str = "UTC") -> DataFrame:
    """Take the reasons from the lines of a log, in the column `value`; other lines are passed over.

    The coordinator names no reason for an epoch of the newer protocols: what it says of the request that made the
    epoch is one. Lines of earlier requests, which made none, do not count.

    Returns:
        One row for each time that a generation was made: `group_id`, `generation` (the one that came of it), `ts`,
        `reason` (of the first line, which began the rebalance), `cause` and `compatible`, the causes that agree with
        it. The cause is null where the reason is none that is known.
    """
    at = _at(zone).alias("ts")
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


def ends(lines: DataFrame, *, zone: str = "UTC") -> DataFrame:
    """Take from the lines of a log, in the column `value`, why members are gone.

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
        for pattern, group, member, cause in _ENDS
    ]
    together = found[0]
    for each in found[1:]:
        together = together.unionByName(each)
    return together.filter(~f.col("member_id").startswith("(org.apache.kafka.")).distinct()


def _at(zone: str) -> Column:
    time = f.to_timestamp(f.regexp_extract("value", _TIME, 1), "yyyy-MM-dd HH:mm:ss,SSS")
    return f.to_utc_timestamp(time, zone)


def _modern_reasons(lines: DataFrame, at: Column) -> DataFrame:
    text = f.regexp_replace(f.regexp_replace("value", rf"^.*?{_OF_MODERN}", ""), _LOGGER, "")
    said = lines.filter(f.col("value").rlike(_OF_MODERN)).select(
        at,
        # the lines of a file keep their order: several are often of one millisecond
        f.monotonically_increasing_id().alias("place"),
        f.regexp_extract("value", _OF_MODERN, 1).alias("group_id"),
        f.nullif(f.regexp_extract("value", _BUMPED, 3), f.lit("")).cast("int").alias("epoch"),
        text.alias("reason"),
        f.coalesce(
            *(f.when(text.rlike(f"^{pattern}"), f.lit(what)) for pattern, what in _SAID)
        ).alias("what"),
        f.coalesce(
            _part(_OF_MODERN, 2),
            *(
                f.when(text.rlike(f"^{pattern}"), f.regexp_extract(text, pattern, 1))
                for pattern, _ in _SAID
            ),
        ).alias("member_id"),
    )
    known = said.filter(f.col("epoch").isNotNull() | f.col("what").isNotNull())
    order = ("ts", "place")
    of_member = Window.partitionBy("group_id", "member_id").orderBy(*order)
    of_group = Window.partitionBy("group_id").orderBy(*order)
    onward = of_group.rowsBetween(Window.currentRow, Window.unboundedFollowing)
    # a classic member of such a group joins again and again, for what it gives up and gets
    again = (f.col("what") == _JOINED) & f.coalesce(
        f.lag("what").over(of_member).isin(_JOINED, _CHANGED, _CAME_BACK), f.lit(False)
    )
    of_epoch = Window.partitionBy("group_id", "bump").orderBy(
        f.array_position(f.array(*map(f.lit, _RANKS)), f.col("what")),
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
        .filter(f.unix_millis("bump.ts") - f.unix_millis("ts") <= _REQUEST_MS)
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
