"""Read the tables and stages that tasks wrote, and write those made on the driver."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from groupsdk.history.tables.schemas import RAW, TABLES, UNKNOWN_CLUSTER
from groupsdk.history.tables.stage_files import (
    NO_DAY,
    StageFiles,
    bounds_of,
    folder_of,
    list_files,
    schema_of,
)
from groupsdk.history.tables.stages import RECORDS


RUN_TABLES: Final = tuple(name for name in TABLES if name != RAW)
"""The tables that a run makes."""
BATCH_ROWS: Final = 20_000
"""How many rows of a table are processed at once."""


LogPosition = tuple[int, int]


class Staged(Protocol):
    """The tables and stages of a run in progress, as the driver sees them."""

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Return the small stage `name` as an Arrow table; with `columns`, only those."""

    def committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        """Return the highest partition that each of some groups has committed of each topic."""

    def write(self, name: str, table: Any) -> None: ...


class TableSource(Protocol):
    """The tables of a run."""

    def read(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> Any:
        """Return columns of the table `name` as an Arrow table, of `groups` or (None) of all."""

    def count(self, name: str) -> int: ...


class StageTables:
    """The tables and stages of a run, on a file system that pyarrow supports."""

    def __init__(self, system: Any, root: str, cluster_id: str = UNKNOWN_CLUSTER) -> None:
        self._system = system
        self._root = root
        self._cluster_id = cluster_id

    def files(self, name: str) -> list[str]:
        """Return the paths of the complete files of the table or stage `name`."""
        return [each.path for each in list_files(self._system, f"{self._root}/{folder_of(name)}")]

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        groups: Collection[str | None] | None = None,
        *,
        files: Sequence[str] | None = None,
    ) -> Any:
        schema = schema_of(name)
        folder_has_day = name in TABLES and TABLES[name].partition_by
        names = [each for each in columns or schema.names if not (folder_has_day and each == "day")]
        declared = pa.schema([schema.field(each) for each in names])
        return read_parquet(
            self._system, self.files(name) if files is None else files, declared, groups
        )

    def read_range(
        self, name: str, group: str, first: LogPosition, last: LogPosition, files: Sequence[str]
    ) -> Any:
        """Return the rows of one group between two positions of the log, as an Arrow table in any order."""
        schema = schema_of(name)
        found = [schema.empty_table()]
        for path in files:
            with self._system.open_input_file(path) as opened:
                file = parquet.ParquetFile(opened)
                for number in _row_groups(file.metadata, (group,)):
                    if not _may_have(file.metadata.row_group(number), first, last):
                        continue
                    rows = file.read_row_group(number, columns=schema.names).select(schema.names)
                    rows = rows.cast(schema)
                    partitions, offsets = rows.column("src_partition"), rows.column("src_offset")
                    mine = pc.and_(
                        pc.equal(rows.column("group_id"), group),
                        pc.and_(
                            pc.invert(_before(partitions, offsets, first)),
                            pc.invert(_after(partitions, offsets, last)),
                        ),
                    )
                    found.append(rows.filter(mine))
        return pa.concat_tables(found)

    def sizes(self, files: Sequence[str]) -> tuple[int, int]:
        """Return the number of rows of `files`, and roughly their size in memory in bytes."""
        rows = size = 0
        for path in files:
            with self._system.open_input_file(path) as opened:
                metadata = parquet.ParquetFile(opened).metadata
            rows += metadata.num_rows
            size += sum(
                metadata.row_group(number).total_byte_size
                for number in range(metadata.num_row_groups)
            )
        return rows, size

    def count(self, name: str) -> int:
        total = 0
        for path in self.files(name):
            with self._system.open_input_file(path) as opened:
                total += parquet.ParquetFile(opened).metadata.num_rows
        return total

    def committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        columns = ("group_id", "topic", "partition", "commits")
        found = self.read(RECORDS, columns, groups=groups)
        return highest(found.filter(pc.greater(pc.fill_null(found.column("commits"), 0), 0)))

    def write(self, name: str, table: Any) -> None:
        files = StageFiles(self._system, self._root, "part-driver", cluster_id=self._cluster_id)
        files.write((name, batch) for batch in table.to_batches())

    def fill(self) -> None:
        """Write a file for each table without rows, so that other tools find its columns."""
        for name in RUN_TABLES:
            if self.files(name):
                continue
            declared = TABLES[name]
            folder = f"{self._root}/{name}"
            schema = declared.stored_schema
            if declared.partition_by:
                folder = f"{folder}/day={NO_DAY}"
                schema = schema.remove(schema.get_field_index("day"))
            self._system.create_dir(folder, recursive=True)
            parquet.write_table(
                schema.empty_table(), f"{folder}/part-empty.parquet", filesystem=self._system
            )


