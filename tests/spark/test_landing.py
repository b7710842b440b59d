"""The whole job, whoever writes the tables and wherever the records come from, beside the local engine."""

from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from docs import show_plan
from groupsdk.history import job, local
from groupsdk.history.follow.archive import read_raw
from groupsdk.history.job import Inputs, run
from groupsdk.history.pipeline import Options
from groupsdk.history.slo import Objective
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.spark_rows import Reading
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.history.sources.spark_tables import ArrowFiles
from groupsdk.history.tables.schemas import TABLES
from tests.history.expected_tables import LOGS, rows_of
from tests.spark.reading import read_raw_segments


RUN_TABLES = [name for name in TABLES if name != "raw_records"]


OPTIONS = Options(slos=(Objective("*", 99.5),))


def tables(out: Path) -> dict[str, Any]:
    """Read the rows of all tables."""
    return {name: rows_of(out / name) for name in RUN_TABLES}


@pytest.fixture(scope="module", params=["transactions", "bad input", "recorded and scenes"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log."""
    root = tmp_path_factory.mktemp("log")
    return LOGS[request.param](root)


@pytest.fixture(scope="module")
def expected(log: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The tables that the local engine makes of it; those are held against the ones of before in its own tests."""
    out = tmp_path_factory.mktemp("local") / "out"
    local.run(segment_tasks(str(log)), str(out), OPTIONS)
    found = tables(out)
    assert found["slo"]
    return found


def made(spark: Any, records: Reading, out: Path) -> dict[str, Any]:
    """Make the tables with Spark."""
    leftover = out / "offset_commits" / "day=2000-01-01"
    leftover.mkdir(parents=True)
    (leftover / "part-0.parquet").write_bytes(b"of a former run")
    run(spark, Inputs(records), str(out), OPTIONS)
    return tables(out)


def test_tasks_of_spark_make_what_the_local_engine_makes(
    spark: Any, log: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert made(spark, read_segments(spark, str(log)), tmp_path / "out") == expected


def test_the_source_may_tell_spark_its_parts_itself(
    spark: Any, log: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    reading = Reading(read_segments(spark, str(log)).frame)
    assert made(spark, reading, tmp_path / "out") == expected


def test_groups_are_explained_in_one_plan_of_dataframes(
    spark: Any, log: Path, tmp_path: Path, mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = mocker.spy(ArrowFiles, "save")
    run(spark, Inputs(read_segments(spark, str(log))), str(tmp_path / "out"))
    saved.call_args_list[0].args[1].explain()
    plan = capsys.readouterr().out
    assert "FlatMapGroupsInArrow [bucket#" in plan
    assert "RDD" not in plan


def test_the_plan_of_the_docs_is_what_explain_says(spark: Any) -> None:
    for path, text in show_plan.pages(spark).items():
        assert text == path.read_text(encoding="utf-8"), "run python -m docs.show_plan"


def test_spark_writes_tables_where_pyarrow_cannot(
    spark: Any, log: Path, expected: dict[str, Any], tmp_path: Path, mocker: MockerFixture
) -> None:
    mocker.patch.object(job, "prepare_folders", return_value=None)
    found = made(spark, read_segments(spark, str(log)), tmp_path / "out")
    assert {name: found[name] for name in RUN_TABLES if found[name] or expected[name]} == {
        name: rows for name, rows in expected.items() if rows
    }


def test_raw_records_in_any_order_make_the_same(
    spark: Any, log: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    raw = read_raw_segments(spark, log).repartition(3)
    found = made(spark, read_raw(raw), tmp_path / "out")
    # what could not be read from the files is not among raw records
    for name in set(RUN_TABLES) - {"rejects", "quality"}:
        assert found[name] == expected[name], name
