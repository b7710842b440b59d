"""The job on a standalone cluster of two workers, with the environment that its users pack: the same tables."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from groupsdk.history.tables.schemas import TABLES
from tests.history.sample import BROKER_LOG, SEGMENTS
from tests.spark.cluster import packed_environment, standalone
from tests.spark.reading import TOPIC_NAMES


def rows(path: Path) -> list[str]:
    """Read a table's rows, in an order of their own."""
    table = ds.dataset(path, format="parquet", partitioning="hive").to_table()
    return sorted(
        str({name: str(value) for name, value in sorted(row.items())}) for row in table.to_pylist()
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of the sample, made by the command on a cluster."""
    root = tmp_path_factory.mktemp("cluster")
    archive = packed_environment(root)
    names = root / "topics.jsonl"
    lines = [json.dumps({"topic_id": each, "topic": name}) for each, name in TOPIC_NAMES]
    names.write_text("\n".join(lines), encoding="utf-8")
    with standalone(root / "spark") as master:
        (root / "spark-defaults.conf").write_text(
            f"spark.master {master}\n"
            f"spark.archives {archive}#env\n"
            "spark.driver.host 127.0.0.1\n"
            "spark.driver.memory 512m\n"
            "spark.executor.memory 512m\n"
            "spark.ui.enabled false\n"
            # a short job is sooner done than its code is compiled well
            "spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC\n"
            "spark.sql.shuffle.partitions 2\n"
            "spark.sql.codegen.wholeStage false\n",
            encoding="utf-8",
        )
        done = subprocess.run(
            [
                *(sys.executable, "-m", "groupsdk.history", "run", "--no-report"),
                *("--segments", str(SEGMENTS), "--broker-log", str(BROKER_LOG)),
                *("--topics", str(names), "--out", str(root / "tables")),
            ],
            # where `env` is: the driver starts the same Python, to ask the sources for their parts
            cwd=root,
            env={
                **os.environ,
                "SPARK_CONF_DIR": str(root),
                "PYSPARK_PYTHON": "./env/bin/python",
                "PYSPARK_DRIVER_PYTHON": sys.executable,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4_000:]
    return root


@pytest.mark.parametrize("name", [name for name in TABLES if name != "raw_records"])
def test_a_cluster_makes_the_same_tables(
    name: str, made: Path, sample_path: str, sample_tables: dict[str, Any]
) -> None:
    assert name in sample_tables
    assert rows(made / "tables" / name) == rows(Path(sample_path) / name)


def test_both_workers_had_the_packed_environment_and_worked(made: Path) -> None:
    for worker in ("worker-0", "worker-1"):
        work = made / "spark" / worker / "work"
        unpacked = [*work.glob("*/*/env/lib/groupsdk/history")]
        assert unpacked, f"{worker} had no executor with the environment"
        (log,) = work.glob("*/*/stderr")
        assert "Finished task" in log.read_text(encoding="utf-8")
