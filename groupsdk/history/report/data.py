"""Collect the report's data from the tables, aggregated if there are many rows."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.assignments import OWNED, SHARE
from groupsdk.history.explain.assignor_replay import ACTUAL
from groupsdk.history.explain.changes import Cause
from groupsdk.history.report.costs import (
    SURE,
    CausePart,
    ClockBar,
    clock,
    of_all,
    parts_by_group,
)
from groupsdk.history.report.findings import findings
from groupsdk.history.slo import Budget, budgets_of
from groupsdk.history.tables.stage_tables import TableSource
from groupsdk.verdict import Finding


MAX_GROUPS: Final = 30
"""How many groups get pictures of their own, those that stood still for the longest first; the overview has more."""
MAX_OVERVIEW: Final = 400
MAX_PARTITIONS: Final = 60
"""How many partitions a picture of ownership has; of others the topics are shown."""
MAX_GENERATIONS: Final = 400
"""How many generations of a group are drawn: the last ones."""
MAX_MEMBERSHIPS: Final = 200
_MEMBER_LETTERS: Final = 6
MAX_ROWS: Final = 2_000
"""The most rows of a table under a picture; the number of omitted rows is shown below it."""


class GroupLine(NamedTuple):
    group_id: str
    protocol: str
    generations: int
    hours: float
    moves: int
    storms: int
    top_cause: str
    stalled_ms: int
    """For how long its partitions made no progress although they usually do, in partition-milliseconds."""
    parts: Sequence[CausePart] = ()
    """What each cause did to it, the dearest first."""


class GenerationMark(NamedTuple):
    """One generation; `since_previous_ms` is the time since the previous one began, None for the first."""

    seq: int
    generation: int
    ts: datetime
    cause: str
    evidence: str
    confidence: float | None
    reason: str
    n_members: int
    moved: int
    since_previous_ms: int | None
    coordinator_changed: bool


class OwnershipSpan(NamedTuple):
    """A partition, or a topic's partitions, owned by one client for a time."""

    label: str
    client: str
    start: datetime
    end: datetime
    share: float
    """The client's share of the topic's partitions, from 0 to 1; 1 for a single partition."""


class MembershipBar(NamedTuple):
    client_id: str
    member_id: str
    start: datetime
    end: datetime | None
    end_reason: str


class WhatIf(NamedTuple):
    """An assignor's results over a group's history, None if it has none; `rank` 1 is best, `worst_spread` is between two members."""

    assignor: str
    generations: int
    moves: int
    revoked: int
    mean_stddev: float | None
    worst_spread: int | None
    problems: int
    rank: int


class StormLine(NamedTuple):
    """One storm; `culprit` names the client behind most of it, "" if there is none."""

    group_id: str
    start: datetime
    end: datetime
    generations: int
    moves: int
    causes: str
    culprit: str
    stalled_ms: int


class AdviceLine(NamedTuple):
    """What a change of `setting` would have spared and cost, out of `of_rebalances`; times in partition-milliseconds.

    `advice` is one of the constants of `explain.advice`; see `explain.advice.Advice`.
    """

    group_id: str
    advice: str
    setting: str
    pays: bool
    """Whether partitions would have stood still for no longer than they did."""
    rebalances: int
    moves: int
    revoked: int
    spared_ms: int
    added_ms: int
    late_spared: int
    late_added: int
    back: int
    gone: int
    of_rebalances: int
    evidence: Sequence[tuple[int, int]]
    """The first of its generations: `seq` and number."""
    more: int
    """How many generations are left out of `evidence`."""


@dataclass(frozen=True, slots=True)
class GroupPage:
    """The data of one group's page: what its pictures and tables show."""

    group_id: str
    protocol: str
    generations: Sequence[GenerationMark]
    ownership: Sequence[OwnershipSpan]
    by_topic: bool
    """Whether `ownership` shows topics rather than partitions, of which there are too many."""
    stays: Sequence[MembershipBar]
    left_out_stays: int
    what_if: Sequence[WhatIf]
    end: datetime
    own_assignors: Sequence[str] = ()
    """The assignors that the group had, in their order."""

    def label(self, assignor: str) -> str:
        """Return the name to show for an assignor of `what_if`: the group's own for what really happened."""
        own = " and ".join(self.own_assignors)
        return f"{own} (actual)" if own and assignor == ACTUAL else assignor


