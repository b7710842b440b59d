"""Brokers' logs and the rows of Spark's own connector, brought into the shapes of the history."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.functions import date_format, unix_millis

from groupsdk.history.sources.broker_log_lines import read_log_files
from groupsdk.history.sources.spark_broker_log import ends, read_broker_log, read_ends, reasons
from groupsdk.history.sources.spark_connector import from_connector
from groupsdk.history.tables.schemas import TABLES
from tests.history.sample import BROKER_LOG, DATA, expected_generations
from tests.spark.reading import plain
from tests.support.cases import each_case


LINE = (
    "[2026-11-21 00:29:04,719] [group-coordinator-event-processor-1] [GroupCoordinator id=1"
    " topic=__consumer_offsets partition=1] Preparing to rebalance group {group} in state"
    " PreparingRebalance with old generation {old} (reason: {reason})."
)
OLD_LINE = (
    "[2023-05-01 10:00:00,001] INFO [GroupCoordinator 1001]: Preparing to rebalance group {group} in state"
    " PreparingRebalance with old generation {old} (__consumer_offsets-37) (reason: {reason})"
    " (kafka.coordinator.group.GroupCoordinator)"
)


def read(spark: Any, *lines: str, zone: str = "UTC") -> Any:
    """Take the reasons from lines."""
    return spark.createDataFrame([(line,) for line in lines], "value string").transform(
        lambda frame: reasons(frame, zone=zone)
    )


@each_case("path", sorted(DATA.rglob("coordinator-log.txt.gz")))
def test_spark_reads_in_a_log_what_is_read_without_it(path: Path, spark: Any) -> None:
    told = read_log_files(str(path))
    assert told
    assert sorted(
        (row.group_id, row.generation, row.ms, row.reason, row.cause, row.compatible)
        for row in read_broker_log(spark, str(path))
        .select("*", unix_millis("ts").alias("ms"))
        .collect()
    ) == sorted(
        (each.group_id, one.generation, one.ts_ms, one.reason, one.cause, one.compatible)
        for each in told
        for one in each.reasons
    )
    assert sorted(
        (row.group_id, row.member_id, row.ms, row.reason)
        for row in read_ends(spark, str(path)).select("*", unix_millis("ts").alias("ms")).collect()
    ) == sorted(
        (each.group_id, one.member_id, one.ts_ms, one.reason) for each in told for one in each.ends
    )


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


@pytest.mark.parametrize("line", [LINE, OLD_LINE])
def test_old_and_new_brokers_say_it_alike(spark: Any, line: str) -> None:
    reason = (
        "Adding new member a-1 with group instance id null; client reason: rebalance (of (mine))"
    )
    found = read(
        spark,
        line.format(group="my group", old=41, reason=reason),
        line.format(group="g", old=1, reason="the moon"),
        "[2026-11-21 00:29:04,719] Stabilized group g generation 3 with 1 members.",
        "",
    )
    rows = {row.group_id: row for row in found.collect()}
    assert set(rows) == {"my group", "g"}
    assert (rows["my group"].generation, rows["my group"].reason) == (42, reason)
    assert rows["my group"].cause == "join"
    assert "client_restart" in rows["my group"].compatible
    assert (rows["g"].cause, rows["g"].compatible) == (None, [])


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("removing member m on heartbeat expiration.", "expiry"),
        ("explicit `LeaveGroup` request for (m) members.", "leave"),
        ("Leader m re-joining group during Stable; client reason: not provided", "rejoin"),
        ("Updating metadata for member m during Stable; client reason: x", "rejoin"),
        (
            "Updating metadata for member m during Stable; client reason: subscription has changed",
            "subscription_change",
        ),
        (
            "Leader m re-joining group during Stable; client reason: cached metadata has changed",
            "topic_growth",
        ),
        (
            "Leader m re-joining group during Stable; client reason: need to revoke partitions and re-join",
            "cooperative_followup",
        ),
        ("Removing m on pending sync request expiration", "expiry"),
        (
            "Updating metadata for static member m with instance id i; client reason: x",
            "static_replaced",
        ),
        ("Adding new member m with group instance id Some(i)", "join"),
    ],
)
def test_a_reason_names_a_cause(spark: Any, reason: str, cause: str) -> None:
    (row,) = read(spark, LINE.format(group="g", old=1, reason=reason)).collect()
    assert row.cause == cause
    assert cause in row.compatible


MODERN = (
    "[2026-11-21 00:29:{at}] [group-coordinator-event-processor-1] [GroupCoordinator id=1"
    " topic=__consumer_offsets partition=1] [GroupId {group}] {said}."
)
EPOCHS = (
    ("00,001", "Member a joins the consumer group using the consumer protocol"),
    ("00,001", "Bumped group epoch to 2 with metadata hash 7"),
    ("00,002", "Computed a new target assignment for epoch 2 with 'uniform' assignor in 4ms"),
    (
        "01,000",
        "Static member b with instance id i joins the consumer group using the consumer protocol",
    ),
    ("01,000", "Bumped group epoch to 3 with metadata hash 7"),
    ("02,000", "Bumped group epoch to 4 with metadata hash 8"),
    ("03,000", "Member a fenced from the group because the member session expired"),
    ("03,001", "Bumped group epoch to 5 with metadata hash 8"),
    ("04,000", "Static member b with instance id i left the consumer group"),
    ("04,000", "Bumped group epoch to 6 with metadata hash 0"),
    ("05,000", "Member late joins the consumer group using the consumer protocol"),
)


def test_an_epoch_has_the_reason_that_stands_before_it(spark: Any) -> None:
    lines = [MODERN.format(at=at, group="g", said=said) for at, said in EPOCHS]
    # another group between them, and none of what it says
    lines.insert(3, MODERN.format(at="00,500", group="h", said=EPOCHS[0][1]))
    found = {row.generation: row for row in read(spark, *lines).collect()}
    assert {number: row.cause for number, row in found.items()} == {
        2: "join",
        3: "join",
        5: "expiry",
        6: "leave",
    }
    assert {row.group_id for row in found.values()} == {"g"}
    assert found[5].reason == "Member a fenced from the group because the member session expired."


USUAL = (
    "[2026-11-21 00:29:{at}] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=1] {said}"
    " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
)
"""Kafka's own layout, which names the class and not the thread."""
REQUESTS = (
    # a group that migrates: its classic members join again for what they get, which makes no epoch
    ("00,000", "[GroupId g] Member a joins the consumer group using the classic protocol"),
    ("00,001", "[GroupId g] Bumped group epoch to 2 with metadata hash 7"),
    ("00,500", "[GroupId g] Member a joins the consumer group using the classic protocol"),
    (
        "00,700",
        "[GroupId g] Dynamic member a has left group through explicit `LeaveGroup` request; client reason: bye",
    ),
    ("00,701", "[GroupId g] Bumped group epoch to 3 with metadata hash 7"),
    ("01,000", "[GroupId g] Member a joins the consumer group using the classic protocol"),
    # of several lines of a request the one that says most
    ("01,000", "[GroupId g] Computed new metadata hash: 8"),
    ("01,000", "[GroupId g] Bumped group epoch to 4 with metadata hash 8"),
    (
        "02,000",
        (
            "[GroupId g] Static member with instance id i re-joins the consumer group using the consumer protocol."
            " Created a new member c to replace the existing member b"
        ),
    ),
    ("09,000", "[GroupId g] Computed new metadata hash: 9"),
    ("09,000", "[GroupId g] Bumped group epoch to 5 with metadata hash 9"),
    # so long after it, what was said was of another request
    ("20,000", "[GroupId g] Member c updated its subscribed topics to: [t]"),
    ("30,000", "[GroupId g] Bumped group epoch to 6 with metadata hash 9"),
    ("40,000", "[GroupId s][MemberId m] Member joins the streams group"),
    (
        "40,000",
        "[GroupId s][MemberId m] Bumped streams group epoch to 2 with metadata hash 7 and validated topic epoch 1",
    ),
    (
        "50,000",
        "[GroupId s] Streams member m fenced from the group because the member session expired",
    ),
    (
        "50,001",
        "[GroupId s][MemberId m] Bumped streams group epoch to 3 with metadata hash 7 and validated topic epoch 1",
    ),
)


