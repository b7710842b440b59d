"""Read the coordinators' reasons for rebalances from brokers' logs with Spark, including those clients give (KIP-800)."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as f

from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.sources.broker_log_lines import (
    BUMPED,
    ENDS,
    OF_MODERN,
    PREPARING,
    TIME,
    LineParser,
    time_zone,
    warn_unrecognised,
)
from groupsdk.history.sources.spark_rows import spark_ddl
from groupsdk.history.tables.schemas import TIMESTAMP


_REASONS = pa.schema(
    [
        ("group_id", pa.string()),
        ("generation", pa.int32()),
        ("ts", TIMESTAMP),
        ("reason", pa.string()),
        ("cause", pa.string()),
        ("compatible", pa.list_(pa.string())),
    ]
)
_ENDS = pa.schema(
    [
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("ts", TIMESTAMP),
        ("reason", pa.string()),
    ]
)


def warn_if_unrecognised(spark: SparkSession, path: str) -> None:
    """Log a warning if no line of the brokers' log files is recognised; see `broker_log_lines.warn_unrecognised`."""
    lines = spark.read.text(path)
    patterns = (PREPARING, BUMPED, *(pattern for pattern, *_ in ENDS))
    if any(not lines.filter(f.col("value").rlike(each)).isEmpty() for each in patterns):
        return
    counted = lines.agg(
        f.count("*").alias("lines"), f.count_if(f.col("value").rlike(TIME)).alias("dated")
    ).first()
    assert counted is not None
    warn_unrecognised(path, counted["lines"], counted["dated"])


def read_broker_log(spark: SparkSession, path: str, *, zone: str = "UTC") -> DataFrame:
    """Read the reasons for rebalances from log files of brokers, compressed ones as well; a path or pattern as Spark takes it.

    Returns one row for each time that a generation was made: `group_id`, `generation` (the one that came of it), `ts`,
    `reason` (of the first line, which began the rebalance), `cause` and `compatible`, the causes that agree with
    it. The cause is null where the reason is none that is known.
    """
    return _parsed(spark.read.text(path), zone, LoggedReason, _REASONS)


def read_ends(spark: SparkSession, path: str, *, zone: str = "UTC") -> DataFrame:
    """Read the reasons for departures likewise.

    Returns one row for each end: `group_id`, `member_id`, `ts` and `reason`: "leave" or "expiry". A member that comes
    back under its id may end several times.
    """
    return _parsed(spark.read.text(path), zone, LoggedDeparture, _ENDS)


def _parsed(
    lines: DataFrame,
    zone: str,
    kind: type[LoggedReason | LoggedDeparture],
    schema: Any,
) -> DataFrame:
    """Parse the entries of a kind in the lines of each group, in their order: several are often of one millisecond."""
    at = time_zone(zone)

    def parse(table: Any) -> Any:
        parser = LineParser(at)
        for line in table.sort_by("place").column("value").to_pylist():
            parser.take(line)
        found = [
            each._replace(ts_ms=1000 * each.ts_ms)
            for each in parser.entries()
            if isinstance(each, kind)
        ]
        columns = zip(*found, strict=True) if found else [()] * len(schema)
        return pa.table(
            [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
            schema=schema,
        )

    groups = ((PREPARING, 1), (OF_MODERN, 1), *((pattern, group) for pattern, group, *_ in ENDS))
    named = f.coalesce(
        *(f.nullif(f.regexp_extract("value", each, group), f.lit("")) for each, group in groups)
    )
    return (
        lines.filter(f.col("value").contains("roup"))
        .select("value", f.monotonically_increasing_id().alias("place"), named.alias("of_group"))
        .filter(f.col("of_group").isNotNull())
        .groupBy("of_group")
        .applyInArrow(parse, spark_ddl(schema))
    )
