"""Tell of members that are gone whether they left or their sessions timed out."""

from pyspark.sql import Column, DataFrame, Window, functions as f

from groupsdk.history.groups.causes import Cause
from groupsdk.history.tables.assignments import named
from groupsdk.history.tables.following import DEPARTURE, of_kind
from groupsdk.history.tables.shape import Step


DEFAULT_SESSION_TIMEOUT_MS = 45_000
"""Kafka's own, of a member of a newer protocol: its session timeout is the broker's to know."""
_SURE, _LIKELY, _GUESS = 0.9, 0.7, 0.4
_EARLY_MS = 100
"""By how much a session may seem to end early: a record is written a little after the timer was set."""
_ANSWERS = 3
"""How often members answer within a session timeout at the least."""
_LONG = 3
"""A silence of so many session timeouts tells nothing of a member that never committed regularly."""
_MISSED = 3
"""After so many commits that did not come a member is silent."""
_SILENT_MS = 1_000
_ENOUGH = 2
"""So many members that fell silent for about as long before they went tell how long sessions last."""
_ALIKE = 1.25
"""By which factor those times may differ: a member may have answered a heartbeat after it last committed."""
_BEHIND_MS = 5_000
"""How long a member of unknown session may take to come to an epoch: Kafka's interval of heartbeats."""
_SKEW_MS = 1_000
"""By how much the clocks of two brokers may differ, where the coordinator moved."""
_LATE_MS = 50
"""By how much a record may be older than the line that the coordinator wrote of it."""


def departures(
    names: DataFrame,
    spans: DataFrame,
    generations: DataFrame,
    *,
    session_timeout_ms: int | None = None,
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
        session_timeout_ms: of members whose records do not say; None: as those tell that fell silent before
            they went, where there are enough of them, and otherwise nobody knows.
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
            f.when(
                f.col("session_timeout_ms") < 0, f.lit(session_timeout_ms).cast("int")
            ).otherwise(f.col("session_timeout_ms")),
        )
        # the names of topics do not matter to members of the classic protocol, whose records have them
        had = (
            gone.withColumn("each", f.explode("assigned"))
            .withColumn("partition", f.explode("each.partitions"))
            .withColumn("topic", f.col("each.topic"))
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
            .transform(_with_learnt_timeouts)
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


def _with_learnt_timeouts(judged: DataFrame) -> DataFrame:
    """Add `assumed`: whether a session timeout is neither known nor told by the log; those get Kafka's own.

    A member that committed regularly and dies is silent for as long as its session lasts. Where several were silent for
    about as long, that is it. A member that leaves commits shortly before.
    """
    silent = judged.filter(
        f.col("timeout_ms").isNull()
        & (f.col("silence_ms") >= _SILENT_MS)
        & (f.col("silence_ms") > _MISSED * f.col("own_ms"))
        & ~f.coalesce("coordinator_changed", f.lit(False))
    ).withColumn("size", f.floor(f.log("silence_ms") / f.log(f.lit(_ALIKE))))
    sizes = silent.groupBy("size").agg(
        f.count("*").alias("n"), f.min("silence_ms").alias("shortest")
    )
    alike = Window.partitionBy(f.lit(0)).orderBy("size").rangeBetween(0, 1)
    most = f.struct(f.col("alike"), -f.col("size"), f.col("shortest"))
    learnt = (
        sizes.withColumn("alike", f.sum("n").over(alike))
        .filter(f.col("alike") >= _ENOUGH)
        .agg(f.max(most).alias("most"))
        .select(f.col("most.shortest").alias("learnt_ms"))
    )
    known = f.col("timeout_ms").isNotNull()
    return (
        judged.crossJoin(f.broadcast(learnt))
        .withColumn("assumed", ~known & f.col("learnt_ms").isNull())
        .withColumn("learnt", ~known & f.col("learnt_ms").isNotNull())
        .withColumn(
            "timeout_ms",
            f.coalesce("timeout_ms", "learnt_ms", f.lit(DEFAULT_SESSION_TIMEOUT_MS)),
        )
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
    assumed = f.col("assumed")
    own = f.col("own_ms")
    # where a static member says that it is away for a while its session goes on, from before it said so
    verdict = f.when(static & f.col("behind"), _as(Cause.EXPIRY, _SURE))
    # of a session that nobody knows the length of, the member's own habits tell all
    verdict = verdict.when(assumed & static, _as(Cause.EXPIRY, _LIKELY))
    verdict = verdict.when(
        assumed & (silence > _MISSED * own) & (silence >= _SILENT_MS), _as(Cause.EXPIRY, _LIKELY)
    )
    verdict = verdict.when(
        (assumed | f.col("learnt")) & (silence <= _MISSED * own), _as(Cause.LEAVE, _SURE)
    )
    verdict = verdict.when(
        (assumed & f.col("behind"))
        & (f.unix_millis("ts") - f.unix_millis("before_ts") >= _BEHIND_MS),
        _as(Cause.EXPIRY, _LIKELY),
    )
    # while the others worked it did not, and it did not commit as it went
    idle = own.isNull() & (silence > _MISSED * f.col("others_ms")) & (silence >= _SILENT_MS)
    verdict = verdict.when(assumed & idle, _as(Cause.EXPIRY, _GUESS))
    verdict = verdict.when(assumed & (silence < early), _as(Cause.LEAVE, _GUESS))
    verdict = verdict.when((silence < early) & f.col("learnt"), _as(Cause.LEAVE, _LIKELY))
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
    """Take over what the coordinator said of members as they went: one that comes back may go several times."""
    said = told.select(
        f.col("group_id").alias("told_group"),
        f.col("member_id").alias("told_member"),
        f.col("ts").alias("told_ts"),
        f.col("reason").alias("told_reason"),
    )
    match = (
        (f.col("group_id") == f.col("told_group"))
        & (f.col("member_id") == f.col("told_member"))
        & (f.unix_millis("told_ts") <= f.unix_millis("ts") + _LATE_MS)
        & f.coalesce(f.unix_millis("told_ts") >= f.unix_millis("before_ts") - _SKEW_MS, f.lit(True))
    )
    latest = Window.partitionBy("group_id", "seq", "member_id").orderBy(f.col("told_ts").desc())

    def step(frame: DataFrame) -> DataFrame:
        return (
            frame.join(said, match, "left")
            .withColumn("nth", f.row_number().over(latest))
            .filter(f.col("nth") == 1)
            .withColumn("reason", f.coalesce("told_reason", "reason"))
            .withColumn(
                "confidence",
                f.when(f.col("told_reason").isNotNull(), 1.0).otherwise(f.col("confidence")),
            )
        )

    return step