def read_parquet(
    system: Any,
    paths: Iterable[str],
    schema: Any,
    groups: Collection[str | None] | None = None,
    since: tuple[str, int] | None = None,
) -> Any:
    """Return the columns of a schema of some files as an Arrow table; only the rows of `groups`, unless it is None.

    `since`: a column with times and milliseconds; row groups with only earlier times are not read.
    """
    # pyarrow.dataset does the same, but importing it imports pandas
    wanted = None if groups is None else pa.array(list(groups), type=pa.string())
    found = [schema.empty_table()]
    for path in paths:
        with system.open_input_file(path) as opened:
            file = parquet.ParquetFile(opened)
            chosen = _row_groups(file.metadata, groups, since)
            # of a large file few rows may be wanted: others go before more are read
            for part in [chosen] if wanted is None else [[each] for each in chosen]:
                rows = file.read_row_groups(part, columns=schema.names)
                rows = rows.select(schema.names).cast(schema)
                if wanted is not None:
                    rows = rows.filter(pc.is_in(rows.column("group_id"), wanted))
                found.append(rows)
    return pa.concat_tables(found)


def _before(partitions: Any, offsets: Any, place: LogPosition) -> Any:
    same = pc.and_(pc.equal(partitions, place[0]), pc.less(offsets, place[1]))
    return pc.or_(pc.less(partitions, place[0]), same)


def _after(partitions: Any, offsets: Any, place: LogPosition) -> Any:
    same = pc.and_(pc.equal(partitions, place[0]), pc.greater(offsets, place[1]))
    return pc.or_(pc.greater(partitions, place[0]), same)


def _may_have(row_group: Any, first: LogPosition, last: LogPosition) -> bool:
    """Return whether a row group may have rows between two positions; offsets decide only within one partition."""
    known = bounds_of(row_group, "src_offset") if first[0] == last[0] else None
    return known is None or bool(known.min <= last[1] and known.max >= first[1])


def _row_groups(
    metadata: Any,
    groups: Collection[str | None] | None,
    since: tuple[str, int] | None = None,
) -> list[int]:
    """Return the row groups of a file that may have rows of some groups, and of a time.

    Files of explained groups are sorted by group.
    """
    every = range(metadata.num_row_groups)
    return [
        number
        for number in every
        if _may_have_groups(metadata.row_group(number), groups)
        and (since is None or _reaches(metadata.row_group(number), *since))
    ]


def _may_have_groups(row_group: Any, groups: Collection[str | None] | None) -> bool:
    if groups is None or None in groups:
        return True
    known = bounds_of(row_group, "group_id")
    return known is None or any(
        each is not None and known.min <= each <= known.max for each in groups
    )


def _reaches(row_group: Any, column: str, since_ms: int) -> bool:
    known = bounds_of(row_group, column)
    return known is None or known.max.timestamp() * 1000 >= since_ms


def highest(rows: Any) -> dict[tuple[str, str], int]:
    """Return the highest partition of each group and topic in some rows."""
    found = rows.group_by(["group_id", "topic"]).aggregate([("partition", "max")])
    return {(row["group_id"], row["topic"]): row["partition_max"] for row in found.to_pylist()}


def sum_of(coverage: Any, column: str) -> int:
    return int(pc.sum(coverage.column(column)).as_py() or 0)
