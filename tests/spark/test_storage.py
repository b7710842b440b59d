"""The whole of `history run` on file systems of Hadoop's: segments read from a real server, tables and report written to it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from groupsdk.history import local
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.broker_log_lines import read_log_files
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.expected_tables import digests
from tests.history.sample import BROKER_LOG, SEGMENTS
from tests.spark.storage_servers import hdfs, s3


pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

_RUN = """
import json, sys
from pathlib import Path
from groupsdk.cli.main import main
from groupsdk.history.session import build_session

segments, broker_log, reading, writing, here, settings = sys.argv[1:]
spark = build_session(master="local[2]", brief=True, settings=json.loads(settings))
spark.sparkContext.setLogLevel("ERROR")
path = spark._jvm.org.apache.hadoop.fs.Path
hadoop = spark._jsc.hadoopConfiguration()
system = path(reading).getFileSystem(hadoop)
system.copyFromLocalFile(path("file://" + segments), path(reading + "/disk/"))
system.copyFromLocalFile(path("file://" + broker_log), path(reading + "/logs/" + Path(broker_log).name))

def run():
    words = ["--segments", f"{reading}/disk", "--broker-log", f"{reading}/logs", "--out", f"{writing}/out"]
    assert main(["history", "run", "--quiet", "--assignors", "sticky", *words]) == 0

# twice: the tables of the second run take the place of those of the first
from unittest import mock
with mock.patch.object(spark, "stop"), mock.patch("groupsdk.history.session.build_session", return_value=spark):
    run()
    run()
    assert main(["history", "report", "--quiet", "--out", f"{writing}/out", "--title", "once more", "--report", f"{writing}/again.html"]) == 0
system = path(writing).getFileSystem(hadoop)
for name in ("out", "again.html"):
    system.copyToLocalFile(False, path(f"{writing}/{name}"), path("file://" + here + "/" + name), True)
"""


def run_there(
    reading: str,
    writing: str,
    settings: Mapping[str, str],
    here: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Read the sample from one place, write to another, and compare what stands there with a local run's tables."""
    here.mkdir()
    done = subprocess.run(
        [
            *(sys.executable, "-c", _RUN, str(SEGMENTS), str(BROKER_LOG), reading, writing),
            *(str(here), json.dumps(dict(settings))),
        ],
        env={
            **os.environ,
            "PYSPARK_SUBMIT_ARGS": "--driver-memory 1g pyspark-shell",
            **(environment or {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6_000:]
    assert done.stdout.splitlines() == [
        *[f"{writing}/out/report.html"] * 2,
        f"{writing}/again.html",
    ]
    once = here / "once"
    local.run(
        segment_tasks(str(SEGMENTS)),
        str(once),
        Options(assignors=("sticky",)),
        broker_logs=read_log_files(str(BROKER_LOG), zone="UTC"),
    )
    assert digests(here / "out") == digests(once)
    assert "once more" in (here / "again.html").read_text(encoding="utf-8")
    assert (here / "out" / "report.html").stat().st_size > 10_000


def test_tables_are_written_to_hdfs(tmp_path: Path) -> None:
    with hdfs() as storage:
        run_there(
            f"{storage.root}/kafka", f"{storage.root}/tables", storage.settings, tmp_path / "h"
        )


@pytest.mark.go
def test_s3_through_hadoop(tmp_path: Path) -> None:
    with s3() as storage:
        run_there(
            f"{storage.root}/kafka", f"{storage.root}/tables", storage.settings, tmp_path / "a"
        )
