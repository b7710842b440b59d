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