@dataclass(frozen=True, slots=True)
class ReportData:
    """All data of the report.

    `overview` has a line for each group, and `pages` the groups with a page of their own. `causes_by_time` counts rebalances
    by time and cause, in steps of `bucket` ("second", "minute", "hour" or "day"). `quality` has the rows of the table of that name, and
    `rejects` counts undecodable records by reason.
    """

    start: datetime | None
    end: datetime | None
    overview: Sequence[GroupLine]
    n_groups: int
    n_generations: int
    n_commits: int
    causes_by_time: Sequence[tuple[datetime, str, int, int]]
    """Time and cause of rebalances, their number, and how many of these causes are sure (`costs.SURE`)."""
    bucket: str
    coordinator_changes: Sequence[datetime]
    gaps: Sequence[tuple[str, int, int, int, int]]
    """For each cause: its name, the number of generations, and the median, 95th percentile and longest gap in milliseconds."""
    lag: Sequence[tuple[str, str, int, int, int]]
    """For each group and kind of lag: both names, and the median, 95th percentile and longest lag in records."""
    storms: Sequence[StormLine]
    advice: Sequence[AdviceLine]
    quality: Sequence[tuple[Any, ...]]
    rejects: Sequence[tuple[str, int]]
    pages: Sequence[GroupPage] = field(default_factory=tuple)
    costs: Sequence[CausePart] = ()
    """What each cause did to all groups together, the dearest first."""
    clock: Sequence[ClockBar] = ()
    """When the first groups of the overview stood still."""
    budgets: Sequence[Budget] = ()
    """How groups meet their service level objectives, if there are some; those with the least budget first."""
    findings: Sequence[Finding] = ()
    """What the verdict finds in the last day of the groups with a page."""

    @property
    def warning(self) -> str:
        """The line that a command writes if nothing could be read, as of files that are no segments; "" otherwise."""
        if not self.rejects or any(row[3] for row in self.quality):
            return ""
        return f"groupsdk: no record could be read: {self.rejects[0][0]}\n"


_MARK: Final = tuple(
    "primary_cause" if name == "cause" else name for name in GenerationMark._fields
)


def collect(tables: TableSource, groups: Sequence[str] = ()) -> ReportData:
    """Collect the data; `groups` get pictures of their own, those that stood still for the longest unless given."""
    own = (
        *("group_id", "protocol", "assignor", "commit_gap_ms", "commit_gap_max_ms", "stalled_ms"),
    )
    columns = (*own, *_MARK)
    every = tables.read("generations", columns)
    made = every.filter(pc.not_equal(every.column("primary_cause"), str(Cause.CREATED)))
    start, end = _bounds(made.column("ts"))
    parts = parts_by_group(tables, made)
    overview = _overview(tables, made, parts)
    chosen = list(groups) or [line.group_id for line in overview[:MAX_GROUPS]]
    quality = _quality(tables)
    log_end = max((row[-1] for row in quality if row[-1] is not None), default=end)
    bucket = _bucket(start, end)
    numbers = _numbers(every)
    return ReportData(
        start=start,
        end=end,
        overview=overview,
        n_groups=len(pc.unique(made.column("group_id"))),
        n_generations=made.num_rows,
        n_commits=tables.count("offset_commits"),
        causes_by_time=_causes(made, bucket),
        bucket=bucket,
        coordinator_changes=_coordinator_changes(made),
        gaps=_gaps(made),
        lag=_lag(tables),
        storms=_storms(tables),
        advice=_advice(tables, numbers),
        quality=quality,
        rejects=_rejects(tables),
        pages=[] if log_end is None else _pages(tables, every, chosen, log_end),
        costs=of_all(parts),
        clock=clock(tables, [line.group_id for line in overview[:MAX_GROUPS]]),
        budgets=_budgets(tables),
        findings=[] if log_end is None else findings(tables, chosen, log_end),
    )


