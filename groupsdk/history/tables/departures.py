"""Tell of members that are gone whether they left or their sessions timed out."""

from pyspark.sql import Column, DataFrame, functions as f

from groupsdk.history.groups.causes import Cause
from groupsdk.history.tables.assignments import named
from groupsdk.history.tables.following import DEPARTURE, of_kind
from groupsdk.history.tables.shape import Step


DEFAULT_SESSION_TIMEOUT_MS = 45_000
"""Of a member of a newer protocol, whose session timeout is the broker's to know."""
_SURE, _LIKELY, _GUESS = 0.9, 0.7, 0.4
_EARLY_MS = 100
"""By how much a session may seem to end early: a record is written a little after the timer was set."""
_ANSWERS = 3
"""How often members answer within a session timeout at the least."""
_LONG = 3
"""A silence of so many session timeouts tells nothing of a member that never committed regularly."""


def departures(
    names: DataFrame,
    spans: DataFrame,
    generations: DataFrame,
    *,
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
    told: DataFrame | None = None,
) -> Step:
    """Return the step from events to one row for each member that is gone without a successor.

    A session cannot end before its timeout is over since the last commit, or since the last generation began (since
    its last answer, in a group of a newer protocol): a member that went earlier has left. Of one that was silent
    for longer its habits decide. It died where it, or at least its group, used to commit more often than that;
    where it is static, for those do not say that they leave; where it never came to the last epoch; and where its
    client had come again while it was still there. But a silence that is longer than any rebalance takes is
    that of a member that lives and has nothing to commit, unless there was no coordinator for a time. `confidence`
    says how far that goes.

    Args:
        names: the table `topics`.
        spans: the table `commit_spans`.
        generations: with `group_id`, `seq`, `ts`, `state_ts` and `coordinator_changed`.
        session_timeout_ms: of members whose records do not say.
        told: of `sources.broker_log.ends`: what the coordinator said of members; None without its log.

    Returns:
        `group_id`, `seq` (the first generation without it), `member_id`, `client_id`, `reason` ("leave" or
        "expiry"), `confidence` and `silence_ms`.
    """
    began = generations.select(
        "group_id",
        (f.col("seq") + 1).alias("seq"),
        # the timers run since the members had all joined, which is a little before the record was written
        f.least(f.coalesce("state_ts", "ts"), "ts").alias("before_ts"),
    )
    before = spans.select(
        "group_id",
        (f.col("seq") + 1).alias("seq"),
        "topic",
        "partition",
        "first_commit_ts",
        "last_commit_ts",
        _interval().alias("interval_ms"),
    )
    interrupted = generations.select("group_id", "seq", "coordinator_changed")
    habits = before.groupBy("group_id", "seq").agg(f.min("interval_ms").alias("others_ms"))

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
            had.select("group_id", "seq", "member_id", "topic", "partition", "ts")
            .join(before, ["group_id", "seq", "topic", "partition"])
            # where a static member was replaced the span goes on, and its end is another member's
            .filter(f.col("last_commit_ts") <= f.col("ts"))
            .groupBy("group_id", "seq", "member_id")
            .agg(
                f.max("last_commit_ts").alias("last_ts"),
                f.min("interval_ms").alias("own_ms"),
            )
        )
        judged = (
            gone.join(committed, ["group_id", "seq", "member_id"], "left")
            .join(habits, ["group_id", "seq"], "left")
            .join(began, ["group_id", "seq"], "left")
            .join(interrupted, ["group_id", "seq"], "left")
            .withColumn("answered_ts", f.coalesce("alive_ts", "before_ts"))
            .withColumn(
                "silence_ms",
                f.unix_millis("ts") - f.unix_millis(f.greatest("last_ts", "answered_ts")),
            )
            .withColumn("verdict", _verdict())
            .withColumn("reason", f.col("verdict.reason"))
            .withColumn("confidence", f.col("verdict.confidence"))
        )
        if told is not None:
            judged = judged.transform(_told_by(told))
        return judged.select(
            *("group_id", "seq", "member_id", "client_id"),
            *("reason", "confidence", "silence_ms"),
        )

    return step


def _interval() -> Column:
    """How often a partition was committed: null where it was only once."""
    return (f.unix_millis("last_commit_ts") - f.unix_millis("first_commit_ts")) / f.nullif(
        f.col("commits") - 1, f.lit(0)
    )


def _verdict() -> Column:
    silence, timeout = f.col("silence_ms"), f.col("timeout_ms")
    early = timeout - f.least(f.lit(_EARLY_MS), timeout / 10)
    # a dead member holds a rebalance up no longer than this
    longest = (
        timeout + f.greatest("rebalance_timeout_ms", timeout) + 2 * f.coalesce("own_ms", f.lit(0))
    )
    regular = f.coalesce(f.coalesce("own_ms", "others_ms") < timeout, f.lit(False))
    static = f.col("instance_id").isNotNull()
    # where a static member says that it is away for a while its session goes on, from before it said so
    verdict = f.when(static & f.col("behind"), _as(Cause.EXPIRY, _SURE))
    verdict = verdict.when(silence < early, _as(Cause.LEAVE, _SURE))
    verdict = verdict.when(static, _as(Cause.EXPIRY, _SURE))
    epoch_ms = f.unix_millis("ts") - f.unix_millis("before_ts")
    # timers stand still without a coordinator, and nobody can answer it; then those that died meanwhile go
    interrupted = f.coalesce("coordinator_changed", f.lit(False))
    verdict = verdict.when(
        f.col("behind") & (epoch_ms >= timeout / _ANSWERS) & ~interrupted,
        _as(Cause.EXPIRY, _SURE),
    )
    timely = (silence <= longest) & ~interrupted
    verdict = verdict.when(regular & f.col("own_ms").isNotNull() & timely, _as(Cause.EXPIRY, _SURE))
    verdict = verdict.when(regular & (timely | interrupted), _as(Cause.EXPIRY, _LIKELY))
    verdict = verdict.when(f.col("superseded"), _as(Cause.EXPIRY, _LIKELY))
    verdict = verdict.when((silence <= _LONG * timeout) | interrupted, _as(Cause.EXPIRY, _GUESS))
    return verdict.otherwise(_as(Cause.LEAVE, _GUESS))


def _as(cause: Cause, confidence: float) -> Column:
    return f.struct(f.lit(str(cause)).alias("reason"), f.lit(confidence).alias("confidence"))


def _told_by(told: DataFrame) -> Step:
    """Take over what the coordinator said of members."""
    said = told.select(
        *("group_id", "member_id"), f.col("reason").alias("told_reason")
    ).dropDuplicates(["group_id", "member_id"])

    def step(frame: DataFrame) -> DataFrame:
        return (
            frame.join(said, ["group_id", "member_id"], "left")
            .withColumn("reason", f.coalesce("told_reason", "reason"))
            .withColumn(
                "confidence",
                f.when(f.col("told_reason").isNotNull(), 1.0).otherwise(f.col("confidence")),
            )
        )

    return step
