"""Write packed rows as the Parquet files of their tables, with Spark's committer: the Data Source "groupsdk-tables".

Spark starts three processes to plan and commit a write, which import this module: it imports Arrow where tasks need it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from groupsdk.lazy_imports import override


if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
        from groupsdk.history.sources.spark_rows import PACKED_DDL

        return PACKED_DDL

    @override
    def writer(self, schema: Any, overwrite: bool) -> "TablesWriter":
        if overwrite:
            from groupsdk.errors import ConfigError

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
        self._cluster_id = options["cluster"]

    @override
    def write(self, iterator: Iterator[Any]) -> Written:
        from pyspark import TaskContext

        from groupsdk.history.sources.filesystems import file_system
        from groupsdk.history.tables.packed import unpacked
        from groupsdk.history.tables.stage_files import StageFiles

        context = TaskContext.get()
        assert context is not None
        system, root = file_system(self._path)
        name = f"{self._part}-{context.partitionId():05}"
        files = StageFiles(system, root, name, buckets=self._buckets, cluster_id=self._cluster_id)
        return Written(files.write_hidden(unpacked(iterator)))

    @override
    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        system = _system(self._path)
        for hidden, path in _files(messages):
            system.move(hidden, path)

    @override
    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        system = _system(self._path)
        for hidden, _path in _files(messages):
            system.delete_file(hidden)


def _system(path: str) -> Any:
    from groupsdk.history.sources.filesystems import file_system

    return file_system(path)[0]


def _files(messages: "list[WriterCommitMessage | None]") -> Iterator[tuple[str, str]]:
    for each in messages:
        if isinstance(each, Written):
            yield from each.files


def write_tables(
    frame: "DataFrame",
    root: str,
    part: str,
    *,
    cluster_id: str,
    buckets: int = 1,
) -> None:
    """Write packed rows below `root`, which pyarrow knows, in one query."""
    frame.sparkSession.dataSource.register(TablesDataSource)
    writer = frame.write.format(FORMAT).mode("append")
    writer = writer.option("part", part).option("buckets", str(buckets))
    writer.option("cluster", cluster_id).save(root)
