"""The tables as Delta, with its real package from Maven Central; and what is said of formats that are not there."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.cli.main import main
from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.job import Inputs, Options, run
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.history.tables.publishing import FORMATS
from groupsdk.history.tables.stage_tables import RUN_TABLES
from groupsdk.history.tables.table_formats import format_settings
from tests.history.lakes import PLAIN, delta_rows, parquet_rows
from tests.history.sample import SEGMENTS


_BEGIN = """
import sys
from pathlib import Path
from groupsdk.cli.main import main
from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.job import Inputs, create_views, read_tables, run
from groupsdk.history.session import build_session
from groupsdk.history.sources.filesystems import StorageDirectory
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.history.tables.lake_changes import Retention
from groupsdk.history.tables.table_formats import SparkDelta
from groupsdk.history.tables.table_formats import format_settings, load
from tests.history.lakes import DELTA, PLAIN, CLUSTER, delta_rows, parquet_rows, versions
from tests.history.tables.test_delta_tables import questions

log, root = sys.argv[1], Path(sys.argv[2])
settings = {**format_settings("delta"), "spark.sql.shuffle.partitions": "2"}
spark = build_session(master="local[2]", brief=True, settings=settings)
spark.sparkContext.setLogLevel("ERROR")
inputs = Inputs(read_segments(spark, log))
"""

_COMPARE = """
from dataclasses import replace
from datetime import date

local.run(segment_tasks(log), str(root / "local"), DELTA)
local.run(segment_tasks(log), str(root / "plain"), PLAIN)
expected = parquet_rows(root / "plain")
assert delta_rows(root / "local") == expected
run(spark, inputs, str(root / "spark"), DELTA)
assert delta_rows(root / "spark") == expected
before = versions(root / "spark")
run(spark, inputs, str(root / "spark"), DELTA)
assert versions(root / "spark") == before
# each engine goes on with what the other has written, and leaves other clusters alone
other = replace(DELTA, assignors=("range",), storm_generations=2)
run(spark, inputs, str(root / "local"), other)
local.run(segment_tasks(log), str(root / "spark"), other)
assert delta_rows(root / "local") == delta_rows(root / "spark") != expected
local.run(segment_tasks(log), str(root / "spark"), replace(DELTA, cluster_id="another"))
run(spark, inputs, str(root / "spark"), DELTA)
assert delta_rows(root / "spark") == delta_rows(root / "spark", "another") == expected
# the questions of the page, by Spark SQL
plain = read_tables(spark, str(root / "plain"))
lake = read_tables(spark, str(root / "spark")).of_cluster(CLUSTER)
for query in questions():
    answers = []
    for tables in (plain, lake):
        create_views(tables)
        answers.append(sorted(str(tuple(row)) for row in spark.sql(query).collect()))
    assert answers[0] == answers[1]
# a writer that began before another one of the cluster had written
late = SparkDelta(spark, StorageDirectory(spark, str(root / "spark")), CLUSTER, None)
late._version = 1
rows = load(spark, "generations", "parquet", str(root / "plain"))
try:
    late.replace("generations", rows.limit(1))
except ConfigError as error:
    assert "another process writes" in str(error)
else:
    raise AssertionError("an older version was written")
kept = SparkDelta(spark, StorageDirectory(spark, str(root / "spark")), CLUSTER, Retention(date(9999, 1, 1)))
kept.replace("generations", rows)
assert not delta_rows(root / "spark")["generations"]
assert delta_rows(root / "spark", "another") == expected
print(sum(map(len, expected.values())), "rows")
"""

_YEAR = """
from pyarrow import parquet
from groupsdk.history.tables.delta_tables import Batch, DeltaTables
from tests.history.lakes import live_files
from tests.history.tables.test_delta_tables import _changes, _generations

year = _changes([], _generations(range(3_650)))
DeltaTables(str(root), CLUSTER).merge("generations", year, -1, Batch("app", 1))
before = live_files(root, "generations")
old = _generations(range(2_000, 2_010))
parquet.write_table(_changes(old, [{**each, "moved": 7} for each in old[1:]]), root / "day.parquet")
lake = SparkDelta(spark, StorageDirectory(spark, str(root)), CLUSTER, None)
lake.merge("generations", spark.read.parquet(str(root / "day.parquet")))
print(len(before), *before.keys() ^ live_files(root, "generations").keys())
"""

_RUN = """
run(spark, inputs, str(root / "spark"), DELTA)
"""


def _command(code: str, root: Path) -> list[str]:
    # a session of its own, as a package is loaded when a JVM starts
    return [sys.executable, "-c", _BEGIN + code, str(SEGMENTS), str(root)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"}


def _said(code: str, root: Path) -> list[str]:
    done = subprocess.run(
        _command(code, root), capture_output=True, text=True, env=_environment(), check=False
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_delta_has_the_rows_of_parquet_by_spark_and_by_the_local_engine(tmp_path: Path) -> None:
    assert int(_said(_COMPARE, tmp_path)[-2]) > 500


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_day_that_spark_merges_into_a_year_rewrites_the_files_of_that_day(tmp_path: Path) -> None:
    days, *files = _said(_YEAR, tmp_path)
    assert int(days) == 365
    assert [each.split("/")[1] for each in files] == 2 * ["day=2026-07-20"]


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(3))
def test_a_run_that_is_killed_as_it_writes_leaves_the_tables_of_one_run(
    seed: int, tmp_path: Path
) -> None:
    lake, chance = tmp_path / "spark", Random(seed)
    for _ in range(2):
        wanted = _count_files(lake) + chance.randrange(1, 12)
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                _command(_RUN, tmp_path),
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
        try:
            while process.poll() is None and _count_files(lake) < wanted:
                # the run is to have the cores
                time.sleep(0.05)
        finally:
            # Python and the JVM
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL), (tmp_path / "log").read_text()[-3000:]
    _said(_RUN, tmp_path)
    local.run(segment_tasks(str(SEGMENTS)), str(tmp_path / "plain"), PLAIN)
    assert delta_rows(lake) == parquet_rows(tmp_path / "plain")


def _count_files(lake: Path) -> int:
    """Count the files of the lakehouse's tables, while a run makes and deletes folders."""
    found = 0
    # unlike `rglob`, it goes on where a folder has been deleted
    for _, folders, files in os.walk(lake):
        folders[:] = [each for each in folders if each != "_run"]
        found += sum(each.endswith(".parquet") for each in files)
    return found


def test_a_format_without_a_release_for_this_spark_is_said(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mocker.patch("pyspark.__version__", "4.2.1")
    assert format_settings("delta")["spark.jars.packages"] == (
        "io.delta:delta-spark_4.2_2.13:4.4.0"
    )
    assert format_settings("parquet") == {}
    command = ("history", "run", "--segments", "/data", "--out", "o", "--format", "iceberg")
    mocker.patch("groupsdk.cli.history_options.is_brief", return_value=True)
    assert main(list(command)) != 0
    assert "no release of iceberg for Spark 4.2 yet, only for 4.1" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=f"one of {', '.join(FORMATS)}, not 'orc'"):
        format_settings("orc")


def test_a_session_without_the_package_is_said_before_the_log_is_read(
    spark: Any, tmp_path: Path
) -> None:
    inputs = Inputs(read_segments(spark, str(SEGMENTS)))
    with pytest.raises(ConfigError, match="started without delta"):
        run(spark, inputs, str(tmp_path / "out"), Options(format="delta"))
    assert not any((tmp_path / "out" / name).exists() for name in RUN_TABLES)
