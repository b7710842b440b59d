"""Read what tasks have written between two stages, and write what is made of it on the driver."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import pyarrow.compute as pc
from pyarrow import dataset, fs, parquet

from groupsdk.history.reading import RECORDS, STAGED
from groupsdk.history.schemas import TABLES
from groupsdk.history.stage_files import NO_DAY, StageFiles, folder_of, schema_of


MADE: Final = tuple(name for name in TABLES if name != "raw_records")
"""The tables that a run makes."""
FOLDERS: Final = (*MADE, *map(folder_of, STAGED))
"""The folders of a run."""


class Staged(Protocol):
    """The tables and stages of a run that goes on; for the driver."""

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Read a small stage, or some columns of it, as an Arrow table."""

    def committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        """Return the highest partition that each of some groups has committed of each topic."""

    def write(self, name: str, table: Any) -> None:
        """Write a table that was made on the driver."""


class StageTables:
    """The tables and stages of a run, in a place that pyarrow knows.

    Args:
        system: pyarrow's file system.
        root: the directory of the run.
    """

    def __init__(self, system: Any, root: str) -> None:
        self._system = system
        self._root = root

    def files(self, name: str) -> list[str]:
        """List the files of a table or stage."""
        folder = f"{self._root}/{folder_of(name)}"
        found = self._system.get_file_info(
            fs.FileSelector(folder, recursive=True, allow_not_found=True)
        )
        return sorted(
            each.path
            for each in found
            if each.type == fs.FileType.File and each.base_name.endswith(".parquet")
            # one that is being written, or was left behind, has a point before its name
            if not each.base_name.startswith(".")
        )

    def dataset(self, name: str, files: Sequence[str] | None = None) -> Any:
        """Open a table or stage."""
        files = self.files(name) if files is None else files
        return dataset.dataset(
            list(files), schema=schema_of(name), format="parquet", filesystem=self._system
        )

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        """Read a small stage, or some columns of it, as an Arrow table."""
        return self.dataset(name).to_table(columns=columns and list(columns))

    def committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        """Return the highest partition that each of some groups has committed of each topic."""
        mine = pc.field("group_id").isin(list(groups)) & (pc.field("commits") > 0)
        found = self.dataset(RECORDS).to_table(
            columns=["group_id", "topic", "partition"], filter=mine
        )
        return highest(found)

    def write(self, name: str, table: Any) -> None:
        """Write a table that was made on the driver."""
        files = StageFiles(self._system, self._root, "part-driver")
        files.write((name, batch) for batch in table.to_batches())

    def fill(self) -> None:
        """Give the tables that have no rows a file, so that other tools find their columns."""
        for name in MADE:
            if self.files(name):
                continue
            declared = TABLES[name]
            folder = f"{self._root}/{name}"
            schema = schema_of(name)
            if declared.partition_by:
                folder = f"{folder}/day={NO_DAY}"
                schema = schema.remove(schema.get_field_index("day"))
            self._system.create_dir(folder, recursive=True)
            parquet.write_table(
                schema.empty_table(), f"{folder}/part-empty.parquet", filesystem=self._system
            )


def highest(rows: Any) -> dict[tuple[str, str], int]:
    """Return the highest partition of each group and topic in some rows."""
    found = rows.group_by(["group_id", "topic"]).aggregate([("partition", "max")])
    return {(row["group_id"], row["topic"]): row["partition_max"] for row in found.to_pylist()}


def sum_of(coverage: Any, column: str) -> int:
    """Add up a column of the stage "coverage"."""
    return int(pc.sum(coverage.column(column)).as_py() or 0)
