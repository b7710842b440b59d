"""The whole pipeline over the log of a real broker, held against what Kafka's own tools say of it."""

from collections import Counter
from typing import Any

import pytest
from pyspark.sql import functions as f
from pyspark.testing import assertSchemaEqual

from groupsdk.errors import ConfigError
from groupsdk.history.job import create_views, read_tables
from groupsdk.history.pipeline import STEPS
from groupsdk.history.tables.schemas import TABLES
from tests.history.sample import expected_counts, expected_generations
from tests.history.truth import REJOINED


Tables = dict[str, Any]


def by_place(tables: Tables) -> dict[tuple[int, int], Any]:
    """Take the generations by where their last records stand."""
    return {(row.src_partition, row.src_offset): row for row in tables["generations"].collect()}


def test_every_generation_of_the_sample_is_met(sample_tables: Tables) -> None:
    found = by_place(sample_tables)
    members: dict[tuple[str, int], dict[str, Any]] = {}
    for row in sample_tables["assignments"].filter("phase = 'final'").collect():
        group = members.setdefault((row.group_id, row.generation), {})
        group.setdefault(row.member_id, {}).setdefault(row.topic, []).append(row.partition)
    expected = expected_generations()
    for each in expected:
        row = found.pop((each["log_partition"], each["log_offset"]))
        assert (row.group_id, row.generation) == (each["group_id"], each["generation"])
        assert row.protocol_type == each["protocol_type"]
        assert (row.assignor, row.leader) == (each["protocol"], each["leader"])
        assert int(row.ts.timestamp() * 1000 + 0.5) == each["ts_ms"]
        assert row.n_members == len(each["members"])
        assigned = members.get((row.group_id, row.generation), {})
        assert {m: {t: sorted(p) for t, p in a.items()} for m, a in assigned.items()} == {
            member["member_id"]: {t: sorted(p) for t, p in member["assigned"].items()}
            for member in each["members"]
            if member["assigned"]
        }
    # what is left are the epochs of the group of the newer protocol
    assert [row.protocol for row in found.values()] == ["consumer"] * 4
    assert len(expected) == expected_counts()["generations"] == 18


def test_every_record_is_counted(sample_tables: Tables) -> None:
    counts = expected_counts()
    assert sample_tables["offset_commits"].count() == counts["records_by_type"]["1"]
    quality = {row.src_partition: row for row in sample_tables["quality"].collect()}
    # and one record that ends a transaction
    total = sum(counts["records_by_type"].values()) + 1
    assert sum(row.records for row in quality.values()) == total
    assert [
        (p, row.first_offset, row.last_offset, row.offset_gaps)
        for p, row in sorted(quality.items())
    ] == [
        (1, 0, 535, 0),
        (3, 0, 496, 0),
    ]
    assert all(
        (row.bad_batches, row.undecodable, row.unknown_types, row.missing_generations)
        == (0, 0, {}, 0)
        for row in quality.values()
    )
    assert sample_tables["rejects"].count() == 0


def test_the_brokers_own_reasons_stand_beside_the_causes(sample_tables: Tables) -> None:
    found = by_place(sample_tables)
    with_reasons = [each for each in expected_generations() if each["broker_reasons"]]
    for each in with_reasons:
        row = found[each["log_partition"], each["log_offset"]]
        assert row.reason in each["broker_reasons"]
        assert row.evidence == "broker_log"
        # "Adding new member" and "Leader re-joining" do not contradict what the records tell more closely
        closer = row.primary_cause in ("coordinator_restart", *REJOINED)
        assert row.confidence >= (0.7 if closer else 1.0), row
    assert len(with_reasons) == 15


CAUSES = {
    ("audit", 2): "coordinator_restart",
    ("audit", 3): "topic_growth",
    ("audit", 4): "join",
    ("audit", 5): "cooperative_followup",
    ("audit", 6): "leave",
    ("workers", 2): "join",
    ("workers", 3): "expiry",
    ("workers", 4): "coordinator_restart",
    ("workers", 5): "topic_growth",
    ("workers", 6): "leave",
    ("etl", 2): "leave",
    ("modern", 2): "join",
    ("modern", 3): "leave",
}


