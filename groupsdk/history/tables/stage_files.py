"""Write the output of one task, table by table, as Parquet files that become visible when the task is done."""

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs, parquet

from groupsdk.history.tables.schemas import CLUSTER, RAW, TABLES, UNKNOWN_CLUSTER
from groupsdk.history.tables.stages import DEFERRED, RECORDS, STAGED


STAGES: Final = "_stages"
"""The directory of the stages, which are not tables."""
NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without a day, as Spark names it."""
MAX_OPEN: Final = 16
"""How many days are written at a time: a task sees one or two, unless a clock was wrong."""
GROUP_ROWS: Final = 250_000
"""How many rows are held in memory until they are written..."""
WIDE_ROWS: Final = 50_000
"""...and how many group records, of which one may take a megabyte."""
WIDE_BYTES: Final = 16 * 1024 * 1024

_COLLECT_AFTER: Final = 200_000
"""The collector's threshold of new objects; Python's default is 700."""

_DICTIONARIES: Final = (
    *(
        CLUSTER,
        "group_id",
        "topic",
        "metadata",
        "topic_id",
        "state",
        "partition",
        "offset_leader_epoch",
    ),
    *("leader_epoch", "value_version", "member_id", "client_id", "from_member", "to_member"),
    *("from_client", "to_client", "protocol", "phase", "assignor", "kind", "primary_cause"),
    *("evidence", "client_host", "reason", "place"),
)
_RISING: Final = ("src_offset", "ts", "commit_ts", "committed_offset")


def folder_of(name: str) -> str:
    return name if name in TABLES else f"{STAGES}/{name}"


def schema_of(name: str) -> Any:
    return TABLES[name].arrow_schema if name in TABLES else STAGED[name]


@dataclass(slots=True)
class TableFile:
    """One file of a table; created with its first row.

    `publish` gives it the name under which Spark sees it: a task that fails leaves no file, and one that runs
    twice replaces the file of its first run. For one thread. Up to `group_rows` rows, or `WIDE_BYTES` in memory, are written at once.
    """

    system: Any
    folder: str
    name: str
    schema: Any
    group_rows: int = GROUP_ROWS
    batches: list[Any] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    hidden: str = ""
    """Its path while it is written: Spark skips names that begin with a dot."""
    writer: Any = None

    def add(self, batch: Any) -> None:
        if batch.num_rows:
            self.batches.append(batch)
            self.rows += batch.num_rows
            self.bytes += batch.nbytes
        if self.bytes >= WIDE_BYTES or self.rows >= self.group_rows:
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

    def leave(self) -> tuple[str, str]:
        """Give up the file without its name, after `close`; returns its path, and the path that it is to get."""
        hidden, self.hidden = self.hidden, ""
        return hidden, f"{self.folder}/{self.name}"

    def abandon(self) -> None:
        """Delete the unfinished file; do nothing after `publish` or `leave`."""
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
                **_options(self.schema),
            )
        rows = pa.Table.from_batches(self.batches)
        self.writer.write_table(rows, row_group_size=self.group_rows)
        self.batches.clear()
        self.rows = self.bytes = 0


class StageFiles:
    """The files of one task.

    They get the names under which readers find them once all are complete: a task that fails leaves none, and one
    that runs twice replaces its files by equal ones. Not thread-safe. The records of one group are in one of the `buckets`; the
    rows of tables get the column `cluster_id`.
    """

    def __init__(
        self,
        system: Any,
        root: str,
        name: str,
        *,
        buckets: int = 1,
        cluster_id: str = UNKNOWN_CLUSTER,
    ) -> None:
        self._buckets = buckets
        self._cluster_id = cluster_id
        self._system = system
        self._root = root
        self._name = name
        self._open: dict[str, TableFile] = {}
        self._written: list[TableFile] = []
        self._numbers: dict[str, int] = {}

    def write(self, batches: Iterable[tuple[str, Any]]) -> None:
        """Write pairs of a table's name and an Arrow record batch; if that fails, there are no files."""
        try:
            with few_collections():
                for name, batch in batches:
                    self.add(name, batch)
            self.close()
        finally:
            self.abandon()

    def write_hidden(self, batches: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
        """Write as `write` does, but leave it to another process to name the files; returns each file's path, and the path that it gets."""
        try:
            with few_collections():
                for name, batch in batches:
                    self.add(name, batch)
            return [each.leave() for each in self._finished()]
        finally:
            self.abandon()

    def add(self, name: str, batch: Any) -> None:
        if not batch.num_rows:
            return
        if name == RECORDS and self._buckets > 1:
            for bucket, rows in by_bucket(batch, self._buckets):
                self._of(f"{folder_of(name)}/bucket={bucket}", name, rows.schema).add(rows)
            return
        declared = TABLES.get(name)
        if declared is not None:
            batch = with_cluster(name, batch, self._cluster_id)
        if declared is None or not declared.partition_by:
            self._of(folder_of(name), name, batch.schema).add(batch)
            return
        for folder, rows in by_day(batch):
            self._of(f"{name}/day={folder}", name, rows.schema).add(rows)

    def close(self) -> None:
        """Finish the files and give them their names."""
        for each in self._finished():
            each.publish()

    def _finished(self) -> list[TableFile]:
        files = [*self._open.values(), *self._written]
        for each in files:
            each.close()
        return files

    def abandon(self) -> None:
        """Delete the unfinished files; do nothing after `close`."""
        for each in [*self._open.values(), *self._written]:
            each.abandon()

    def _of(self, folder: str, name: str, schema: Any) -> TableFile:
        if folder not in self._open:
            days = [each for each in self._open if "/day=" in each]
            if "/day=" in folder and len(days) >= MAX_OPEN:
                full = self._open.pop(days[0])
                full.close()
                self._written.append(full)
            number = self._numbers[folder] = self._numbers.get(folder, -1) + 1
            self._open[folder] = TableFile(
                self._system,
                f"{self._root}/{folder}",
                f"{self._name}-{number}.parquet",
                schema,
                WIDE_ROWS if name in (RECORDS, DEFERRED) else GROUP_ROWS,
            )
        return self._open[folder]


def list_files(system: Any, folder: str) -> list[Any]:
    """Return the `pyarrow.fs.FileInfo` of each complete Parquet file below `folder` on the pyarrow file system `system`."""
    found = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    return sorted(
        (
            each
            for each in found
            if each.type == fs.FileType.File
            # a file that is being written, or was left behind, has a dot before its name
            if each.base_name.endswith(".parquet") and not each.base_name.startswith(".")
        ),
        key=lambda each: str(each.path),
    )


def bounds_of(row_group: Any, column: str) -> Any:
    """Return the statistics of a column in a row group, with its `min` and `max`; None if the file does not have them."""
    for number in range(row_group.num_columns):
        found = row_group.column(number)
        if found.path_in_schema == column and found.statistics is not None:
            return found.statistics if found.statistics.has_min_max else None
    return None


def with_cluster(name: str, rows: Any, cluster_id: str) -> Any:
    """Add the column `cluster_id` to rows of a table, as its files have it."""
    return rows if name == RAW else cluster_column(rows, cluster_id)


def cluster_column(rows: Any, cluster_id: str) -> Any:
    return rows.add_column(0, CLUSTER, pa.repeat(pa.scalar(cluster_id), rows.num_rows))


@contextmanager
def few_collections() -> Iterator[None]:
    """Make Python's garbage collector run less often, in the whole process.

    Rows wait by the thousand until they are written, and none is in a cycle: going through them takes a quarter of the replay's time.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _COLLECT_AFTER) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _options(schema: Any) -> Mapping[str, Any]:
    names = schema.names
    return {
        "use_dictionary": [each for each in _DICTIONARIES if each in names],
        "column_encoding": {each: "DELTA_BINARY_PACKED" for each in _RISING if each in names},
    }


def by_bucket(batch: Any, buckets: int) -> Iterator[tuple[int, Any]]:
    """Split the rows of a batch by group into `buckets` parts. Yield each part's number and rows; empty ones are skipped."""
    groups = pc.dictionary_encode(batch.column("group_id"), null_encoding="encode")
    numbers = np.array(
        [crc32((each or "").encode()) % buckets for each in groups.dictionary.to_pylist()]
    )
    of_row = numbers[groups.indices.to_numpy()]
    for bucket in np.unique(of_row).tolist():
        yield bucket, batch.filter(pa.array(of_row == bucket))


def by_day(batch: Any) -> Iterator[tuple[str, Any]]:
    """Split the rows of a batch by `day`. Yield each day and its rows, without that column: folders are named by the day."""
    days = pc.dictionary_encode(batch.column("day"), null_encoding="encode")
    place = batch.schema.get_field_index("day")
    plain = batch.remove_column(place)
    for index, day in enumerate(days.dictionary.to_pylist()):
        mine = plain if len(days.dictionary) == 1 else plain.filter(pc.equal(days.indices, index))
        yield NO_DAY if day is None else day.isoformat(), mine
