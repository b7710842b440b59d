"""The files of one task: seen when all is written, days apart, and the same ones when it runs again."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs, parquet
from pytest_mock import MockerFixture

from examples.history_log import commit
from groupsdk.history.read.batches import read_batches
from groupsdk.history.read.reading import Reader
from groupsdk.history.sources.segment_files import SegmentTask, segment_tasks
from groupsdk.history.tables import stage_files
from groupsdk.history.tables.stage_files import StageFiles, by_bucket, folder_of
from groupsdk.history.tables.stages import COVERAGE, RECORD_ROWS
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import SEGMENTS


DAY_MS = 86_400_000


def files(root: Path) -> list[str]:
    """List what is there."""
    return sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.is_file())


def write(root: Path, task: SegmentTask) -> None:
    """Write what a task reads."""
    StageFiles(fs.LocalFileSystem(), str(root), task.name).write(task.read())


def test_the_files_of_a_real_log_hold_its_records(tmp_path: Path) -> None:
    for task in segment_tasks(str(SEGMENTS)):
        write(tmp_path, task)
    commits = 0
    for each in files(tmp_path):
        if each.startswith("offset_commits"):
            assert each.startswith("offset_commits/day=2026-11-21/part-0000")
            commits += parquet.ParquetFile(tmp_path / each).metadata.num_rows
    covered = [
        row
        for each in files(tmp_path)
        if each.startswith(folder_of(COVERAGE))
        for row in parquet.ParquetFile(tmp_path / each).read().to_pylist()
    ]
    assert sum(row["records"] for row in covered) == 1033
    # that in a transaction waits for its end
    assert commits == sum(row["commits"] - row["deferred"] for row in covered)


def test_a_task_that_runs_again_puts_the_same_files_in_place(tmp_path: Path) -> None:
    task = segment_tasks(str(SEGMENTS))[0]
    seen = []
    for _ in range(2):
        write(tmp_path, task)
        seen.append(files(tmp_path))
    assert seen[0] == seen[1] != []


def test_a_task_that_fails_leaves_no_files(tmp_path: Path) -> None:
    task = segment_tasks(str(SEGMENTS))[0]

    def failing() -> Any:
        yield next(iter(task.read()))
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        StageFiles(fs.LocalFileSystem(), str(tmp_path), task.name).write(failing())
    assert files(tmp_path) == []


def test_days_are_written_apart_and_few_at_a_time(tmp_path: Path, mocker: MockerFixture) -> None:
    mocker.patch.object(stage_files, "GROUP_ROWS", 4)
    mocker.patch.object(stage_files, "MAX_OPEN", 2)
    reader = Reader()
    # a clock that goes to and fro between three days, of which two may be open, and one without a day
    made = []
    for n in range(12):
        records = [Record(n, -1 if n == 11 else DAY_MS * (n % 3), *commit("g", "t", 0, n))]
        (read,) = read_batches(build_batch(records, n))
        made += list(reader.take(read, 0, "here"))
    StageFiles(fs.LocalFileSystem(), str(tmp_path), "n").write(made)
    offsets = [
        parquet.ParquetFile(tmp_path / each).read().column("src_offset").to_pylist()
        for each in files(tmp_path)
        if each.startswith("offset_commits")
    ]
    assert sorted(offset for each in offsets for offset in each) == list(range(12))
    assert len(offsets) > 4
    assert any("__HIVE_DEFAULT_PARTITION__" in each for each in files(tmp_path))


def test_the_records_of_a_group_are_in_one_bucket() -> None:
    groups = [*"abcabcxyz", None, None]
    columns = [
        pa.array(groups) if field.name == "group_id" else pa.nulls(len(groups), field.type)
        for field in RECORD_ROWS
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=RECORD_ROWS)
    buckets = dict(by_bucket(batch, 3))
    assert sum(rows.num_rows for rows in buckets.values()) == len(groups)
    of = [set(rows.column("group_id").to_pylist()) for rows in buckets.values()]
    assert len(of) > 1
    assert not set.intersection(*of)


def test_files_whose_names_another_process_gives_are_hidden_until_then(tmp_path: Path) -> None:
    system = fs.LocalFileSystem()
    task = segment_tasks(str(SEGMENTS))[0]
    named = StageFiles(system, str(tmp_path), task.name).write_hidden(task.read())
    assert named
    assert all(Path(each).name.startswith(".") for each in files(tmp_path))
    for hidden, path in named:
        system.move(hidden, path)
    write(tmp_path / "plain", task)
    below = [each for each in files(tmp_path) if not each.startswith("plain/")]
    assert below == files(tmp_path / "plain")
