"""Ask the tables for what the report shows: few rows, summed up by Spark before they come here."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.sql import DataFrame, Row, Window, functions as f

from groupsdk.history.groups.causes import Cause
from groupsdk.history.groups.owners import OWNED, SHARE


T = TypeVar("T")

MAX_GROUPS: Final = 12
"""How many groups get pictures of their own, those with most generations first; the overview has more."""
MAX_OVERVIEW: Final = 40
MAX_PARTITIONS: Final = 60
"""How many partitions a picture of ownership has; of the others the topics are shown."""
MAX_GENERATIONS: Final = 400
"""How many generations of a group are drawn: the last ones."""
MAX_STAYS: Final = 200
MAX_ROWS: Final = 2_000
"""How many rows a table under a picture has at most; what is left out is counted below it."""


class GroupLine(NamedTuple):
    """One group in the overview."""

    group_id: str
    protocol: str
    generations: int
    hours: float
    moves: int
    storms: int
    top_cause: str
    downtime_ms: int


class GenerationMark(NamedTuple):
    """One generation."""

    seq: int
    generation: int
    ts: datetime
    cause: str
    evidence: str
    confidence: float
    reason: str
    n_members: int
    moved: int
    since_previous_ms: int | None
    coordinator_changed: bool


class Stretch(NamedTuple):
    """A partition, or a topic's partitions, with one client for a time."""

    label: str
    client: str
    start: datetime
    end: datetime
    share: float
    """How much of the topic's partitions it is; 1 for a partition."""


class Stay(NamedTuple):
    """A member's stay in a group."""

    client_id: str
    member_id: str
    start: datetime
    end: datetime | None
    end_reason: str


class WhatIf(NamedTuple):
    """What an assignor would have made of a group's history."""

    assignor: str
    generations: int
    moves: int
    revoked: int
    mean_stddev: float | None
    worst_spread: int | None
    problems: int
    rank: int


