"""Make the table of rebalance storms: many generations of a group in a short time, and who is behind them."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window, functions as f

from groupsdk.history.groups.storms import Rebalance, Stay, Storm, storms as storms_of
from groupsdk.history.schemas import TABLES
from groupsdk.history.tables.shape import Step, shaped


GENERATIONS = 5
"""So many generations..."""
WINDOW_MS = 300_000
"""...within so long make a storm."""
_SHAPE = pa.schema(
    [
        ("group_id", pa.string()),
        ("start_ts", pa.timestamp("us", tz="UTC")),
        ("end_ts", pa.timestamp("us", tz="UTC")),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("generations", pa.int32()),
        ("moves", pa.int64()),
        ("causes", pa.map_(pa.string(), pa.int32())),
        ("culprit_client", pa.string()),
        ("culprit_changes", pa.int64()),
        ("culprit_clients", pa.int32()),
        ("culprit_host", pa.string()),
        ("downtime_ms", pa.int64()),
    ]
)


def storms(
    memberships: DataFrame,
    *,
    generations: int = GENERATIONS,
    window_ms: int = WINDOW_MS,
) -> Step:
    """Return the step from the table `generations` to `storms`; see `groups.storms`.

    Args:
        memberships: the table `memberships`.
        generations: how many make a storm.
        window_ms: within how long.
    """
    stays = memberships.select(
        *("group_id", "client_id", "client_host", "first_seq", "last_seq"),
        f.coalesce("stay_ms", f.lit(-1)).alias("stay_ms"),
        f.coalesce(
            "end_reason", f.when(f.col("end_ts").isNotNull(), "unknown").otherwise("")
        ).alias("end_reason"),
    )
    of_group = Window.partitionBy("group_id").orderBy("seq")
    ahead = f.lead("ts", generations - 1).over(of_group)
    dense = f.unix_millis(ahead) - f.unix_millis("ts") <= window_ms
    run = _of_group(generations, window_ms)

    def step(frame: DataFrame) -> DataFrame:
        # most groups never had so many in so short a time: those are not looked at one by one
        some = frame.withColumn("dense", dense).filter("dense").select("group_id").distinct()
        rebalances = frame.select(
            *("group_id", "seq", f.unix_millis("ts").alias("ts_ms"), "primary_cause"),
            f.coalesce("moved", f.lit(0)).alias("moved"),
            f.coalesce("commit_gap_ms", f.lit(0)).alias("commit_gap_ms"),
        )
        return (
            rebalances.join(some, "group_id", "semi")
            .groupBy("group_id")
            .cogroup(stays.join(some, "group_id", "semi").groupBy("group_id"))
            .applyInArrow(run, TABLES["storms"].ddl)
            .transform(shaped("storms"))
        )

    return step


def _of_group(generations: int, window_ms: int) -> Callable[[Any, Any], Any]:
    def run(rebalances: Any, stays: Any) -> Any:
        group = rebalances.column("group_id")[0].as_py()
        columns = ("seq", "ts_ms", "primary_cause", "moved", "commit_gap_ms")
        made = sorted(map(Rebalance._make, _rows(rebalances, columns)))
        stayed = list(map(Stay._make, _rows(stays, Stay._fields)))
        found = storms_of(made, stayed, generations=generations, window_ms=window_ms)
        return pa.Table.from_pylist([_row(group, each) for each in found], schema=_SHAPE)

    return run


def _rows(table: Any, columns: tuple[str, ...]) -> Any:
    return zip(*(table.column(name).to_pylist() for name in columns), strict=True)


def _row(group: str, storm: Storm) -> dict[str, Any]:
    found = storm._asdict()
    start_ms, end_ms = found.pop("start_ms"), found.pop("end_ms")
    found["causes"] = list(storm.causes.items())
    return {"group_id": group, "start_ts": start_ms * 1000, "end_ts": end_ms * 1000, **found}
