"""Read raw records that are in Spark already: from an archive, or from Spark's own Kafka connector."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from groupsdk.history.kernel.rows import from_arrow
from groupsdk.history.reading import Made, Reader
from groupsdk.history.sources.kinds import Reading, given, land_frame
from groupsdk.history.tables.shape import shaped


def read_raw(raw: DataFrame) -> Reading:
    """Return what reads raw records, for `job.Inputs`: rows with the columns of the table `raw_records`."""
    records = raw.transform(shaped("raw_records"))

    def read(land: str | None) -> DataFrame:
        def run(batches: Iterable[Any]) -> Iterator[Any]:
            context = TaskContext.get()
            assert context is not None
            return given(made_of(batches), land, f"part-{context.partitionId():05}-raw")

        return land_frame(records, run)

    return read


def made_of(batches: Iterable[Any]) -> Made:
    """Read raw records by the rules of `groupsdk.history.reading`.

    Args:
        batches: of the schema `kernel.rows.RAW`, in any order.
    """
    reader = Reader(has_holes=True)
    for batch in batches:
        # partitions may be mixed: as a rule they are not
        for partition in pc.unique(batch.column("src_partition")).to_pylist():
            mine = batch.filter(pc.equal(batch.column("src_partition"), partition))
            mine = mine.sort_by("src_offset")
            yield from reader.take(from_arrow(mine), partition, f"partition {partition}")
    yield from reader.close()
