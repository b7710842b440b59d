"""One Spark session for all tests, and the whole pipeline once over the sample."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.support.missing import lacking


_FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests, and give them the time that a cold session takes on a busy machine."""
    for item in items:
        if _FOLDER in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # Long, as a limit that cuts a call to the JVM short leaves its answer to the next test's call.
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session that all tests share: two cores, UTC."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if which("java") is None and "JAVA_HOME" not in os.environ:
        missing.append("a JDK")
    if missing:
        lacking(f"no Spark to test with: {', '.join(missing)} is missing")
    from groupsdk.history.session import build_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    session = build_session(
        "groupsdk tests",
        master="local[2]",
        brief=True,
        settings={
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.driver.memory": "1g",
            # a few rows are sooner done than code is generated for them
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.adaptive.enabled": "false",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sample_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the tables of the sample are, with a day that a former run left there."""
    out = tmp_path_factory.mktemp("history") / "tables"
    leftover = out / "offset_commits" / "day=2000-01-01"
    leftover.mkdir(parents=True)
    (leftover / "part-0.parquet").write_bytes(b"of a former run")
    return str(out)


@pytest.fixture(scope="session")
def progress() -> list[tuple[str, int, int]]:
    """What the run over the sample said of itself; ask for `sample_tables` as well."""
    return []


@pytest.fixture(scope="session")
def sample_tables(
    spark: Any, sample_path: str, progress: list[tuple[str, int, int]]
) -> dict[str, Any]:
    """Every table of the sample, made with the broker's log beside it; leave them as they are."""
    from groupsdk.history.job import Inputs, run
    from groupsdk.history.sources.spark_broker_log import read_broker_log, read_ends
    from groupsdk.history.sources.spark_segments import read_segments
    from tests.history.sample import BROKER_LOG, SEGMENTS
    from tests.spark.reading import topic_names

    inputs = Inputs(
        read_segments(spark, str(SEGMENTS)),
        topics=topic_names(spark),
        reasons=read_broker_log(spark, str(BROKER_LOG)),
        ends=read_ends(spark, str(BROKER_LOG)),
    )
    told = progress.append
    return dict(run(spark, inputs, sample_path, progress=lambda *each: told(each)))
