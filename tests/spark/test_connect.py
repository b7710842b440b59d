"""The whole job under Spark Connect: the client has no JVM, and the tables are those of the local engine."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from groupsdk.history import local
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.table_formats import format_settings
from tests.history.expected_tables import LOGS
from tests.history.lakes import DELTA, PLAIN, delta_rows, parquet_rows, versions
from tests.spark.connect_server import connect_server
from tests.spark.test_landing import tables
from tests.support.missing import lacking


_RUN = """
import sys
from pyspark import SparkContext
from groupsdk.cli.main import main
from groupsdk.history.job import read_tables
from groupsdk.history.session import build_session, is_remote

url, root, *names = sys.argv[1:]
for name in names:
    command = ["history", "run", "--master", url, "--segments", f"{root}/logs/{name}", "--out", f"{root}/spark/{name}", "--quiet"]
    assert main(command) == 0
spark = build_session(master=url)
assert is_remote(spark)
print(read_tables(spark, f"{root}/spark/{names[0]}")["generations"].count())
assert SparkContext._gateway is None
spark.stop()
"""


def test_spark_connect_makes_the_tables_of_the_local_engine(tmp_path: Path) -> None:
    if find_spec("grpc") is None:
        lacking("no client of Spark Connect: pip install 'pyspark[connect]'")
    names = ("recorded and scenes", "transactions")
    for name in names:
        (tmp_path / "logs").mkdir(exist_ok=True)
        log = LOGS[name](tmp_path / "made" / name.replace(" ", "-"))
        log.rename(tmp_path / "logs" / name)
        local.run(segment_tasks(str(tmp_path / "logs" / name)), str(tmp_path / "local" / name))
    with connect_server(tmp_path / "server") as url:
        said = _client(_RUN, url, str(tmp_path), *names)
    for name in names:
        found, expected = (tables(tmp_path / engine / name) for engine in ("spark", "local"))
        for table, rows in expected.items():
            assert found[table] == rows, (name, table)
    assert int(said.split()[-1]) == len(tables(tmp_path / "local" / names[0])["generations"])


def _client(code: str, *words: str) -> str:
    """Run a client of its own: a process has either a JVM or a server."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    return done.stdout


_RUN_DELTA = """
import sys
from pyspark import SparkContext
from groupsdk.cli.main import main

url, lake, *logs = sys.argv[1:]
for log in logs:
    command = ["history", "run", "--master", url, "--segments", log, "--out", lake, "--quiet"]
    assert main([*command, "--format", "delta", "--cluster", "prod-eu", "--assignors", "sticky"]) == 0
assert SparkContext._gateway is None
"""


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_spark_connect_merges_into_delta_tables_as_the_local_engine_does(tmp_path: Path) -> None:
    logs = [str(LOGS[name](tmp_path / name)) for name in ("bad input", "transactions")]
    lake = tmp_path / "lake"
    local.run(segment_tasks(logs[1]), str(tmp_path / "plain"), PLAIN)
    settings = {**format_settings("delta"), "spark.sql.shuffle.partitions": "2"}
    with connect_server(tmp_path / "server", settings) as url:
        # created, and merged with those of another log
        _client(_RUN_DELTA, url, str(lake), *logs)
    assert delta_rows(lake) == parquet_rows(tmp_path / "plain")
    before = versions(lake)
    assert max(before.values()) > 1
    local.run(segment_tasks(logs[1]), str(lake), DELTA)
    assert versions(lake) == before
