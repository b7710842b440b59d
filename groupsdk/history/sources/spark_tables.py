"""Write packed rows as the Parquet files of their tables, with Spark's committer: the Data Source "groupsdk-tables"."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession, functions as f
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.history.read.reading import TALLY
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.sources.spark_rows import PACKED_DDL, spark_ddl, typed
from groupsdk.history.tables.packed import unpacked
from groupsdk.history.tables.schemas import CLUSTER, TABLES, UNKNOWN_CLUSTER
from groupsdk.history.tables.stage_files import StageFiles, folder_of, schema_of
from groupsdk.history.tables.stage_tables import RUN_TABLES, StageTables


FORMAT: Final = "groupsdk-tables"


class TablesDataSource(DataSource):
    """Write the tables and stages of a run, each into its folder; for `DataFrame.write` with the mode "append".

    Tasks write hidden files. The driver gives them their names when all tasks are done, so that a task that fails, is
    killed or runs twice leaves nothing that counts.

    Options:
        path: the directory of the tables: a path, or a URI that pyarrow knows.
        part: the beginning of the files' names, unique among the writes into the directory.
        buckets: into how many folders group records are spread; 1 unless given.
        cluster: the value of the column `cluster_id`.
    """

    @classmethod
    @override
    def name(cls) -> str:
        return FORMAT

    @override
    def schema(self) -> str:
        return PACKED_DDL

    @override
    def writer(self, schema: Any, overwrite: bool) -> "TablesWriter":
        if overwrite:
            raise ConfigError(f'{FORMAT} adds files to tables: use the mode "append"')
        return TablesWriter(dict(self.options))


@dataclass
class Written(WriterCommitMessage):
    """The files of a task: where each is, and where it goes."""

    files: Sequence[tuple[str, str]]


class TablesWriter(DataSourceArrowWriter):
    def __init__(self, options: dict[str, str]) -> None:
        self._path = options["path"]
        self._part = options.get("part", "part")
        self._buckets = int(options.get("buckets", "1"))
        self._cluster_id = options.get("cluster", UNKNOWN_CLUSTER)

    @override
    def write(self, iterator: Iterator[Any]) -> Written:
        context = TaskContext.get()
        assert context is not None
        system, root = file_system(self._path)
        name = f"{self._part}-{context.partitionId():05}"
        files = StageFiles(system, root, name, buckets=self._buckets, cluster_id=self._cluster_id)
        return Written(files.write_hidden(unpacked(iterator)))

    @override
    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        system, _ = file_system(self._path)
        for hidden, path in _files(messages):
            system.move(hidden, path)

    @override
    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        system, _ = file_system(self._path)
        for hidden, _path in _files(messages):
            system.delete_file(hidden)


def _files(messages: "list[WriterCommitMessage | None]") -> Iterator[tuple[str, str]]:
    for each in messages:
        if isinstance(each, Written):
            yield from each.files


def write_tables(
    frame: DataFrame,
    root: str,
    part: str,
    *,
    buckets: int = 1,
    cluster_id: str = UNKNOWN_CLUSTER,
) -> None:
    """Write packed rows below `root`, which pyarrow knows, in one query."""
    frame.sparkSession.dataSource.register(TablesDataSource)
    writer = frame.write.format(FORMAT).mode("append")
    writer = writer.option("part", part).option("buckets", str(buckets))
    writer.option("cluster", cluster_id).save(root)


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
