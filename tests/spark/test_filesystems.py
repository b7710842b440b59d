"""Tables and reports on file systems that Spark alone knows, and runs that fail."""

from pathlib import Path
from typing import Any

import pytest

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.cli import history
from groupsdk.cli.history_options import HistoryOptions
from groupsdk.cli.main import main
from groupsdk.errors import ConfigError
from groupsdk.history.job import Inputs, read_tables, run
from groupsdk.history.report.tables import SparkTables
from groupsdk.history.sources.filesystems import StorageDirectory, is_supported
from groupsdk.history.sources.spark_rows import Reading
from groupsdk.history.sources.spark_segments import read_segments, read_with_spark
from groupsdk.history.tables.lease import LOCK
from groupsdk.history.tables.packed import unpacked
from tests.spark.reading import plain


@pytest.fixture(scope="module")
def mounted(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A file system of Hadoop's that pyarrow does not know, and where on this machine its files are."""
    root = tmp_path_factory.mktemp("mounted")
    settings = spark._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.tests.link./history", root.as_uri())
    assert not is_supported("viewfs://tests/history")
    return "viewfs://tests/history", root


def write_log(root: Path) -> None:
    """Write two generations of one group, in two segments."""
    with LogWriter(root, 3, batch_records=2, segment_bytes=300) as log:
        for number in (1, 2):
            seats = {f"m{n}": Seat(f"c{n}", {"t": [n]}) for n in range(number)}
            log.append(1000 * number, generation("g", number, seats))
            log.append(1500 * number, *(commit("g", "t", n, number, 1500) for n in range(4)))


def read_rows(reading: Reading) -> list[str]:
    """Read the packed rows of a log."""
    batches = unpacked(reading.frame(2).toArrow().to_batches())
    return sorted(f"{name} {row}" for name, batch in batches for row in batch.to_pylist())


def test_segments_tables_and_report_may_be_where_spark_alone_can_go(
    spark: Any,
    mounted: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri, root = mounted
    write_log(root / "data" / "disk-1")
    # another topic's, which nobody is to read
    other = root / "data" / "disk-1" / "orders-0"
    other.mkdir()
    (other / f"{0:020}.log").write_bytes(b"\0" * 100)
    # the paths of files are in what could not be read alone
    assert read_rows(read_with_spark(spark, f"{uri}/data")) == read_rows(
        read_segments(spark, str(root / "data"))
    )
    monkeypatch.setattr(history, "start_session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    assert not main(
        [
            "history",
            "run",
            "--quiet",
            "--segments",
            f"{uri}/data",
            "--out",
            f"{uri}/out",
            "--assignors",
            "range",
        ]
    )
    assert capsys.readouterr().out == f"{uri}/out/report.html\n"
    assert "Group g" in (root / "out" / "report.html").read_text(encoding="utf-8")
    tables = read_tables(spark, f"{uri}/out")
    assert plain(tables["generations"], "generation", "n_members") == [(1, 1), (2, 2)]
    assert tables["offset_commits"].count() == 8
    assert sorted(each.name for each in (root / "out").iterdir() if each.name[0] in "_.") in (
        [],
        [".report.html.crc"],
    )
    # a URI of this machine is the same as its path
    assert read_tables(spark, (root / "out").as_uri())["generations"].count() == 2
    history.write_report(
        HistoryOptions(out=f"file:{root}/out", title="by its URI"),
        history.Progress(quiet=True),
        SparkTables(tables),
        spark,
    )
    assert "by its URI" in (root / "out" / "report.html").read_text(encoding="utf-8")
    assert not Path("file:").exists()


def test_bad_storage_place_is_refused_with_the_reason(
    spark: Any, mounted: tuple[str, Path]
) -> None:
    uri, root = mounted
    with pytest.raises(ConfigError, match="nowhere://"):
        StorageDirectory(spark, "nowhere://bucket/history")
    with pytest.raises(ConfigError, match="no segment files"):
        read_with_spark(spark, f"{uri}/none")
    for disk in ("disk-1", "disk-2"):
        write_log(root / "twice" / disk)
    with pytest.raises(ConfigError, match="partition 3 of __consumer_offsets is in both"):
        read_with_spark(spark, f"{uri}/twice")


def test_a_run_that_fails_leaves_the_tables_of_the_one_before(spark: Any, tmp_path: Path) -> None:
    write_log(tmp_path / "log")
    out = tmp_path / "out"
    for name in ("generations", "offset_commits", "topics"):
        (out / name).mkdir(parents=True)
        (out / name / "part-0.parquet").write_bytes(b"of the run before")
    before = sorted((each, each.stat().st_mtime_ns) for each in out.rglob("*"))
    log = tmp_path / "log"
    inputs = Inputs(
        read_segments(spark, str(log)),
        # read as one of the last of all
        reasons=spark.sql(
            "select 'g' as group_id, 1 as generation, timestamp'2026-01-01' as ts, 'x' as reason,"
            " raise_error('broken') as cause, array('join') as compatible"
        ),
    )
    with pytest.raises(Exception, match="broken"):
        run(spark, inputs, str(out))
    after = (each for each in out.rglob("*") if each.name != LOCK)
    assert sorted((each, each.stat().st_mtime_ns) for each in after) == before
