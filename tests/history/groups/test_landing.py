"""What is told of groups as Parquet files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs, parquet

from examples.history_log import Seat, generation
from groupsdk.history.groups.arrow import KINDS, to_batches
from groupsdk.history.groups.derived import derive
from groupsdk.history.groups.landing import TABLES, folders, land
from groupsdk.history.schemas import TABLES as DECLARED
from tests.history.groups.walking import walked


def followed() -> Iterator[tuple[str, Any]]:
    """Follow a group of two generations."""
    pairs = [generation("g", n, {f"m{n}": Seat("c", {"t": [0, 1]})}) for n in (1, 2)]
    yield from to_batches(derive(walked(*pairs), {}, ["range"]))


def files(root: Path) -> set[str]:
    """List what is there."""
    return {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}


def test_each_kind_has_its_folder(tmp_path: Path) -> None:
    land(followed(), fs.LocalFileSystem(), str(tmp_path), "part-3")
    assert files(tmp_path) == {
        "assignments/part-3.parquet",
        "replay/part-3.parquet",
        *(
            f"_stages/events/kind={kind}/part-3.parquet"
            for kind in ("generation", "move", "membership")
        ),
    }
    path = tmp_path / "_stages/events/kind=generation/part-3.parquet"
    made = parquet.ParquetFile(path).read()
    assert made.schema.names == ["generation"]
    assert [row["generation"] for row in made.column("generation").to_pylist()] == [1, 2]


def test_the_finished_tables_have_the_columns_that_are_declared() -> None:
    for name, kind in KINDS.values():
        if name in TABLES:
            assert pa.schema(list(kind)).names == [*DECLARED[TABLES[name]].columns]
    assert {*folders()} == {"_stages/events", "assignments", "replay"}


def test_a_task_that_fails_leaves_no_files_and_one_that_runs_twice_the_same(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, Any]]:
        yield from followed()
        raise ZeroDivisionError

    system = fs.LocalFileSystem()
    with pytest.raises(ZeroDivisionError):
        land(failing(), system, str(tmp_path), "n")
    assert files(tmp_path) == set()
    land(followed(), system, str(tmp_path), "n")
    before = files(tmp_path)
    land(followed(), system, str(tmp_path), "n")
    assert files(tmp_path) == before
