"""How far groups are behind samples of the partitions' ends, without Spark; `tests/spark/test_lag.py` compares it with Spark's."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.history_log import LogWriter, commit
from groupsdk.cli.main import main
from groupsdk.errors import ConfigError
from groupsdk.history.tables.sampled_lag import COMMIT_COLUMNS, read_end_offsets, sampled
from groupsdk.history.tables.schemas import TABLES
from tests.support.cases import each_case


def test_a_local_run_compares_commits_with_samples(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", 0) as log:
        for seconds, offset in ((10, 100), (20, 150)):
            log.append(1_000 * seconds, commit("g", "t", 0, offset, 1_000 * seconds))
    samples = [
        {"topic": "t", "partition": 0, "ts": f"1970-01-01T00:00:{second:02}Z", "end_offset": end}
        for second, end in ((5, 90), (12, 110), (15, 150), (25, 200), (26, 150))
    ]
    # without a zone, as Spark reads it
    samples[2]["ts"] = "1970-01-01 00:00:15"
    path = tmp_path / "ends.jsonl"
    path.write_text("\n".join(map(json.dumps, samples)) + "\n", encoding="utf-8")
    words = ("--segments", str(tmp_path / "log"), "--out", str(tmp_path / "out"), "--quiet")
    command = ["history", "run", "--engine", "local", "--no-report", *words]
    assert main([*command, "--end-offsets", str(path)]) == 0
    rows = pq.read_table(tmp_path / "out" / "lag").to_pylist()
    assert {
        row["ts"].second: (row["committed_offset"], row["lag"], row["time_lag_ms"])
        for row in rows
        if row["kind"] == "sampled"
    } == {
        12: (100, 10, 7_000),
        15: (100, 50, 10_000),
        25: (150, 50, None),
        26: (150, 0, 0),
    }
    assert "lower_bound" in {row["kind"] for row in rows}


def test_samples_of_a_topic_that_nobody_committed_make_no_rows() -> None:
    commits = TABLES["offset_commits"].arrow_schema.empty_table().select(COMMIT_COLUMNS)
    ends = pa.table({"topic": ["t"], "partition": pa.array([0], pa.int32())})
    ends = ends.append_column("ts", pa.array([5], pa.timestamp("us", tz="UTC")))
    ends = ends.append_column("end_offset", pa.array([7]))
    assert sampled(commits, ends).num_rows == 0


@each_case(
    "line", ["no JSON", "{}", "[1]", '{"topic": "t", "partition": 0, "ts": 5, "end_offset": 1}']
)
def test_samples_that_cannot_be_read_are_said(line: str, tmp_path: Path) -> None:
    path = tmp_path / "ends.jsonl"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(
        ConfigError, match="must have JSON lines with topic, partition, ts and end_offset"
    ):
        read_end_offsets(str(path))
