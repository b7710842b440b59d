"""Write record batches as one Parquet file that becomes visible when it is complete."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyarrow import parquet


_TYPES: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<int,bigint>": pa.map_(pa.int32(), pa.int64()),
}


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """Return the Arrow schema of columns declared with Spark's types."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])


GROUP_ROWS: Final = 250_000
"""How many rows are held in memory until they are written, unless a file sets its own limit."""


@dataclass(slots=True)
class TableFile:
    """One file of a table; created with its first row.

    `publish` gives it the name under which Spark sees it: a task that fails leaves no file, and one that runs
    twice replaces the file of its first run. For one thread.

    Attributes:
        system: pyarrow's file system.
        folder: of the table; created if missing.
        name: of the file; no other task may have it.
        schema: of the batches.
        options: of `pyarrow.parquet.ParquetWriter`.
        group_rows: how many rows are written at once.
        group_bytes: how many bytes, in memory, are written at once; None: any number.
    """

    system: Any
    folder: str
    name: str
    schema: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    group_rows: int | None = None
    group_bytes: int | None = None
    batches: list[Any] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    hidden: str = ""
    """Its path while it is written: Spark skips names that begin with a dot."""
    writer: Any = None

    def add(self, batch: Any) -> None:
        """Add rows, and write them when there are enough."""
        if batch.num_rows:
            self.batches.append(batch)
            self.rows += batch.num_rows
            if self.group_bytes is not None:
                self.bytes += batch.nbytes
        full = self.group_bytes is not None and self.bytes >= self.group_bytes
        if full or self.rows >= (self.group_rows or GROUP_ROWS):
            self._flush()

    def close(self) -> None:
        """Write the remaining rows; the file is not visible yet."""
        self._flush()
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def publish(self) -> None:
        """Give the file its name, after `close`."""
        if self.hidden:
            self.system.move(self.hidden, f"{self.folder}/{self.name}")
            self.hidden = ""

    def abandon(self) -> None:
        """Delete the unfinished file; do nothing after `publish`."""
        self.batches.clear()
        if self.writer is not None:
            self.writer.close()
            self.writer = None
        if self.hidden:
            self.system.delete_file(self.hidden)
            self.hidden = ""

    def _flush(self) -> None:
        if not self.batches:
            return
        if self.writer is None:
            self.system.create_dir(self.folder, recursive=True)
            self.hidden = f"{self.folder}/.{self.name}.{uuid4().hex}"
            self.writer = parquet.ParquetWriter(
                self.hidden,
                self.schema,
                filesystem=self.system,
                compression="zstd",
                # Spark would read types from it that it cannot use
                store_schema=False,
                **self.options,
            )
        limit = self.group_rows or GROUP_ROWS
        self.writer.write_table(pa.Table.from_batches(self.batches), row_group_size=limit)
        self.batches.clear()
        self.rows = self.bytes = 0