def test_causes_of_the_sample_log_are_those_of_its_scenes(sample_tables: Tables) -> None:
    rows = sample_tables["generations"].collect()
    found = {(row.group_id, row.generation): row.primary_cause for row in rows}
    assert {key: found[key] for key in CAUSES} == CAUSES
    # the broker was restarted once: each group that lived on noticed
    changed = {(row.group_id, row.generation) for row in rows if row.coordinator_changed}
    assert changed == {("audit", 2), ("workers", 4), ("modern", 3)}


def test_a_transaction_commits_offsets_once_it_is_committed(sample_tables: Tables) -> None:
    states = Counter(row.state for row in sample_tables["offset_commits"].select("state").collect())
    assert states == {"committed": 988}
    etl = sample_tables["offset_commits"].filter(
        "group_id = 'etl' and committed_offset is not null"
    )
    assert etl.count() > 0


def test_topics_of_the_newer_protocol_have_their_names(sample_tables: Tables) -> None:
    modern = sample_tables["assignments"].filter("group_id = 'modern'")
    assert {row.topic for row in modern.select("topic").collect()} == {"events"}
    assert {row.phase for row in modern.select("phase").collect()} == {
        "target",
        "current",
        "revoking",
    }


def test_moves_say_from_whom_to_whom_and_how_long_nobody_committed(sample_tables: Tables) -> None:
    moved = sample_tables["moves"].filter("group_id = 'workers' and generation = 3").collect()
    assert sorted((row.from_client, row.to_client, row.partition) for row in moved) == [
        ("w-1", "w-2", 0),
        ("w-1", "w-2", 1),
    ]
    assert all(row.gap_ms > 3000 and not row.same_client for row in moved)
    second = sample_tables["moves"].filter("group_id = 'audit' and generation = 5").collect()
    assert {row.idle_generations for row in second} == {1}


def test_every_shipped_assignor_is_replayed_and_ranked(sample_tables: Tables) -> None:
    summary = sample_tables["replay_summary"].filter("group_id = 'modern'").collect()
    assert {row.assignor for row in summary} == {
        *("actual", "range", "roundrobin", "sticky", "cooperative-sticky"),
    }
    assert all(row.problems == 0 and row.generations == 3 for row in summary)
    assert min(row.rank for row in summary) == 1


@pytest.mark.parametrize("name", [name for name in TABLES if name != "raw_records"])
def test_each_table_has_its_declared_shape_and_key(
    name: str, sample_tables: Tables, spark: Any
) -> None:
    frame = sample_tables[name]
    assertSchemaEqual(frame.schema, spark.createDataFrame([], TABLES[name].ddl).schema)
    keys = TABLES[name].keys
    if keys:
        assert frame.groupBy(*keys).count().filter(f.col("count") > 1).count() == 0


def test_a_run_takes_the_place_of_the_one_before(sample_tables: Tables, spark: Any) -> None:
    # the fixture leaves a day of a former run where the tables go
    days = sample_tables["offset_commits"].select("day").distinct().collect()
    assert [str(row.day) for row in days] == ["2026-11-21"]


def test_the_run_told_of_each_of_its_steps(
    progress: list[tuple[str, int, int]], sample_tables: Tables
) -> None:
    assert sample_tables
    assert progress == [(name, done, len(STEPS)) for done, name in enumerate(STEPS)]


def test_tables_are_read_again_and_asked_with_sql(
    sample_tables: Tables, sample_path: str, spark: Any
) -> None:
    read = read_tables(spark, sample_path)
    assert set(read) == set(sample_tables)
    create_views(read)
    counted = spark.sql("select count(*) as n from generations").first()
    assert counted["n"] == 22


def test_spark_tables_without_a_run_say_how_to_make_them(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(ConfigError, match="groupsdk history run"):
        read_tables(spark, str(tmp_path_factory.mktemp("empty")))
