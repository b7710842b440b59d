"""Make the table `lag` in Spark's workers, some partitions at a time: how far each group is behind, as far as known."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as f

from groupsdk.history.read import whole_log
from groupsdk.history.sources.spark_rows import Step, spark_ddl
from groupsdk.history.tables import sampled_lag
from groupsdk.history.tables.schemas import TABLES


def lower_bounds(spans: DataFrame) -> DataFrame:
    """Make the table from `commit_spans` alone; see `whole_log.lower_bounds`."""
    return _in_parts(spans.select(*whole_log.LAG_COLUMNS), whole_log.lower_bounds)


def sampled(ends: DataFrame) -> Step:
    """Return the step from the table `offset_commits` to `lag`; see `sampled_lag.sampled` for the samples."""
    samples = ends.select("topic", "partition", "ts", f.col("end_offset").cast("bigint"))

    def step(commits: DataFrame) -> DataFrame:
        given = commits.select(*sampled_lag.COMMIT_COLUMNS)
        return _in_parts(given.unionByName(samples, allowMissingColumns=True), _sampled)

    return step


def _sampled(rows: Any) -> Any:
    is_sample = pc.is_valid(rows.column("end_offset"))
    ends = rows.filter(is_sample).select(["topic", "partition", "ts", "end_offset"])
    return sampled_lag.sampled(rows.filter(pc.invert(is_sample)), ends)


def _in_parts(rows: DataFrame, make: Callable[[Any], Any]) -> DataFrame:
    """Make the table of rows of which a worker has all that are of one partition."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        held = list(batches)
        if held:
            yield from make(pa.Table.from_batches(held)).to_batches()

    together = rows.repartition("topic", "partition")
    return together.mapInArrow(run, spark_ddl(TABLES["lag"].arrow_schema))
