"""The tables as Delta, with its real package from Maven Central; and what is said of formats that are not there."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.cli.main import main
from groupsdk.errors import ConfigError
from groupsdk.history.job import Inputs, Options, run
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.history.tables.detect_format import FORMATS
from groupsdk.history.tables.stage_tables import RUN_TABLES
from groupsdk.history.tables.table_formats import format_settings
from tests.history.sample import SEGMENTS


_COMPARE = """
import sys
from pathlib import Path
from groupsdk.cli.main import main
from groupsdk.history.job import Inputs, Options, read_tables, run
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.session import build_session
from groupsdk.history.sources.spark_segments import read_segments
from groupsdk.history.tables.table_formats import format_settings

log, root, table_format = sys.argv[1:]
settings = {**format_settings(table_format), "spark.sql.shuffle.partitions": "2"}
spark = build_session(master="local[2]", brief=True, settings=settings)
spark.sparkContext.setLogLevel("ERROR")

def rows(tables):
    return {name: sorted(str(row.asDict(True)) for row in frame.select(*TABLES[name].columns).collect()) for name, frame in tables.items()}

def make(where, chosen):
    inputs = Inputs(read_segments(spark, log))
    return rows(run(spark, inputs, f"{root}/{where}", Options(assignors=("range",), format=chosen)))

expected = make("plain", "parquet")
assert main(["history", "report", "--out", f"{root}/plain", "--report", f"{root}/plain.html", "--quiet"]) == 0
# an update's ledger would count files that are gone
(Path(root) / "other/_followed").mkdir(parents=True)
# twice: the files of the first time stay beside those of the second
make("other", table_format)
assert make("other", table_format) == expected
assert not (Path(root) / "other/_followed").exists()
# in the place of tables of another format, and told by what is there
assert make("plain", table_format) == expected
assert rows(read_tables(spark, f"{root}/plain")) == expected
assert main(["history", "report", "--out", f"{root}/other", "--report", f"{root}/other.html", "--quiet"]) == 0
pages = [(Path(root) / f"{each}.html").read_text() for each in ("plain", "other")]
assert pages[0] == pages[1]
print(sum(map(len, expected.values())), "rows")
"""


@pytest.mark.slow
def test_delta_has_the_rows_of_parquet(tmp_path: Path) -> None:
    # a session of its own, as a package is loaded when a JVM starts
    command = [sys.executable, "-c", _COMPARE, str(SEGMENTS), str(tmp_path), "delta"]
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert int(done.stdout.split()[-2]) > 500


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
