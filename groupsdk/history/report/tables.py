"""Read the report's data from the tables: columns of some groups, as Arrow."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.sources.filesystems import file_system, is_supported
from groupsdk.history.tables.publishing import PARQUET
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_tables import StageTables, TableSource


if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ParquetTables(StageTables):
    """Tables as Parquet files, on this machine or on a file system that pyarrow knows; needs no Spark."""

    def __init__(self, out: str) -> None:
        system, root = file_system(out)
        if system.get_file_info(f"{root}/generations").type == fs.FileType.NotFound:
            raise ConfigError(
                f"{out} has no tables of a history: make them with `groupsdk history run`"
            )
        super().__init__(system, root)


def readable(root: str, table_format: str, tables: Mapping[str, "DataFrame"]) -> TableSource:
    """Return the cheapest way to read tables that Spark has made: a query of its own costs more than its rows do."""
    if table_format == PARQUET and is_supported(root):
        return ParquetTables(root)
    return SparkTables(tables)


class SparkTables:
    """Tables that only Spark can read; rows are collected to the driver as Arrow."""

    def __init__(self, tables: Mapping[str, "DataFrame"]) -> None:
        self._tables = tables

    def read(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> Any:
        assert set(columns) <= set(TABLES[name].columns)
        frame = self._tables[name]
        if groups is not None:
            frame = frame.filter(frame["group_id"].isin(*groups))
        return frame.select(*columns).toArrow()

    def count(self, name: str) -> int:
        return self._tables[name].count()
