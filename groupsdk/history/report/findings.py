"""Judge the groups of a history by the rules of the verdict, over the last day of the log."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from groupsdk.history.tables.stage_tables import TableSource
from groupsdk.verdict import Finding, Observation, Thresholds, judge
from groupsdk.verdict.past_rows import ADVICE, DEPARTURES, GENERATIONS, MEMBERSHIPS, past_of


_RECENT: Final = Thresholds(recent_ms=24 * 3_600_000)
_TABLES: Final = {
    "generations": GENERATIONS,
    "memberships": MEMBERSHIPS,
    "departures": DEPARTURES,
    "advice": ADVICE,
}


def findings(tables: TableSource, groups: Sequence[str], log_end: datetime) -> list[Finding]:
    """Return what the verdict finds in the pasts of groups, the most severe first. Lag and states of that time are not known."""
    rows = {name: _by_group(tables, name, groups) for name in _TABLES}
    end_ms = round(log_end.timestamp() * 1000)
    found: list[Finding] = []
    for group_id in groups:
        past = past_of(0, **{name: of[group_id] for name, of in rows.items()})
        seen = Observation(group_id=group_id, at_ms=end_ms, past=past)
        found += judge(seen, _RECENT).findings
    return sorted(found, key=lambda each: (-each.severity.rank, each.group))


def _by_group(
    tables: TableSource, name: str, groups: Sequence[str]
) -> defaultdict[str, list[dict[str, Any]]]:
    table = tables.read(name, _TABLES[name], groups)
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            micros = table.column(at).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            table = table.set_column(at, field.name, micros)
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        found[row["group_id"]].append(row)
    return found