def _bounds(times: Any) -> tuple[datetime | None, datetime | None]:
    found = pc.min_max(times).as_py()
    return found["min"], found["max"]


def _bucket(start: datetime | None, end: datetime | None) -> str:
    seconds = (end - start).total_seconds() if start is not None and end is not None else 0
    for unit, longest in (("second", 180), ("minute", 3 * 3600), ("hour", 8 * 86_400)):
        if seconds <= longest:
            return unit
    return "day"


def _numbers(every: Any) -> dict[tuple[str, int], int]:
    columns = (every.column(name).to_pylist() for name in ("group_id", "seq", "generation"))
    return {(group, seq): number for group, seq, number in zip(*columns, strict=True)}


def _budgets(tables: TableSource) -> list[Budget]:
    found = budgets_of(tables.read("slo", Budget._fields))
    return sorted(found, key=lambda each: (each.budget_left, each.group_id))[:MAX_ROWS]


def _overview(
    tables: TableSource, made: Any, parts: Mapping[str, Sequence[CausePart]]
) -> list[GroupLine]:
    found = (
        made.group_by("group_id")
        .aggregate(
            [
                ("seq", "count"),
                ("ts", "min"),
                ("ts", "max"),
                ("moved", "sum"),
            ]
        )
        .to_pylist()
    )
    last = tables.read("groups", ("group_id", "protocol"))
    protocols = dict(zip(*(each.to_pylist() for each in last.columns), strict=True))
    stalled = {group: sum(each.stalled_ms for each in mine) for group, mine in parts.items()}
    found.sort(
        key=lambda row: (
            *(-stalled.get(row["group_id"], 0), -row["seq_count"]),
            row["group_id"],
        )
    )
    storms = Counter(tables.read("storms", ("group_id",)).column("group_id").to_pylist())
    return [
        GroupLine(
            row["group_id"],
            protocols[row["group_id"]],
            row["seq_count"],
            _hours(row["ts_min"], row["ts_max"]),
            row["moved_sum"],
            storms[row["group_id"]],
            max((each.rebalances, each.cause) for each in parts[row["group_id"]])[1],
            stalled.get(row["group_id"], 0),
            parts[row["group_id"]],
        )
        for row in found[:MAX_OVERVIEW]
    ]


def _hours(first: datetime | None, last: datetime | None) -> float:
    return 0.0 if first is None or last is None else (last - first).total_seconds() / 3600


def _causes(made: Any, bucket: str) -> list[tuple[datetime, str, int, int]]:
    times = pc.floor_temporal(made.column("ts"), unit=bucket)
    sure = pc.greater_equal(pc.fill_null(made.column("confidence"), 0.0), SURE)
    found = (
        pa.table({"t": times, "cause": made.column("primary_cause"), "sure": sure.cast("int64")})
        .filter(pc.is_valid(times))
        .group_by(["t", "cause"])
        .aggregate([("cause", "count"), ("sure", "sum")])
        .sort_by([("t", "ascending"), ("cause", "ascending")])
        .slice(0, MAX_ROWS)
    )
    return [
        (row["t"], row["cause"], row["cause_count"], row["sure_sum"]) for row in found.to_pylist()
    ]


def _coordinator_changes(made: Any) -> list[datetime]:
    times = made.filter(made.column("coordinator_changed")).column("ts").drop_null()
    seconds = pc.unique(pc.floor_temporal(times, unit="second")).to_pylist()
    return sorted(seconds)[:MAX_ROWS]


def _gaps(made: Any) -> list[tuple[str, int, int, int, int]]:
    known = made.filter(pc.is_valid(made.column("commit_gap_ms")))
    found = []
    for cause in sorted(pc.unique(known.column("primary_cause")).to_pylist()):
        mine = known.filter(pc.equal(known.column("primary_cause"), cause))
        values = mine.column("commit_gap_ms").to_numpy()
        median, high = (int(each) for each in np.percentile(values, (50, 95)))
        longest = pc.max(mine.column("commit_gap_max_ms")).as_py()
        found.append((cause, len(values), median, high, longest))
    return found


