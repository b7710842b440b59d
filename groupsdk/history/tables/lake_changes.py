"""How the tables of a run lie in a lakehouse, and what has to change there: for both engines, without their packages.

A table of a lakehouse has the rows of many clusters, by `cluster_id` and `day`. Its rows change by key: only those that are
new, different or gone are merged, so that a merge rewrites the days that they are of, and a repeated run changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.errors import ConfigError
from groupsdk.history.tables.schemas import CLUSTER, TABLES


DAY: Final = "day"
_NO: Final = pa.scalar(value=False)
GONE: Final = "_gone"
"""The column of changes that tells the rows to delete from those to write."""
NEW: Final = "_new"
"""The column of changes that tells the rows whose key was not there: where all are new, they are appended and nothing is read."""
SOURCE: Final = "s"
TARGET: Final = "t"
IS_GONE: Final = f"{SOURCE}.{GONE}"
"""The condition of the rows that a merge deletes."""
_END: Final = "end_ts"
"""The tables that have it describe a span of time: a row is as old as the end of its span."""


def app_id(cluster_id: str) -> str:
    """Return the application of a cluster's transactions: of two writers of one cluster, the format refuses the later one."""
    return f"groupsdk-history/{cluster_id}"


def another_process(cluster_id: str, root: str) -> ConfigError:
    return ConfigError(
        f"another process writes the tables of the cluster {cluster_id!r} in {root}: end it first"
    )


def lake_schema(name: str) -> Any:
    """Return the Arrow schema of a table in a lakehouse: with the day, if it has one, as the last column."""
    schema = TABLES[name].stored_schema
    if TABLES[name].day_of and DAY not in schema.names:
        schema = schema.append(pa.field(DAY, pa.date32()))
    return schema


def partitions_of(name: str) -> list[str]:
    return [CLUSTER, DAY] if TABLES[name].day_of else [CLUSTER]


def keys_of(name: str) -> list[str]:
    """Return the columns by which rows are matched. Rows of a table without a key are a set: each is there once."""
    table = TABLES[name]
    found = list(table.keys or table.columns)
    return [*found, DAY] if table.day_of else found


def lake_rows(name: str, rows: Any) -> Any:
    """Return rows of a table's files as they are in a lakehouse, each key once."""
    schema = lake_schema(name)
    source = TABLES[name].day_of
    if source:
        if DAY in rows.schema.names:
            rows = rows.drop_columns([DAY])
        rows = rows.append_column(
            DAY, rows.column(source).cast(pa.timestamp("us")).cast(pa.date32())
        )
    rows = rows.select(schema.names).cast(schema)
    keys = keys_of(name)
    keyed = _keyed(rows, keys, _nullable(keys, rows), "row")
    ones = [each for each in keyed.column_names if each != "row"]
    places = keyed.group_by(ones).aggregate([("row", "min")]).column("row_min")
    return rows if len(places) == rows.num_rows else rows.take(places.sort())


def changes(name: str, before: Any, after: Any) -> Any:
    """Compare the rows that a lakehouse has with those that it is to have, each key once.

    Returns an Arrow table of the rows that differ, with the columns `GONE` and `NEW`.
    """
    keys = keys_of(name)
    nullable = _nullable(keys, before, after)
    left = _keyed(before, keys, nullable, "before")
    right = _keyed(after, keys, nullable, "after")
    on = [each for each in left.column_names if each != "before"]
    pairs = left.join(right, on, join_type="full outer").select(["before", "after"])
    both = pairs.filter(pc.and_(pc.is_valid(pairs["before"]), pc.is_valid(pairs["after"])))
    old, new = before.take(both["before"]), after.take(both["after"])
    differ = np.zeros(both.num_rows, dtype=np.bool_)
    for column in old.column_names:
        if column not in keys:
            differ |= _differ(old.column(column), new.column(column))
    changed = new.filter(pa.array(differ))
    added = after.take(pairs.filter(pc.is_null(pairs["before"]))["after"])
    gone = before.take(pairs.filter(pc.is_null(pairs["after"]))["before"])
    return pa.concat_tables([_marked(gone, gone=True), _marked(changed), _marked(added, new=True)])


def _marked(rows: Any, *, gone: bool = False, new: bool = False) -> Any:
    rows = rows.append_column(GONE, pa.repeat(pa.scalar(gone), rows.num_rows))
    return rows.append_column(NEW, pa.repeat(pa.scalar(new), rows.num_rows))


