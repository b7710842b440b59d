"""Decode raw records that are in Spark already: from an archive, or from Spark's own Kafka connector."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as f

from groupsdk.history.kernel.rows import from_arrow
from groupsdk.history.sources.kinds import COMMITS_KIND, REST_KIND, cut, shape_of, spark_ddl
from groupsdk.history.tables.shape import Step, shaped


def commits(raw: DataFrame) -> DataFrame:
    """Take the committed offsets out of raw records; gives records of the kind "commits"."""
    kind = f.hex(f.substring("key", 1, 2))
    mine = raw.filter(kind.isin("0000", "0001") & ~f.col("control"))
    return mine.transform(_of_kind(COMMITS_KIND))


def rest(raw: DataFrame) -> DataFrame:
    """Take all but the committed offsets out of raw records, and what cannot be decoded of those."""
    return raw.transform(_of_kind(REST_KIND))


def _of_kind(kind: str) -> Step:
    run = _in_worker(kind)
    ddl = spark_ddl(shape_of(kind))

    def step(raw: DataFrame) -> DataFrame:
        return raw.transform(shaped("raw_records")).mapInArrow(run, ddl)

    return step


def _in_worker(kind: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            # partitions may be mixed: as a rule they are not
            for partition in pc.unique(batch.column("src_partition")).to_pylist():
                mine = batch.filter(pc.equal(batch.column("src_partition"), partition))
                yield from cut(kind, from_arrow(mine), partition, f"partition {partition}")

    return run
