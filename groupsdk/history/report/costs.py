"""Sum up what groups lost: partition-seconds without progress by group and cause, and on one clock for all groups."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from groupsdk.history.tables.stage_tables import TableSource


NO_REBALANCE: Final = "no rebalance"
"""The cause of a standstill within a generation: the members were slow, or there was nothing to read."""
SURE: Final = 0.7
"""A cause of this confidence or more counts as sure."""
MAX_CLOCK: Final = 2_000
"""How many standstills the common clock shows: those that cost most."""


class CausePart(NamedTuple):
    """What one cause did to one group, or to all; `sure` and `sure_ms` are of causes with a confidence of `SURE` or more."""

    cause: str
    rebalances: int
    sure: int
    stalled_ms: int
    sure_ms: int

    def plus(self, other: "CausePart") -> "CausePart":
        return CausePart(
            self.cause,
            *(mine + yours for mine, yours in zip(self[1:], other[1:], strict=True)),
        )


class ClockBar(NamedTuple):
    """A time in which partitions of a group made no progress, for one cause."""

    group_id: str
    start: datetime
    end: datetime
    cause: str
    partitions: int
    stalled_ms: int


def parts_by_group(tables: TableSource, made: Any) -> dict[str, list[CausePart]]:
    """Return what each cause did to each group, the dearest first; `made` are the group's generations.

    Their columns: `group_id`, `primary_cause`, `confidence` and `stalled_ms`.
    """
    found: defaultdict[str, dict[str, CausePart]] = defaultdict(dict)
    sure = pc.greater_equal(pc.fill_null(made.column("confidence"), 0.0), SURE)
    rows = made.select(["group_id", "primary_cause", "stalled_ms"]).append_column("sure", sure)
    keys = ["group_id", "primary_cause", "sure"]
    for row in (
        rows.group_by(keys).aggregate([("stalled_ms", "sum"), ([], "count_all")]).to_pylist()
    ):
        cause, n, ms = row["primary_cause"], row["count_all"], row["stalled_ms_sum"] or 0
        part = CausePart(cause, n, n * row["sure"], ms, ms * row["sure"])
        known = found[row["group_id"]].get(cause)
        found[row["group_id"]][cause] = part if known is None else known.plus(part)
    # those between rebalances count in no generation
    rows = tables.read("standstills", ("group_id", "primary_cause", "stalled_ms"))
    rows = rows.filter(pc.is_null(rows.column("primary_cause")))
    for row in rows.group_by("group_id").aggregate([("stalled_ms", "sum")]).to_pylist():
        ms = row["stalled_ms_sum"]
        found[row["group_id"]][NO_REBALANCE] = CausePart(NO_REBALANCE, 0, 0, ms, ms)
    return {group: _dearest(parts.values()) for group, parts in found.items()}


def of_all(by_group: Mapping[str, Sequence[CausePart]]) -> list[CausePart]:
    """Return what each cause did to all groups together, the dearest first."""
    found: dict[str, CausePart] = {}
    for parts in by_group.values():
        for part in parts:
            known = found.get(part.cause)
            found[part.cause] = part if known is None else known.plus(part)
    return _dearest(found.values())


def _dearest(parts: Any) -> list[CausePart]:
    return sorted(parts, key=lambda each: (-each.stalled_ms, -each.rebalances, each.cause))


def clock(tables: TableSource, groups: Sequence[str]) -> list[ClockBar]:
    """Return when groups stood still, those that cost most, in order; the partitions of one group, generation and cause together."""
    columns = (*("group_id", "seq", "primary_cause", "start_ts", "end_ts", "stalled_ms"),)
    return sorted(_bars(tables.read("standstills", columns, groups)))


def _bars(rows: Any) -> Iterator[ClockBar]:
    # partitions that stood still at different times of one generation are apart
    minute = pc.floor_temporal(rows.column("end_ts"), unit="minute")
    together = rows.append_column("minute", minute).group_by(
        ["group_id", "seq", "primary_cause", "minute"]
    )
    found = together.aggregate(
        [("start_ts", "min"), ("end_ts", "max"), ("stalled_ms", "sum"), ([], "count_all")]
    )
    dearest = found.sort_by([("stalled_ms_sum", "descending"), ("group_id", "ascending")])
    for row in dearest.slice(0, MAX_CLOCK).to_pylist():
        yield ClockBar(
            row["group_id"],
            row["start_ts_min"],
            row["end_ts_max"],
            row["primary_cause"] or NO_REBALANCE,
            row["count_all"],
            row["stalled_ms_sum"],
        )
