"""Hold groups to service level objectives: which share of their partition-seconds was read in time, and how fast the rest runs out.

The windows and their thresholds are those of "Alerting on SLOs" in Google's Site Reliability Workbook.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.errors import ConfigError
from groupsdk.history.explain.commit_spans import LONG_PAUSE_MS
from groupsdk.history.sources.user_files import known, read_toml, table, tables
from groupsdk.history.standing import GROUP_COLUMNS, PROGRESS_COLUMNS, known_lag, standing_still
from groupsdk.history.tables.schemas import TABLES


STANDSTILL_COLUMNS: Final = ("group_id", "topic", "partition", "start_ts", "end_ts", "usual_ms")
"""The columns of `standstills` that `budgets` takes."""
NEEDED: Final = {
    "progress": PROGRESS_COLUMNS,
    "groups": GROUP_COLUMNS,
    "standstills": STANDSTILL_COLUMNS,
}
"""The tables and columns that `budgets` takes."""
PAGE, TICKET = "page", "ticket"

_MINUTE: Final = 60_000
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_US: Final = 1_000
WINDOWS: Final[Mapping[str, int]] = {
    "5m": 5 * _MINUTE,
    "30m": 30 * _MINUTE,
    "1h": _HOUR,
    "6h": 6 * _HOUR,
    "3d": 3 * _DAY,
}
"""The windows over which burning is measured, in milliseconds."""


class BurnAlert(NamedTuple):
    """Alerts if the part `spent` of the budget is gone within `long`, and it is still burning as fast within `short`."""

    severity: str
    spent: float
    long: str
    short: str


ALERTS: Final = (
    BurnAlert(PAGE, 0.02, "1h", "5m"),
    BurnAlert(PAGE, 0.05, "6h", "30m"),
    BurnAlert(TICKET, 0.10, "3d", "6h"),
)


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective of groups: `percent` of their partition-seconds are read within `within_ms`, over `period_ms`.

    `groups` is a pattern (`*`, `?`, `[seq]`).
    """

    groups: str
    percent: float
    within_ms: int = 30_000
    period_ms: int = 30 * _DAY


def read_objectives(path: str) -> tuple[Objective, ...]:
    """Read objectives from a file of TOML: tables `[[slo]]` with `groups`, `percent`, and optionally `within` (seconds) and `days`.

    Raises:
        ConfigError: the file cannot be read or is no such file; it says where and what would be right.
    """
    content = read_toml(path, "the file of objectives")
    known(path, "the file", content, ("slo",))
    found = tuple(_objective(path, each) for each in tables(path, "slo", content.get("slo", [])))
    if not found:
        raise ConfigError(f"{path} declares no objective: add a table [[slo]]")
    return found