def _lag(tables: TableSource) -> list[tuple[str, str, int, int, int]]:
    lag = tables.read("lag", ("group_id", "kind", "lag"))
    most = (
        lag.group_by(["group_id", "kind"])
        .aggregate([("lag", "max")])
        .sort_by([("lag_max", "descending"), ("group_id", "ascending"), ("kind", "ascending")])
        .slice(0, MAX_GROUPS)
        .to_pylist()
    )
    found = []
    for row in most:
        mine = lag.filter(
            pc.and_(
                pc.equal(lag.column("group_id"), row["group_id"]),
                pc.equal(lag.column("kind"), row["kind"]),
            )
        )
        values = mine.column("lag").drop_null().to_numpy()
        median, high = (int(each) for each in np.percentile(values, (50, 95)))
        found.append((row["group_id"], row["kind"], median, high, row["lag_max"]))
    return found


def _storms(tables: TableSource) -> list[StormLine]:
    columns = (
        *("group_id", "start_ts", "end_ts", "generations", "moves", "causes"),
        *("culprit_client", "culprit_clients", "culprit_host", "stalled_ms"),
    )
    found = tables.read("storms", columns)
    order = [("start_ts", "ascending"), ("group_id", "ascending")]
    return [
        StormLine(
            *(row["group_id"], row["start_ts"], row["end_ts"], row["generations"], row["moves"]),
            ", ".join(f"{cause} {n}" for cause, n in sorted(dict(row["causes"]).items())),
            culprit_name(row["culprit_client"], row["culprit_clients"], row["culprit_host"]),
            row["stalled_ms"],
        )
        for row in found.sort_by(order).slice(0, MAX_ROWS).to_pylist()
    ]


def culprit_name(client: str | None, clients: int | None, host: str | None) -> str:
    """Name the client behind a storm; a client with a new id at each start is named by its host as well."""
    if client is None or (clients or 1) < 2:
        return client or ""
    return f"{client} ({clients} ids{f' from {host}' if host else ''})"


_ADVICE: Final = tuple(name for name in AdviceLine._fields if name != "more")
_SHOWN: Final = 5


def _advice(tables: TableSource, numbers: Mapping[tuple[str, int], int]) -> list[AdviceLine]:
    rows = tables.read("advice", _ADVICE).to_pylist()
    rows.sort(
        key=lambda row: (
            *(not row["pays"], -row["rebalances"]),
            *(-row["revoked"] - row["moves"], row["group_id"]),
        )
    )
    found = []
    for row in rows[:MAX_ROWS]:
        seqs = row.pop("evidence") or []
        shown = [(seq, numbers[row["group_id"], seq]) for seq in seqs[:_SHOWN]]
        found.append(AdviceLine(**row, evidence=shown, more=max(0, len(seqs) - _SHOWN)))
    return found


def _quality(tables: TableSource) -> list[tuple[Any, ...]]:
    columns = (
        *("src_partition", "first_offset", "last_offset", "records", "offset_gaps", "bad_batches"),
        *("undecodable", "unknown_types", "missing_generations", "first_ts", "last_ts"),
    )
    rows = tables.read("quality", columns).sort_by("src_partition").slice(0, MAX_ROWS).to_pylist()
    for row in rows:
        types = sorted(dict(row["unknown_types"] or ()).items())
        row["unknown_types"] = ", ".join(f"{kind}: {n}" for kind, n in types)
    return [tuple(row[name] for name in columns) for row in rows]


def _rejects(tables: TableSource) -> list[tuple[str, int]]:
    found = tables.read("rejects", ("reason",)).group_by("reason").aggregate([("reason", "count")])
    order = [("reason_count", "descending"), ("reason", "ascending")]
    rows = found.sort_by(order).slice(0, 20).to_pylist()
    return [(row["reason"], row["reason_count"]) for row in rows]


