"""What a session is given, before there is one."""

import os
import sys
from pathlib import Path

import pytest


pytest.importorskip("pyspark")

from groupsdk.history.session import (
    CONNECTOR_EXCLUDES,
    SETTINGS,
    _compile_quickly,
    _private,
    connector_settings,
    prepare_workers,
)


ROOT = Path(__file__).resolve().parents[2]


def test_workers_run_this_python_and_find_this_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    prepare_workers()
    prepare_workers()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/elsewhere"]
    monkeypatch.setenv("PYSPARK_PYTHON", "./env/bin/python")
    prepare_workers()
    assert os.environ["PYSPARK_PYTHON"] == "./env/bin/python"


def test_times_are_utc_and_the_connector_brings_only_what_is_missing() -> None:
    assert SETTINGS["spark.sql.session.timeZone"] == "UTC"
    settings = connector_settings()
    assert settings["spark.jars.packages"].startswith("org.apache.spark:spark-sql-kafka-0-10_2.13:")
    assert settings["spark.jars.excludes"].split(",") == list(CONNECTOR_EXCLUDES)


def test_java_compiles_quickly_where_the_user_says_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    _compile_quickly()
    _compile_quickly()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dmine=1 -XX:TieredStopAtLevel=1"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=4")
    _compile_quickly()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-XX:TieredStopAtLevel=4"
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    _compile_quickly()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-XX:TieredStopAtLevel=1"
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")


@pytest.fixture
def unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No session and no configuration of Spark's; where its defaults would be."""
    for name in ("PYSPARK_SUBMIT_ARGS", "MASTER", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    # the JVM of an earlier session would tell what that one was given
    monkeypatch.setattr("pyspark.SparkContext._jvm", None)
    return tmp_path / "spark-defaults.conf"


def test_a_local_session_is_for_this_user_alone(unconfigured: Path) -> None:
    for master in (None, "local", "local[4]", "local-cluster[1,1,512]"):
        found = _private(master)
        assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
        assert found["spark.ui.enabled"] == "false"
        assert found["spark.python.daemon.module"] == "groupsdk.history.spark_daemon"
        assert Path(found["spark.local.dir"]).stat().st_mode & 0o777 == 0o700
    # executors elsewhere have to reach the driver, and have directories, and perhaps the package, of their own
    for master in ("spark://host:7077", "yarn", "k8s://https://host"):
        assert _private(master) == {"spark.ui.enabled": "false"}


def test_spark_configuration_of_the_user_is_kept(
    unconfigured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unconfigured.write_text(
        "# ours\n\nspark.master spark://host:7077\nspark.ui.enabled=true\n", encoding="utf-8"
    )
    assert _private(None) == {}
    assert "spark.driver.host" in _private("local")
    unconfigured.write_text("spark.local.dir: /fast\n", encoding="utf-8")
    assert _private(None).keys() == {
        *("spark.ui.enabled", "spark.driver.bindAddress", "spark.driver.host"),
        "spark.python.daemon.module",
    }
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf 'spark.ui.enabled=true' --master yarn x")
    assert _private(None) == {}


def test_a_session_that_runs_already_is_left_as_it_is(
    unconfigured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", object())
    assert _private("local") == {}
