"""Detect the format of tables from the contents of their directories, without Spark."""

from typing import Final

from groupsdk.history.sources.filesystems import StorageDirectory


PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = (PARQUET, DELTA, ICEBERG)

_MARKS: Final = {DELTA: "_delta_log", ICEBERG: "metadata"}
"""The subdirectory that shows the format of a table."""


def format_of(store: StorageDirectory, table: str = "generations") -> str:
    for table_format, mark in _MARKS.items():
        if store.exists(f"{table}/{mark}"):
            return table_format
    return PARQUET
