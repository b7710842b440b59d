"""Brokers' logs and the rows of Spark's own connector, brought into the shapes of the history."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql.functions import unix_millis

from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.sources.broker_log_lines import read_log_files
from groupsdk.history.sources.spark_broker_log import read_broker_log, read_ends
from groupsdk.history.sources.spark_connector import from_connector
from groupsdk.history.tables.schemas import TABLES
from tests.history.sample import BROKER_LOG, DATA, expected_generations
from tests.history.sources.test_broker_log_lines import ENDS, LINE, OLD_LINE
from tests.spark.reading import plain
from tests.support.cases import each_case


def check_same(spark: Any, path: Path, zone: str = "UTC") -> None:
    """Compare what Spark reads in a log with what is read without it."""
    told = read_log_files(str(path), zone=zone)
    assert told
    assert sorted(
        (row.group_id, row.generation, row.ms, row.reason, row.cause, row.compatible)
        for row in read_broker_log(spark, str(path), zone=zone)
        .select("*", unix_millis("ts").alias("ms"))
        .collect()
    ) == sorted(tuple(each) for each in told if isinstance(each, LoggedReason))
    assert sorted(
        (row.group_id, row.member_id, row.ms, row.reason)
        for row in read_ends(spark, str(path), zone=zone)
        .select("*", unix_millis("ts").alias("ms"))
        .collect()
    ) == sorted(tuple(each) for each in told if isinstance(each, LoggedDeparture))


@each_case("path", sorted(DATA.rglob("coordinator-log.txt.gz")))
def test_spark_reads_in_a_log_what_is_read_without_it(path: Path, spark: Any) -> None:
    check_same(spark, path)


def test_spark_reads_lines_of_every_kind_and_time_zone(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    reason = "Adding new member a-1 with group instance id null; client reason: (of (mine))"
    made = [each.format(group="my group", old=41, reason=reason) for each in (LINE, OLD_LINE)]
    log.write_text("".join(f"{each}\n" for each in (*made, "", *ENDS)), encoding="utf-8")
    check_same(spark, log, zone="Europe/Paris")


def test_reasons_of_the_sample_are_read_by_spark(spark: Any) -> None:
    found = {
        (row.group_id, row.generation): row.reason
        for row in read_broker_log(spark, str(BROKER_LOG)).collect()
    }
    expected = {
        (each["group_id"], each["generation"]): each["broker_reasons"]
        for each in expected_generations()
        if each["broker_reasons"]
    }
    modern = {key: found.pop(key) for key in [*found] if key[0] == "modern"}
    assert found.keys() == expected.keys()
    assert all(found[key] in expected[key] for key in expected)
    assert [("joins" in text, "left" in text) for _, text in sorted(modern.items())] == [
        *[(True, False)] * 2,
        *[(False, True)] * 2,
    ]


def test_the_connectors_rows_become_raw_records(spark: Any) -> None:
    frame = spark.createDataFrame(
        [(b"k", None, "__consumer_offsets", 3, 7, datetime(2026, 10, 2, tzinfo=UTC), 0)],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
        " timestampType int",
    )
    raw = from_connector(frame)
    assert dict(raw.dtypes) == dict(TABLES["raw_records"].columns)
    columns = ("src_partition", "src_offset", "control", "value", "producer_id")
    assert plain(raw, *columns) == [(3, 7, False, None, -1)]
