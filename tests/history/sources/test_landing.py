"""Committed offsets written as files by what reads them."""

from pathlib import Path
from uuid import UUID

import pytest


pytest.importorskip("pyspark")

from pyarrow import fs, parquet

from examples.history_log import commit
from groupsdk.history.kernel import files as files_module
from groupsdk.history.kernel.batches import read_batches
from groupsdk.history.sources import landing
from groupsdk.history.sources.landing import COMMITS_FOLDER, PARTS_FOLDER, Landing
from groupsdk.history.sources.segments import SegmentFile, land_rows
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import segment_files


DAY_MS = 86_400_000


def files(root: Path) -> list[str]:
    """List what is there."""
    return sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.is_file())


def test_the_files_of_a_real_segment_hold_its_commits(tmp_path: Path) -> None:
    rest = commits = 0
    for path in segment_files():
        segment = SegmentFile(str(path), int(path.parent.name[-1]), path.stat().st_size)
        with path.open("rb") as file:
            rest += sum(batch.num_rows for batch in land_rows(file, segment, str(tmp_path)))
    for each in files(tmp_path):
        if each.startswith(COMMITS_FOLDER):
            assert each.startswith(f"{COMMITS_FOLDER}/day=2026-11-21/part-0000")
            table = parquet.ParquetFile(tmp_path / each).read()
            commits += table.num_rows
            assert table.column("state").unique().to_pylist() == ["committed"]
    assert rest + commits == 1033
    assert [each for each in files(tmp_path) if each.startswith(PARTS_FOLDER)]


def test_reading_again_puts_the_same_files_in_place(tmp_path: Path) -> None:
    path = segment_files()[0]
    segment = SegmentFile(str(path), 1, path.stat().st_size)
    seen = []
    for _ in range(2):
        with path.open("rb") as file:
            list(land_rows(file, segment, str(tmp_path)))
        seen.append(files(tmp_path))
    assert seen[0] == seen[1]


def test_a_task_that_ends_early_leaves_no_files(tmp_path: Path) -> None:
    path = segment_files()[0]
    with path.open("rb") as file:
        rows = land_rows(file, SegmentFile(str(path), 1, 0), str(tmp_path), chunk_bytes=1)
        next(rows)
        rows.close()  # type: ignore[attr-defined] # an iterator to its users, and a generator here
    assert files(tmp_path) == []


def test_rows_are_written_in_groups_and_days_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "GROUP_ROWS", 4)
    monkeypatch.setattr(landing, "MAX_OPEN", 2)
    writing = Landing(fs.LocalFileSystem(), str(tmp_path), "n")
    # a clock that goes to and fro between three days, of which two may be open
    for n in range(12):
        records = [Record(n, DAY_MS * (n % 3), *commit("g", "t", 0, n))]
        (read,) = read_batches(build_batch(records, n))
        assert list(writing.take(read, 0, "here")) == []
    assert not any(each.endswith("parquet") for each in files(tmp_path))
    writing.close()
    writing.abandon()
    offsets = [
        parquet.ParquetFile(tmp_path / each).read().column("src_offset").to_pylist()
        for each in files(tmp_path)
        if each.startswith(COMMITS_FOLDER)
    ]
    assert sorted(offset for each in offsets for offset in each) == list(range(12))
    assert len({tuple(each) for each in offsets}) == len(offsets) > 3
    parts = parquet.ParquetFile(tmp_path / PARTS_FOLDER / "n-0.parquet")
    assert (parts.metadata.num_rows, parts.metadata.num_row_groups) == (12, 3)


def test_ids_of_topics_are_written_as_kafkas_tools_write_them(tmp_path: Path) -> None:
    key = OffsetCommitKey("g", "t", 0)
    known = OffsetCommitValue(5, 3, "m", 1000, topic_id=UUID(int=5))
    pairs = [write(key, known), write(key, None), write(key, OffsetCommitValue(5, 3, "m", 1000))]
    records = [Record(n, 0, *pair) for n, pair in enumerate(pairs)]
    (read,) = read_batches(build_batch(records))
    writing = Landing(fs.LocalFileSystem(), str(tmp_path), "n")
    assert list(writing.take(read, 0, "here")) == []
    writing.close()
    table = parquet.ParquetFile(tmp_path / COMMITS_FOLDER / "day=1970-01-01/n-0.parquet").read()
    assert table.column("topic_id").to_pylist() == ["AAAAAAAAAAAAAAAAAAAABQ", None, None]
    assert table.column("committed_offset").to_pylist() == [5, None, 5]
