"""Read raw records that are in Spark already: from an archive, or from Spark's own Kafka connector."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame

from groupsdk.history.reading import made_of
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
