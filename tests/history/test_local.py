"""The local engine, held against the tables that were made of the same logs before it."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pytest_mock import MockerFixture

from examples.history_log import LogWriter, Seat, generation
from groupsdk.errors import ConfigError
from groupsdk.history.local import run
from groupsdk.history.pipeline import STEPS, Options
from groupsdk.history.read import buckets
from groupsdk.history.sources.segment_files import SegmentTask, segment_tasks
from groupsdk.history.tables.lease import LOCK
from groupsdk.history.tables.stage_tables import RUN_TABLES
from tests.history.expected_tables import LOGS, digests, expected, rows_of
from tests.support.cases import each_case


@each_case("name", list(LOGS))
def test_the_tables_of_a_log_are_those_that_were_made_before(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    run(segment_tasks(str(LOGS[name](root))), str(root / "out"))
    assert digests(root / "out") == expected()[name]


def test_several_processes_make_the_same_tables(tmp_path: Path) -> None:
    log = LOGS["transactions"](tmp_path)
    for processes in (1, 2):
        run(segment_tasks(str(log)), str(tmp_path / str(processes)), processes=processes)
    assert digests(tmp_path / "1") == digests(tmp_path / "2")


@pytest.mark.parametrize("name", ["sample", "protocols", "transactions"])
def test_groups_that_are_too_large_are_read_piece_by_piece(
    name: str, tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch.object(buckets, "HELD_BYTES", 4_000)
    pieces = mocker.spy(buckets, "in_order")
    of_group = mocker.spy(buckets, "_ranges")
    root = tmp_path / name
    run(segment_tasks(str(LOGS[name](root))), str(root / "out"))
    assert digests(root / "out") == expected()[name]
    assert of_group.call_count > 0
    assert pieces.call_count > of_group.call_count + 2


def test_a_run_takes_the_place_of_the_one_before_and_tells_of_its_steps(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    out = tmp_path / "out"
    leftover = out / "offset_commits" / "day=2000-01-01"
    leftover.mkdir(parents=True)
    (leftover / "part-0.parquet").write_bytes(b"of a former run")
    log = LOGS["transactions"](tmp_path / "log")
    run(segment_tasks(str(log)), str(out), progress=lambda *each: steps.append(each))
    assert [name for name, _, _ in steps] == list(STEPS)
    assert sorted(each.name for each in out.iterdir()) == sorted((*RUN_TABLES, LOCK))
    assert not leftover.exists()
    # a table without rows has its columns
    assert ds.dataset(str(out / "topics")).schema.names == ["cluster_id", "topic_id", "topic"]


def test_a_run_that_fails_changes_nothing(tmp_path: Path, mocker: MockerFixture) -> None:
    with LogWriter(tmp_path / "log", 0) as writer:
        writer.append(1000, generation("g", 1, {"m": Seat("c", {"t": [0]})}))
    tasks = segment_tasks(str(tmp_path / "log"))
    out = tmp_path / "out"
    run(tasks, str(out))
    before = rows_of(out / "generations")
    mocker.patch.object(buckets, "tables_of", side_effect=OSError("disk full"))
    with pytest.raises(OSError, match="disk full"):
        run(tasks, str(out))
    assert rows_of(out / "generations") == before
    assert not (out / "_run").exists()


def test_unsupported_options_are_refused_before_the_log_is_read(tmp_path: Path) -> None:
    nowhere: list[SegmentTask] = []
    with pytest.raises(ConfigError, match="no such assignor"):
        run(nowhere, str(tmp_path), Options(assignors=("no such assignor",)))
    with pytest.raises(ConfigError, match="--engine spark"):
        run(nowhere, str(tmp_path), Options(format="iceberg"))
    with pytest.raises(ConfigError, match="name it with --cluster NAME"):
        run(nowhere, str(tmp_path), Options(format="delta"))
    with pytest.raises(ConfigError, match="1 to 200 characters, not ''"):
        run(nowhere, str(tmp_path), Options(cluster_id=""))
    with pytest.raises(ConfigError, match="as --engine local needs"):
        run(nowhere, "s3://bucket/out")