def _pages(
    tables: TableSource, every: Any, groups: Sequence[str], log_end: datetime
) -> list[GroupPage]:
    """Collect the pages of all chosen groups, reading each table once."""
    mine = every.filter(pc.is_in(every.column("group_id"), pa.array(groups, type=pa.string())))
    mine = mine.filter(pc.is_valid(mine.column("ts"))).sort_by("seq")
    marks: defaultdict[str, list[GenerationMark]] = defaultdict(list)
    protocols: dict[str, str] = {}
    assignors: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for row in mine.select(["group_id", "protocol", "assignor", *_MARK]).to_pylist():
        group, protocols[row["group_id"]] = row["group_id"], row["protocol"]
        if row["assignor"]:
            assignors[group][row["assignor"]] = None
        values = [row[name] for name in _MARK]
        mark = GenerationMark(*values)
        marks[group].append(mark._replace(reason=mark.reason or ""))
    shown = {group: each[-MAX_GENERATIONS:] for group, each in marks.items()}
    stays = _stays(tables, groups)
    names = {group: client_names(stays[group], log_end) for group in groups}
    ownership = _ownership(tables, shown, names, log_end)
    for group, mine in stays.items():
        stays[group] = [each._replace(client_id=names[group][each.member_id]) for each in mine]
    what_if = _what_if(tables, groups)
    return [
        GroupPage(
            group,
            protocols.get(group, ""),
            shown.get(group, []),
            *ownership.get(group, ([], False)),
            stays[group][-MAX_MEMBERSHIPS:],
            max(0, len(stays[group]) - MAX_MEMBERSHIPS),
            what_if[group],
            log_end,
            tuple(assignors[group]),
        )
        for group in groups
    ]


def _stays(tables: TableSource, groups: Sequence[str]) -> defaultdict[str, list[MembershipBar]]:
    columns = ("group_id", "client_id", "member_id", "start_ts", "end_ts", "end_reason")
    rows = tables.read("memberships", columns, groups)
    order = [("start_ts", "ascending"), ("member_id", "ascending")]
    found: defaultdict[str, list[MembershipBar]] = defaultdict(list)
    for row in rows.filter(pc.is_valid(rows.column("start_ts"))).sort_by(order).to_pylist():
        reason = row["end_reason"] or ("" if row["end_ts"] is None else str(Cause.UNKNOWN))
        found[row["group_id"]].append(
            MembershipBar(
                row["client_id"], row["member_id"], row["start_ts"], row["end_ts"], reason
            )
        )
    return found


def client_names(stays: Sequence[MembershipBar], log_end: datetime) -> dict[str, str]:
    """Return a name for each member: its client id, with a part of its own id where others have the same at the same time.

    A client that comes back before its last membership has ended keeps its name: the two are together for a short time only.
    """
    by_client: defaultdict[str, list[MembershipBar]] = defaultdict(list)
    for each in sorted(stays, key=lambda each: each.start):
        by_client[each.client_id].append(each)
    names = {}
    for client_id, mine in by_client.items():
        periods = [(each.start, each.end or log_end) for each in mine]
        shared = any(
            2 * (min(a[1], b[1]) - b[0]) > min(a[1] - a[0], b[1] - b[0])
            for a, b in pairwise(periods)
        )
        for each in mine:
            own = each.member_id.removeprefix(f"{client_id}-")[:_MEMBER_LETTERS]
            names[each.member_id] = f"{client_id} {own}" if shared else client_id
    return names


def _what_if(tables: TableSource, groups: Sequence[str]) -> defaultdict[str, list[WhatIf]]:
    rows = tables.read("replay_summary", ("group_id", *WhatIf._fields), groups)
    found: defaultdict[str, list[WhatIf]] = defaultdict(list)
    for row in rows.sort_by([("rank", "ascending"), ("assignor", "ascending")]).to_pylist():
        found[row.pop("group_id")].append(WhatIf(**row))
    return found