def test_only_what_was_said_of_the_request_that_made_an_epoch_is_its_reason(spark: Any) -> None:
    lines = [USUAL.format(at=at, said=f"{said}.") for at, said in REQUESTS]
    found = {(row.group_id, row.generation): row for row in read(spark, *lines).collect()}
    assert {key: row.cause for key, row in found.items()} == {
        ("g", 2): "join",
        ("g", 3): "leave",
        ("g", 4): "join",
        ("g", 5): "topic_growth",
        ("s", 2): "join",
        ("s", 3): "expiry",
    }
    assert found["g", 3].reason.endswith("client reason: bye.")


def test_why_members_are_gone_is_read(spark: Any) -> None:
    lines = [
        *(MODERN.format(at=at, group="g", said=said) for at, said in EPOCHS),
        *(USUAL.format(at=at, said=f"{said}.") for at, said in REQUESTS),
        "[2026-11-21 00:29:06,000] [p] Member c in group h has failed, removing it from the group.",
        "[2026-11-21 00:29:07,000] [p] [Group h] Member d has left group through explicit `LeaveGroup` request",
        USUAL.format(
            at="08,000", said="Group h removed dynamic members who haven't joined: [e, f]"
        ),
        USUAL.format(
            at="09,000", said="Group h removed members who haven't sent their sync requests: [d]"
        ),
    ]
    frame = spark.createDataFrame([(line,) for line in lines], "value string").transform(ends)
    seconds = frame.withColumn("second", date_format("ts", "ss"))
    assert plain(seconds, "group_id", "member_id", "reason", "second") == [
        ("g", "a", "expiry", "03"),
        # one that comes back under its id ends again
        ("g", "a", "leave", "00"),
        ("g", "b", "leave", "04"),
        ("h", "c", "expiry", "06"),
        ("h", "d", "expiry", "09"),
        ("h", "d", "leave", "07"),
        ("h", "e", "expiry", "08"),
        ("h", "f", "expiry", "08"),
        ("s", "m", "expiry", "50"),
    ]


def test_the_time_of_a_log_is_that_of_its_zone(spark: Any) -> None:
    line = LINE.format(group="g", old=1, reason="x")
    (row,) = read(spark, line, zone="Europe/Paris").collect()
    assert row.ts == datetime(2026, 11, 20, 23, 29, 4, 719_000, tzinfo=UTC).replace(tzinfo=None)


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