def _nullable(keys: Sequence[str], *tables: Any) -> set[str]:
    return {each for each in keys if any(table.column(each).null_count for table in tables)}


def _keyed(rows: Any, keys: Sequence[str], nullable: Set[str], place: str) -> Any:
    """Return the keys of some rows, and the number of each row: a null, which a join would not match, is a flag."""
    columns: dict[str, Any] = {}
    for each in keys:
        column = rows.column(each)
        if each in nullable:
            columns[f"_null_{each}"] = column.is_null()
            column = column.fill_null(_FILLINGS.get(column.type, 0))
        columns[each] = column
    columns[place] = pa.array(np.arange(rows.num_rows))
    return pa.table(columns)


_FILLINGS: Final[Mapping[Any, Any]] = {
    pa.string(): "",
    pa.binary(): b"",
    pa.bool_(): False,
    pa.date32(): date(1970, 1, 1),
    pa.timestamp("us", tz="UTC"): datetime(1970, 1, 1, tzinfo=UTC),
}


def _differ(old: Any, new: Any) -> Any:
    if pa.types.is_nested(old.type):
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        if pa.types.is_map(old.type):
            return np.array([_sorted(a) != _sorted(b) for a, b in pairs], dtype=np.bool_)
        return np.array([a != b for a, b in pairs], dtype=np.bool_)
    same = pc.fill_null(pc.equal(old, new), _NO)
    nothing = pc.and_(pc.is_null(old, nan_is_null=True), pc.is_null(new, nan_is_null=True))
    return np.logical_not(pc.or_(same, nothing).to_numpy())


def _sorted(pairs: Any) -> Any:
    return None if pairs is None else sorted(pairs)


@dataclass(frozen=True, slots=True)
class Retention:
    """Rows older than the day `first` are retired; a row of a span, such as a membership, is as old as its end."""

    first: date

    @classmethod
    def of(cls, days: int, now_ms: int) -> "Retention":
        today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
        return cls(today - timedelta(days=days))

    def old_rows(self, name: str) -> str | None:
        """Return the SQL predicate of the rows of a table that are retired; None: it has no days."""
        if not TABLES[name].day_of:
            return None
        old = f"{DAY} < DATE '{self.first}'"
        if _END in TABLES[name].columns:
            old += f" AND CAST({_END} AS DATE) < DATE '{self.first}'"
        return old

    def keep(self, name: str, rows: Any) -> Any:
        """Return the rows that are not retired."""
        if not TABLES[name].day_of:
            return rows
        old = pc.less(rows.column(DAY), pa.scalar(self.first))
        if _END in TABLES[name].columns:
            ends = rows.column(_END).cast(pa.timestamp("us")).cast(pa.date32())
            old = pc.and_(old, pc.less(ends, pa.scalar(self.first)))
        return rows.filter(pc.invert(pc.fill_null(old, _NO)))


def sql_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class ClusterRows:
    """The rows of one cluster in a table of a lakehouse, and how both engines say in SQL what is to change: `s` has the changes for `t`."""

    name: str
    cluster_id: str

    @property
    def columns(self) -> list[str]:
        return list(lake_schema(self.name).names)

    @property
    def are_mine(self) -> str:
        return f"{CLUSTER} = {sql_text(self.cluster_id)}"

    def are_old(self, retention: Retention | None) -> str | None:
        """Return the predicate of the rows that are retired; None: none are."""
        old = None if retention is None else retention.old_rows(self.name)
        return None if old is None else f"{self.are_mine} AND {old}"

    @property
    def values(self) -> dict[str, str]:
        """The value of each column that a merge writes."""
        return {each: f"{SOURCE}.{each}" for each in self.columns}

    def match(self, days: Iterable[date | None]) -> str:
        """Return the condition that a row of the target is that of the source, among the files of some days."""
        parts = [f"{TARGET}.{self.are_mine}"]
        if TABLES[self.name].day_of:
            wanted = set(days)
            of_days = ", ".join(f"DATE '{each}'" for each in sorted(wanted - {None}))  # type: ignore[type-var]
            either = [f"{TARGET}.{DAY} IN ({of_days})"] if of_days else []
            if None in wanted:
                either.append(f"{TARGET}.{DAY} IS NULL")
            if either:
                parts.append(f"({' OR '.join(either)})")
        parts += [
            f"({TARGET}.{each} IS NOT DISTINCT FROM {SOURCE}.{each})"
            for each in keys_of(self.name)
            if each != CLUSTER
        ]
        return " AND ".join(parts)