def _ownership(
    tables: TableSource,
    marks: Mapping[str, Sequence[GenerationMark]],
    names: Mapping[str, Mapping[str, str]],
    log_end: datetime,
) -> dict[str, tuple[list[OwnershipSpan], bool]]:
    """Collect the owners of partitions by generation; for groups with many partitions, each client's share of topics."""
    columns = (
        *("group_id", "seq", "topic", "partition", "member_id", "client_id", "phase", "protocol"),
    )
    rows = tables.read("assignments", columns, list(marks))
    # the partitions of share groups have no owner
    rows = rows.filter(
        pc.and_(
            pc.is_in(rows.column("phase"), pa.array(OWNED)),
            pc.not_equal(rows.column("protocol"), SHARE),
        )
    )
    found = {}
    for group, shown in marks.items():
        mine = rows.filter(
            pc.and_(
                pc.equal(rows.column("group_id"), group),
                pc.greater_equal(rows.column("seq"), shown[0].seq),
            )
        )
        if mine.num_rows:
            cells, large = ownership_cells(mine, names[group])
            begins = {mark.seq: mark.ts for mark in shown}
            found[group] = join_ownership(cells, begins, log_end), large
    return found


def ownership_cells(rows: Any, names: Mapping[str, str]) -> tuple[Any, bool]:
    """Return `seq`, `label`, `client_id` and `share`, a row for each; and whether the labels are topics.

    `names` are those of members, in the place of their client ids.
    """
    members = pc.index_in(rows.column("member_id"), pa.array(list(names), pa.string()))
    named = pc.take(pa.array(list(names.values()), pa.string()), members)
    place = rows.schema.get_field_index("client_id")
    rows = rows.set_column(place, "client_id", pc.coalesce(named, rows.column("client_id")))
    places = rows.group_by(["topic", "partition"]).aggregate([])
    large = places.num_rows > MAX_PARTITIONS
    if not large:
        topics, numbers = rows.column("topic"), rows.column("partition")
        labels = pc.binary_join_element_wise(topics, pc.cast(numbers, pa.string()), "-")
        # a connector itself, or a shard without a number
        labels = pc.if_else(pc.less(numbers, 0), topics, labels)
        ones = pa.array(np.ones(rows.num_rows))
        columns = {
            "seq": rows.column("seq"),
            "label": labels,
            "client_id": rows.column("client_id"),
        }
        return pa.table({**columns, "share": ones}), False
    totals = Counter(places.column("topic").to_pylist())
    found = rows.group_by(["seq", "topic", "client_id"]).aggregate([("partition", "count")])
    topics = found.column("topic").to_pylist()
    counts = found.column("partition_count").to_pylist()
    shares = [n / totals[topic] for n, topic in zip(counts, topics, strict=True)]
    columns = {
        "seq": found.column("seq"),
        "label": found.column("topic"),
        "client_id": found.column("client_id"),
    }
    return pa.table({**columns, "share": pa.array(shares)}), True


def join_ownership(
    cells: Any, begins: Mapping[int, datetime], log_end: datetime
) -> list[OwnershipSpan]:
    """Join the spans of one client over several generations, of cells with `seq`, `label`, `client_id` and `share`."""
    if not cells.num_rows:
        return []
    order = [(name, "ascending") for name in ("label", "client_id", "seq")]
    cells = cells.sort_by(order)
    seqs = cells.column("seq").to_numpy()
    breaks = np.ones(len(seqs), dtype=np.bool_)
    breaks[1:] = seqs[1:] != seqs[:-1] + 1
    for name in ("label", "client_id"):
        codes = pc.dictionary_encode(cells.column(name).combine_chunks()).indices.to_numpy()
        breaks[1:] |= codes[1:] != codes[:-1]
    shares = cells.column("share").to_numpy()
    breaks[1:] |= shares[1:] != shares[:-1]
    firsts = np.flatnonzero(breaks)
    lasts = np.append(firsts[1:], len(seqs)) - 1
    chosen = cells.take(pa.array(firsts))
    columns: Iterable[Any] = zip(
        chosen.column("label").to_pylist(),
        chosen.column("client_id").to_pylist(),
        seqs[firsts].tolist(),
        seqs[lasts].tolist(),
        shares[firsts].tolist(),
        strict=True,
    )
    return [
        # a clock may go back
        OwnershipSpan(
            *(label, client, begins[first]),
            max(begins[first], begins.get(last + 1, log_end)),
            share,
        )
        for label, client, first, last, share in columns
        if first in begins
    ]
