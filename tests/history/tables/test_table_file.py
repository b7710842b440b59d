"""A Parquet file that is seen when it is whole."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs, parquet

from groupsdk.history.tables.stage_files import TableFile


SCHEMA = pa.schema([("n", pa.int64())])


def rows(*numbers: int) -> Any:
    """Make a batch."""
    return pa.RecordBatch.from_arrays([pa.array(numbers, type=pa.int64())], schema=SCHEMA)


def file(root: Path, group_rows: int) -> TableFile:
    """Make a file in a folder that is not there yet."""
    return TableFile(fs.LocalFileSystem(), str(root / "table"), "a.parquet", SCHEMA, group_rows)


def visible(root: Path) -> list[str]:
    """List what Spark would see."""
    return [each.name for each in (root / "table").glob("*") if not each.name.startswith(".")]


def test_table_file_is_visible_once_published(tmp_path: Path) -> None:
    one = file(tmp_path, 2)
    for number in range(5):
        one.add(rows(number))
    one.close()
    assert visible(tmp_path) == []
    one.publish()
    one.abandon()
    assert visible(tmp_path) == ["a.parquet"]
    found = parquet.ParquetFile(tmp_path / "table" / "a.parquet")
    assert found.read().column("n").to_pylist() == [0, 1, 2, 3, 4]
    assert found.metadata.num_row_groups == 3


def test_nothing_is_made_without_rows(tmp_path: Path) -> None:
    one = file(tmp_path, 2)
    one.add(rows())
    one.close()
    one.publish()
    assert not (tmp_path / "table").exists()


def test_nothing_is_left_of_one_that_is_abandoned(tmp_path: Path) -> None:
    one = file(tmp_path, 1)
    one.add(rows(1, 2))
    assert [*(tmp_path / "table").glob(".*")]
    one.abandon()
    assert [*(tmp_path / "table").iterdir()] == []
