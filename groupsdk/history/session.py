"""Build a Spark session that suits the history: UTC, this Python in the workers, and Arrow batches that fit."""

import atexit
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from groupsdk.errors import ConfigError
from groupsdk.settings.properties import read_properties


ARROW_ROWS: Final = 50_000
"""How many rows go to a Python worker at once."""

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
    # group records can take a megabyte each, so that rows alone would not bound a batch
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 * 1024 * 1024),
    "spark.sql.parquet.compression.codec": "zstd",
    # Spark's default is an old form of twelve bytes, which takes longer and has no statistics
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # one open file for each day of a task, in place of sorting everything by day
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}
"""The settings of the history."""

_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

CONNECT: Final = "sc://"
"""The beginning of the URL of a server of Spark Connect."""
_LOOPBACK: Final = "127.0.0.1"
_LOCAL_DIR: Final = "spark.local.dir"
"""A line of `spark-defaults.conf`."""

_SUBMIT_OPTIONS: Final = "SPARK_SUBMIT_OPTS"

_DAEMON: Final = "spark.python.daemon.module"

_INTERPRETED: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Queries over some hundred packed rows are done before code for them would be compiled."""

BRIEF_BYTES: Final = 400 * 1024 * 1024
"""A log up to this size, of some five million records, is sooner explained than Java's code is compiled well."""

CONNECTOR_EXCLUDES: Final = (
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "com.google.code.findbugs:jsr305",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "at.yawk.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "org.scala-lang.modules:scala-parallel-collections_2.13",
)
"""Dependencies of Spark's Kafka connector that PySpark includes: fifty of its sixty megabytes."""


def build_session(
    app: str = "groupsdk history",
    *,
    master: str | None = None,
    connector: bool = False,
    brief: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a Spark session with the settings that the history needs; the running one, if any.

    It has no web pages. With a local master it listens on the loopback address only, and spills into a directory that no
    other user can read and that is deleted with the process. Spark's own configuration takes precedence:
    `spark-submit`, `spark-defaults.conf`, `PYSPARK_SUBMIT_ARGS`.

    Args:
        master: such as "local[4]" or "spark://host:7077", or the URL of a server of Spark Connect ("sc://host:15002"): its
            settings are the server's, but for those that a session may change. None: that of `spark-submit` or Spark's configuration,
            else all cores of this machine.
        connector: load Spark's own Kafka connector, for `sources.spark_connector` only.
        brief: the log is small (up to `BRIEF_BYTES`), so Java only uses its fast compiler, and Spark compiles no queries. Ignored if a JVM is running.
        settings: more settings of Spark, which take precedence.
    """
    if master is not None and master.startswith(CONNECT):
        return _connect(master, app, {**SETTINGS, **(settings or {})})
    prepare_workers()
    every = dict(SETTINGS)
    if brief:
        _compile_quickly()
        every |= _INTERPRETED
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
    if connector:
        every |= connector_settings()
    for key, value in {**every, **_private(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if not session.sparkContext.getConf().contains(_SHUFFLE_PARTITIONS):
        # Spark's 200 are too many by far for a few cores: most of them would be empty
        cores = session.sparkContext.defaultParallelism
        session.conf.set(_SHUFFLE_PARTITIONS, str(max(8, 2 * cores)))
    return session


def refuse_connect(master: str | None) -> None:
    """Raise ConfigError for a server of Spark Connect: batches of a stream would be handled there, without the state of the groups."""
    if master is not None and master.startswith(CONNECT):
        raise ConfigError(
            f"tables that are kept up to date need a driver of their own, and {master} is a server of Spark Connect:"
            " give another --master, or follow a live cluster with --engine local"
        )


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, whose driver runs in a server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _connect(url: str, app: str, settings: Mapping[str, str]) -> SparkSession:
    session = SparkSession.builder.appName(app).remote(url).getOrCreate()
    for key, value in settings.items():
        # others are the server's
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _private(master: str | None) -> dict[str, str]:
    """Return the settings that isolate a session from other users, unless they are set already."""
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - asking in any other way would start one
        return {}
    given = _configured()
    wanted = {"spark.ui.enabled": "false"}
    if (master or given.get("spark.master", "local[*]")).startswith("local"):
        wanted |= {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
        wanted[_DAEMON] = "groupsdk.history.spark_daemon"
        if _LOCAL_DIR not in given:
            # made by us and for us alone: Spark's own would be open to everybody in /tmp
            wanted[_LOCAL_DIR] = mkdtemp(prefix="groupsdk-spark-")
            atexit.register(shutil.rmtree, wanted[_LOCAL_DIR], ignore_errors=True)
    return {key: value for key, value in wanted.items() if key not in given}


def _configured() -> dict[str, str]:
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf") / "spark-defaults.conf"
    found: dict[str, str] = {}
    if defaults.is_file():
        # which Spark loads as Java's properties, and trims
        found.update(read_properties(defaults, "SPARK_CONF_DIR"))
    if "MASTER" in os.environ:
        found.setdefault("spark.master", os.environ["MASTER"])
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    for option, value in pairwise(arguments):
        if option == "--master":
            found["spark.master"] = value
        elif option in ("--conf", "-c") and "=" in value:
            key, _, said = value.partition("=")
            found[key] = said
    # all of it where `spark-submit` has started this program
    return {**found, **dict(SparkConf().getAll())}


def _compile_quickly() -> None:
    # by the environment, as Spark adds it to what its configuration says of the JVM
    given = os.environ.get(_SUBMIT_OPTIONS, "")
    if "TieredStopAtLevel" not in given:
        os.environ[_SUBMIT_OPTIONS] = f"{given} -XX:TieredStopAtLevel=1".strip()


def connector_settings() -> dict[str, str]:
    """Return the settings that make Spark fetch its Kafka connector at startup, without the jars that PySpark includes."""
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    return {
        "spark.jars.packages": package,
        "spark.jars.excludes": ",".join(CONNECTOR_EXCLUDES),
    }


def prepare_workers() -> None:
    """Make local workers use this Python interpreter, not the `python3` of the PATH, and find this package.

    An existing PYSPARK_PYTHON, as with a packed environment, is kept.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    root = str(Path(__file__).resolve().parents[2])
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *paths])