@dataclass(frozen=True, slots=True)
class GroupPage:
    """What is shown of one group."""

    group_id: str
    protocol: str
    generations: Sequence[GenerationMark]
    stretches: Sequence[Stretch]
    by_topic: bool
    """There were too many partitions: stretches are of topics."""
    stays: Sequence[Stay]
    left_out_stays: int
    what_if: Sequence[WhatIf]
    end: datetime


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything that the report shows."""

    start: datetime | None
    end: datetime | None
    overview: Sequence[GroupLine]
    n_groups: int
    n_generations: int
    n_commits: int
    causes_by_time: Sequence[tuple[datetime, str, int]]
    bucket: str
    coordinator_changes: Sequence[datetime]
    gaps: Sequence[tuple[str, int, int, int, int]]
    """Cause, how many generations, and the median, the 95th percentile and the longest gap in milliseconds."""
    lag: Sequence[tuple[str, str, int, int, int]]
    """Group, kind, and the median, the 95th percentile and the longest lag in records."""
    storms: Sequence[tuple[Any, ...]]
    quality: Sequence[tuple[Any, ...]]
    rejects: Sequence[tuple[str, int]]
    pages: Sequence[GroupPage] = field(default_factory=tuple)


def collect(tables: Mapping[str, DataFrame], groups: Sequence[str] = ()) -> ReportData:
    """Collect what the report shows.

    Args:
        tables: of `job.run` or `job.read_tables`.
        groups: which groups get pictures of their own; those with most generations unless given.
    """
    made = tables["generations"].filter(f.col("primary_cause") != str(Cause.CREATED))
    span = made.agg(f.min("ts").alias("a"), f.max("ts").alias("b"), f.count("*").alias("n")).first()
    assert span is not None
    start, end = span["a"], span["b"]
    overview = _overview(tables, made)
    chosen = list(groups) or [line.group_id for line in overview[:MAX_GROUPS]]
    last = tables["quality"].agg(f.max("last_ts").alias("t")).first()
    log_end = last["t"] if last is not None and last["t"] is not None else end
    bucket = _bucket(start, end)
    protocols = {line.group_id: line.protocol for line in overview}
    return ReportData(
        start,
        end,
        overview,
        made.select("group_id").distinct().count(),
        span["n"],
        tables["offset_commits"].count(),
        _causes(made, bucket),
        bucket,
        [
            row["t"]
            for row in made.filter("coordinator_changed")
            .select(f.date_trunc("second", "ts").alias("t"))
            .distinct()
            .orderBy("t")
            .limit(MAX_ROWS)
            .collect()
        ],
        _gaps(made),
        _lag(tables["lag"]),
        _storms(tables["storms"]),
        _quality(tables["quality"]),
        _rejects(tables["rejects"]),
        _pages(tables, chosen, protocols, log_end),
    )


def _bucket(start: datetime | None, end: datetime | None) -> str:
    seconds = (end - start).total_seconds() if start is not None and end is not None else 0
    for unit, longest in (("second", 180), ("minute", 3 * 3600), ("hour", 8 * 86_400)):
        if seconds <= longest:
            return unit
    return "day"


def _overview(tables: Mapping[str, DataFrame], made: DataFrame) -> list[GroupLine]:
    per_cause = made.groupBy("group_id", "primary_cause").agg(f.count("*").alias("n"))
    top = per_cause.groupBy("group_id").agg(
        f.max_by("primary_cause", f.struct("n", "primary_cause")).alias("top")
    )
    storms = tables["storms"].groupBy("group_id").agg(f.count("*").alias("storms"))
    rows = (
        made.groupBy("group_id")
        .agg(
            f.max_by("protocol", "seq").alias("protocol"),
            f.count("*").alias("n"),
            ((f.unix_millis(f.max("ts")) - f.unix_millis(f.min("ts"))) / 3_600_000).alias("hours"),
            f.sum("moved").alias("moves"),
            f.coalesce(f.sum("commit_gap_ms"), f.lit(0)).alias("downtime"),
        )
        .join(top, "group_id")
        .join(storms, "group_id", "left")
        .orderBy(f.col("n").desc(), "group_id")
        .limit(MAX_OVERVIEW)
        .collect()
    )
    return [
        GroupLine(
            *(row["group_id"], row["protocol"], row["n"], row["hours"], row["moves"]),
            *(row["storms"] or 0, row["top"], row["downtime"]),
        )
        for row in rows
    ]


def _causes(made: DataFrame, bucket: str) -> list[tuple[datetime, str, int]]:
    rows = (
        made.groupBy(f.date_trunc(bucket, "ts").alias("t"), "primary_cause")
        .agg(f.count("*").alias("n"))
        .orderBy("t", "primary_cause")
        .limit(MAX_ROWS)
        .collect()
    )
    return [(row["t"], row["primary_cause"], row["n"]) for row in rows]


def _gaps(made: DataFrame) -> list[tuple[str, int, int, int, int]]:
    rows = (
        made.filter(f.col("commit_gap_ms").isNotNull())
        .groupBy("primary_cause")
        .agg(
            f.count("*").alias("n"),
            f.percentile("commit_gap_ms", f.lit(0.5)).cast("bigint").alias("median"),
            f.percentile("commit_gap_ms", f.lit(0.95)).cast("bigint").alias("p95"),
            f.max("commit_gap_max_ms").alias("max"),
        )
        .orderBy("primary_cause")
        .collect()
    )
    return [(r["primary_cause"], r["n"], r["median"], r["p95"], r["max"]) for r in rows]


def _lag(lag: DataFrame) -> list[tuple[str, str, int, int, int]]:
    rows = (
        lag.groupBy("group_id", "kind")
        .agg(
            f.percentile_approx("lag", 0.5).alias("median"),
            f.percentile_approx("lag", 0.95).alias("p95"),
            f.max("lag").alias("max"),
        )
        .orderBy(f.col("max").desc(), "group_id", "kind")
        .limit(MAX_OVERVIEW)
        .collect()
    )
    return [(r["group_id"], r["kind"], r["median"], r["p95"], r["max"]) for r in rows]


def _storms(storms: DataFrame) -> list[tuple[Any, ...]]:
    rows = storms.orderBy("start_ts", "group_id").limit(MAX_ROWS).collect()
    return [
        (
            *(r["group_id"], r["start_ts"], r["end_ts"], r["generations"], r["moves"]),
            ", ".join(f"{cause} {n}" for cause, n in sorted(r["causes"].items())),
            culprit_name(r["culprit_client"], r["culprit_clients"], r["culprit_host"]),
            r["downtime_ms"],
        )
        for r in rows
    ]


def culprit_name(client: str | None, clients: int | None, host: str | None) -> str:
    """Name the client behind a storm; one that has a new id each time by where it runs as well."""
    if client is None or (clients or 1) < 2:
        return client or ""
    return f"{client} ({clients} ids{f' from {host}' if host else ''})"


def _quality(quality: DataFrame) -> list[tuple[Any, ...]]:
    rows = quality.orderBy("src_partition").limit(MAX_ROWS).collect()
    return [
        (
            *(r["src_partition"], r["first_offset"], r["last_offset"], r["records"]),
            *(r["offset_gaps"], r["bad_batches"], r["undecodable"]),
            ", ".join(f"{kind}: {n}" for kind, n in sorted(r["unknown_types"].items())),
            *(r["missing_generations"], r["first_ts"], r["last_ts"]),
        )
        for r in rows
    ]


def _rejects(rejects: DataFrame) -> list[tuple[str, int]]:
    rows = (
        rejects.groupBy("reason")
        .agg(f.count("*").alias("n"))
        .orderBy(f.col("n").desc(), "reason")
        .limit(20)
        .collect()
    )
    return [(row["reason"], row["n"]) for row in rows]


def _pages(
    tables: Mapping[str, DataFrame],
    groups: Sequence[str],
    protocols: Mapping[str, str],
    log_end: datetime,
) -> list[GroupPage]:
    """Collect the pages of all chosen groups, with one query for each table."""
    if not groups:
        return []
    marks = _marks(tables["generations"], groups)
    firsts = {group: each[0].seq for group, each in marks.items()}
    stretches = _stretches(tables["assignments"], firsts, marks, log_end)
    stays, left_out = _stays(tables["memberships"], groups)
    what_if = _what_if(tables["replay_summary"], groups)
    return [
        GroupPage(
            group,
            protocols.get(group, ""),
            marks.get(group, ()),
            stretches.get(group, ([], False))[0],
            stretches.get(group, ([], False))[1],
            stays.get(group, ()),
            left_out.get(group, 0),
            what_if.get(group, ()),
            log_end,
        )
        for group in groups
    ]


def _of(frame: DataFrame, groups: Sequence[str]) -> DataFrame:
    return frame.filter(f.col("group_id").isin(*groups))


def _latest(frame: DataFrame, by: str, most: int) -> DataFrame:
    """Keep the last rows of each group."""
    newest = Window.partitionBy("group_id").orderBy(f.col(by).desc())
    return frame.withColumn("place", f.row_number().over(newest)).filter(f.col("place") <= most)


def _by_group(rows: Sequence[Row], make: Callable[[Row], T]) -> dict[str, list[T]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for row in rows:
        found[row["group_id"]].append(make(row))
    return dict(found)


def _marks(generations: DataFrame, groups: Sequence[str]) -> dict[str, list[GenerationMark]]:
    last = _latest(_of(generations, groups), "seq", MAX_GENERATIONS)
    return _by_group(
        last.orderBy("group_id", "seq").collect(),
        lambda row: GenerationMark(
            *(row["seq"], row["generation"], row["ts"], row["primary_cause"], row["evidence"]),
            *(row["confidence"], row["reason"] or "", row["n_members"], row["moved"]),
            *(row["since_previous_ms"], row["coordinator_changed"]),
        ),
    )


def _stays(
    memberships: DataFrame, groups: Sequence[str]
) -> tuple[dict[str, list[Stay]], dict[str, int]]:
    mine = _of(memberships, groups)
    counts = {row["group_id"]: row["count"] for row in mine.groupBy("group_id").count().collect()}
    found = _by_group(
        _latest(mine, "start_ts", MAX_STAYS).orderBy("start_ts", "member_id").collect(),
        lambda row: Stay(
            *(row["client_id"], row["member_id"], row["start_ts"], row["end_ts"]),
            row["end_reason"] or ("" if row["end_ts"] is None else str(Cause.UNKNOWN)),
        ),
    )
    return found, {group: n - len(found.get(group, ())) for group, n in counts.items()}


def _what_if(summary: DataFrame, groups: Sequence[str]) -> dict[str, list[WhatIf]]:
    names = (
        *("assignor", "generations", "moves", "revoked"),
        *("mean_stddev", "worst_spread", "problems", "rank"),
    )
    rows = _of(summary, groups).orderBy("group_id", "rank", "assignor").collect()
    return _by_group(rows, lambda row: WhatIf(*(row[name] for name in names)))


def _stretches(
    assignments: DataFrame,
    firsts: Mapping[str, int],
    marks: Mapping[str, Sequence[GenerationMark]],
    log_end: datetime,
) -> dict[str, tuple[list[Stretch], bool]]:
    """Take who had what from generation to generation; of groups with many partitions the share of topics."""
    drawn = f.create_map(*(f.lit(part) for pair in firsts.items() for part in pair))
    mine = _of(assignments, list(firsts)).filter(
        # the partitions of share groups have no owner
        f.col("phase").isin(*OWNED)
        & (f.col("protocol") != SHARE)
        & (f.col("seq") >= drawn[f.col("group_id")])
    )
    totals = mine.groupBy("group_id", "topic").agg(f.countDistinct("partition").alias("total"))
    sizes = totals.groupBy("group_id").agg(f.sum("total").alias("size"))
    is_large = f.col("size") > MAX_PARTITIONS
    each = f.concat_ws("-", "topic", "partition")
    rows = (
        mine.join(f.broadcast(totals), ["group_id", "topic"])
        .join(f.broadcast(sizes), "group_id")
        .withColumn("label", f.when(is_large, f.col("topic")).otherwise(each))
        .groupBy("group_id", "seq", "label", "client_id")
        .agg(
            f.when(f.first(is_large), f.count("*") / f.first("total"))
            .otherwise(1.0)
            .alias("share"),
            f.first(is_large).alias("large"),
        )
        .orderBy("group_id", "seq", "label", "client_id")
        .collect()
    )
    cells = _by_group(rows, lambda row: (row["seq"], row["label"], row["client_id"], row["share"]))
    large = {row["group_id"]: row["large"] for row in rows}
    found = {}
    for group, mine_cells in cells.items():
        begins = {mark.seq: mark.ts for mark in marks[group]}
        ends = {mark.seq: following.ts for mark, following in pairwise(marks[group])}
        found[group] = join_stretches(mine_cells, begins, ends, log_end), large[group]
    return found


def join_stretches(
    cells: Sequence[tuple[int, str, str, float]],
    begins: Mapping[int, datetime],
    ends: Mapping[int, datetime],
    log_end: datetime,
) -> list[Stretch]:
    """Put together what one client had over several generations.

    Args:
        cells: generation (`seq`), label, client and share, in the order of the generations.
        begins: when each generation began.
        ends: when each ended; the last one has none.
        log_end: when the log ends.
    """
    done: list[Stretch] = []
    open_: dict[tuple[str, str], tuple[int, Stretch]] = {}
    for seq, label, client, share in cells:
        end = max(ends.get(seq, log_end), begins[seq])
        before = open_.get((label, client))
        if before is not None and before[0] == seq - 1 and before[1].share == share:
            open_[label, client] = seq, before[1]._replace(end=end)
            continue
        if before is not None:
            done.append(before[1])
        open_[label, client] = seq, Stretch(label, client, begins[seq], end, share)
    done += [stretch for _, stretch in open_.values()]
    return sorted(done, key=lambda each: (each.label, each.start, each.client))