def _objective(path: str, given: Any) -> Objective:
    given = table(path, "slo", given)
    known(path, "slo", given, ("groups", "percent", "within", "days"))
    groups = given.get("groups")
    if not isinstance(groups, str) or not groups:
        raise ConfigError(f'{path}: each of [[slo]] needs groups, a pattern such as "pay-*"')
    percent = _number(path, given, "percent", 0.0, 1, 99.9999)
    within = _number(path, given, "within", 30, LONG_PAUSE_MS // 1_000, 86_400)
    days = _number(path, given, "days", 30, 1, 366)
    return Objective(groups, percent, round(1_000 * within), round(_DAY * days))


def _number(
    path: str, given: Mapping[str, Any], key: str, usual: float, low: float, high: float
) -> float:
    value = given.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ConfigError(
            f"{path}: {key} of slo {given['groups']!r} must be a number from {low} to {high}, not {value!r}"
        )
    return float(value)


class Budget(NamedTuple):
    """How a group meets its objective at the end of the log; the columns of the table `slo`. Times in milliseconds."""

    group_id: str
    percent: float
    within_ms: int
    period_ms: int
    partitions: int
    late: int
    """How many partitions stand still now."""
    total_ms: int
    """The time of all partitions in the period, in partition-milliseconds..."""
    bad_ms: int
    """...and how much of it was not read within `within_ms`."""
    good_percent: float
    budget_left: float
    """Which part of the error budget is left; negative if more than all of it is spent."""
    burn_5m: float | None
    burn_30m: float | None
    burn_1h: float | None
    burn_6h: float | None
    burn_3d: float | None
    """How many times as fast as the objective allows the budget was spent; None if no partition was followed."""
    alert: str | None
    """`PAGE`, `TICKET` or None."""

    @property
    def burns(self) -> Mapping[str, float | None]:
        """The rates of burning by window."""
        rates = (self.burn_5m, self.burn_30m, self.burn_1h, self.burn_6h, self.burn_3d)
        return dict(zip(WINDOWS, rates, strict=True))


class _Stretch(NamedTuple):
    """A time in milliseconds."""

    begin: int
    end: int

    def within(self, begin: int) -> int:
        """Return how much of it lies after `begin`."""
        return max(0, self.end - max(self.begin, begin))


def budgets(
    objectives: Sequence[Objective],
    tables: Mapping[str, Any],
    now_ms: int,
) -> Iterator[Budget]:
    """Yield how each group meets the first objective that matches its name, sorted by name.

    A partition counts from its first commit, until now while the group has members, else until its last commit; also until that if
    the committed offset was removed, as that of a deleted topic. A time without a commit is
    bad beyond `within_ms`, and beyond twice the usual interval, unless the group is known to have read everything.

    Args:
        tables: Arrow tables with the columns of `NEEDED`.
        now_ms: the end of the log.
    """
    progress, groups = tables["progress"], tables["groups"]
    wanted = _wanted(objectives, groups)
    if not wanted:
        return
    lag = known_lag(progress)
    names = pa.array(sorted(wanted), type=pa.string())
    progress, groups, standstills = (
        each.filter(pc.is_in(each.column("group_id"), names))
        for each in (progress, groups, tables["standstills"])
    )
    late: defaultdict[str, dict[tuple[str, int], _Stretch]] = defaultdict(dict)
    least_ms = min(each.within_ms for each in wanted.values())
    for each in standing_still(progress, groups, lag, now_ms, least_ms=least_ms):
        stretch = _bad(each.since_ms, now_ms, each.usual_ms, wanted[each.group_id])
        if stretch is not None:
            late[each.group_id][each.topic, each.partition] = stretch
    bad: defaultdict[str, list[_Stretch]] = defaultdict(list)
    for group_id, begin_ms, end_ms, usual_ms in _standstills(standstills):
        stretch = _bad(begin_ms, end_ms, usual_ms, wanted[group_id])
        if stretch is not None:
            bad[group_id].append(stretch)
    followed = _followed(progress, groups, late, now_ms)
    for group_id, objective in sorted(wanted.items()):
        if group_id not in followed:
            continue
        mine = [*bad[group_id], *late[group_id].values()]
        yield _budget(group_id, objective, followed[group_id], mine, len(late[group_id]), now_ms)


def _wanted(objectives: Sequence[Objective], groups: Any) -> dict[str, Objective]:
    found = {}
    for group_id in groups.column("group_id").to_pylist():
        for each in objectives:
            if fnmatchcase(group_id, each.groups):
                found[group_id] = each
                break
    return found


def _bad(begin_ms: int, end_ms: int, usual_ms: float, objective: Objective) -> _Stretch | None:
    begin_ms += max(objective.within_ms, round(2 * usual_ms))
    return _Stretch(begin_ms, end_ms) if begin_ms < end_ms else None


def _standstills(rows: Any) -> Iterator[tuple[str, int, int, float]]:
    times = (rows.column(name).cast("int64").to_pylist() for name in ("start_ts", "end_ts"))
    names, usual = rows.column("group_id").to_pylist(), rows.column("usual_ms").to_pylist()
    for group_id, begin, end, each in zip(names, *times, usual, strict=True):
        yield group_id, begin // _US, end // _US, each


def _followed(
    progress: Any,
    groups: Any,
    late: Mapping[str, Mapping[tuple[str, int], _Stretch]],
    now_ms: int,
) -> defaultdict[str, list[_Stretch]]:
    """Return for each group how long each of its partitions was followed."""
    left = {
        row["group_id"]
        for row in groups.select(["group_id", "n_members"]).to_pylist()
        if row["n_members"] == 0
    }
    found: defaultdict[str, list[_Stretch]] = defaultdict(list)
    keys = (progress.column(name).to_pylist() for name in ("group_id", "topic", "partition"))
    times = (progress.column(name).cast("int64").to_pylist() for name in ("first_ts", "last_ts"))
    removed = progress.column("committed_offset").is_null().to_pylist()
    for group_id, topic, partition, first, last, is_removed in zip(
        *keys, *times, removed, strict=True
    ):
        if first is None or last is None:
            continue
        is_late = (topic, partition) in late.get(group_id, ())
        is_over = is_removed or (group_id in left and not is_late)
        found[group_id].append(_Stretch(first // _US, last // _US if is_over else now_ms))
    return found


def _budget(
    group_id: str,
    objective: Objective,
    followed: Sequence[_Stretch],
    bad: Sequence[_Stretch],
    late: int,
    now_ms: int,
) -> Budget:
    allowed = 1 - objective.percent / 100
    begin_ms = now_ms - objective.period_ms
    total_ms, bad_ms = (_sum(each, begin_ms) for each in (followed, bad))
    share = bad_ms / total_ms if total_ms else 0.0

    def burn(window: str) -> float | None:
        since_ms = now_ms - WINDOWS[window]
        # before its first commit a partition spent nothing: a log of an hour spends no tenth of a month's budget
        of_ms = sum(max(0, each.end - since_ms) for each in followed)
        return round(_sum(bad, since_ms) / of_ms / allowed, 3) if of_ms else None

    burns = {each: burn(each) for each in WINDOWS}
    return Budget(
        group_id,
        objective.percent,
        objective.within_ms,
        objective.period_ms,
        len(followed),
        late,
        total_ms,
        bad_ms,
        round(100 * (1 - share), 6),
        round(1 - share / allowed, 6),
        burns["5m"],
        burns["30m"],
        burns["1h"],
        burns["6h"],
        burns["3d"],
        _alert(objective, burns),
    )


def _sum(stretches: Iterable[_Stretch], begin_ms: int) -> int:
    return sum(each.within(begin_ms) for each in stretches)


def _alert(objective: Objective, burns: Mapping[str, float | None]) -> str | None:
    for each in ALERTS:
        limit = each.spent * objective.period_ms / WINDOWS[each.long]
        if min(burns[each.long] or 0.0, burns[each.short] or 0.0) >= limit:
            return each.severity
    return None


def budgets_of(rows: Any) -> list[Budget]:
    """Return the rows of the table `slo`."""
    return [Budget(**row) for row in rows.to_pylist()]


def slo_table(found: Iterable[Budget]) -> Any:
    schema = TABLES["slo"].arrow_schema
    rows = [each._asdict() for each in found]
    return pa.Table.from_pylist(rows, schema=schema)
