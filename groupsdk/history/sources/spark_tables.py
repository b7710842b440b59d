"""The files of a run with Spark: where pyarrow knows the file system one query writes all tables, else one each."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions as f

from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.sources.spark_rows import spark_ddl, typed
from groupsdk.history.sources.spark_writer import write_tables
from groupsdk.history.tables.schemas import CLUSTER, TABLES
from groupsdk.history.tables.stage_files import folder_of, schema_of
from groupsdk.history.tables.stage_tables import RUN_TABLES, StageTables
from groupsdk.history.tables.stages import TALLY


WRITTEN: Final = (*RUN_TABLES, TALLY)
"""The tables and the stage that are written of a run's packed rows."""


class RunFiles(Protocol):
    """The files of a run in progress."""

    def save(self, frame: DataFrame, part: str) -> None:
        """Write packed rows of the tables, and of the stage "tally"; `part` begins the files' names."""

    def write(self, name: str, table: Any) -> None:
        """Write a table that the driver has made."""

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Return a table or stage as an Arrow table."""

    def frame(self, name: str) -> DataFrame: ...

    def count(self, name: str) -> int: ...

    def fill(self) -> None:
        """Give each table without rows a file, so that other tools find its columns."""


class ArrowFiles(StageTables):
    """Files on a file system that pyarrow supports: one query writes all tables."""

    def __init__(self, spark: SparkSession, root: str, cluster_id: str) -> None:
        super().__init__(*file_system(root), cluster_id)
        self._spark = spark
        self._shared = root

    def save(self, frame: DataFrame, part: str) -> None:
        mine = frame.filter(frame["name"].isin(*WRITTEN))
        write_tables(mine, self._shared, part, cluster_id=self._cluster_id)

    def frame(self, name: str) -> DataFrame:
        return _opened(self._spark, self._shared, name)


class SparkFiles:
    """Files on a file system that only Spark supports: it writes each table in a query of its own."""

    def __init__(self, spark: SparkSession, root: str, cluster_id: str) -> None:
        self._spark = spark
        self._root = root
        self._cluster_id = cluster_id

    def save(self, frame: DataFrame, part: str) -> None:
        kept = frame.persist(StorageLevel.DISK_ONLY)
        for name in WRITTEN:
            self._append(name, typed(kept, name))
        kept.unpersist()

    def write(self, name: str, table: Any) -> None:
        self._append(name, self._spark.createDataFrame(table, schema=spark_ddl(schema_of(name))))

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        frame = self.frame(name)
        return (frame if columns is None else frame.select(*columns)).toArrow()

    def frame(self, name: str) -> DataFrame:
        return _opened(self._spark, self._root, name)

    def count(self, name: str) -> int:
        return self.frame(name).count()

    def fill(self) -> None: ...

    def _append(self, name: str, frame: DataFrame) -> None:
        if name in TABLES:
            frame = frame.select(f.lit(self._cluster_id).alias(CLUSTER), *frame.columns)
        writer = frame.write.mode("append")
        if name in TABLES and TABLES[name].partition_by:
            writer = writer.partitionBy(*TABLES[name].partition_by)
        writer.parquet(f"{self._root}/{folder_of(name)}")


def _opened(spark: SparkSession, root: str, name: str) -> DataFrame:
    return spark.read.schema(spark_ddl(schema_of(name))).parquet(f"{root}/{folder_of(name)}")
