"""Each step from DataFrame to DataFrame, on a few rows that are written by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql import functions as f
from pyspark.testing import assertDataFrameEqual

from examples.history_log import LogWriter, Pair, Seat, commit, deletion, generation
from groupsdk.history.groups.arrow import MOVE
from groupsdk.history.groups.families import topic_id_text as topic_id_text_of
from groupsdk.history.sources.kinds import spark_type
from groupsdk.history.tables.causes import generations
from groupsdk.history.tables.commits import (
    commit_parts,
    commit_spans,
    offset_commits,
    topic_id_text,
)
from groupsdk.history.tables.departures import departures
from groupsdk.history.tables.following import ASSIGNMENT, GENERATION, events, of_kind
from groupsdk.history.tables.lag import lower_bounds, sampled
from groupsdk.history.tables.moves import moves
from groupsdk.history.tables.quality import quality, rejects
from groupsdk.history.tables.storms import storms
from groupsdk.history.tables.topics import topics, with_inferred
from groupsdk.history.tables.transactions import outcomes, with_state
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartitions,
)
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch
from tests.spark.reading import plain, read_segments, table


START = datetime(2026, 10, 2, tzinfo=UTC)
IDS = {name: UUID(int=place + 1) for place, name in enumerate("abcdefghi")}


def at(seconds: float) -> datetime:
    """Return a time of the tests."""
    return START + timedelta(seconds=seconds)


def test_a_commit_counts_as_its_transaction_ended(spark: Any) -> None:
    rest = "src_partition int, producer_id bigint, src_offset bigint, key binary, control boolean, reason string"
    ends = outcomes(
        spark.createDataFrame(
            [
                (1, 7, 10, b"\0\0\0\1", True, None),
                (1, 7, 20, b"\0\0\0\0", True, None),
                (1, 8, 15, b"\0\0\0\1", True, None),
                # of the controller's log, and one that could not be read
                (1, 7, 5, b"\0\0\0\2", True, None),
                (1, 7, 6, b"\0\0\0\1", True, "damaged"),
                (1, None, 99, b"\0\2\0\1g", False, None),
            ],
            rest,
        )
    )
    commits = spark.createDataFrame(
        [
            (1, 9, 7, True),
            (1, 11, 7, True),
            (1, 21, 7, True),
            (1, 14, 8, True),
            (2, 9, 7, True),
            (1, 3, -1, False),
        ],
        "src_partition int, src_offset bigint, producer_id bigint, transactional boolean",
    )
    found = commits.transform(with_state(ends))
    assert plain(found, "src_partition", "src_offset", "state") == [
        (1, 11, "aborted"),
        (1, 14, "committed"),
        (1, 21, "pending"),
        (1, 3, "committed"),
        (1, 9, "committed"),
        (2, 9, "pending"),
    ]
    assert found.columns == [*commits.columns, "state"]


def test_a_topic_id_is_text_as_kafka_writes_it(spark: Any) -> None:
    raw = [(bytes.fromhex("e4b83c39e00c40509469" + "4541776d0588"),), (b"\xff" * 16,), (None,)]
    found = spark.createDataFrame(raw, "id binary").select(topic_id_text("id").alias("t"))
    assert [row.t for row in found.collect()] == [
        "5Lg8OeAMQFCUaUVBd20FiA",
        "_____________________w",
        None,
    ]


def commits_of(spark: Any, *rows: tuple[str, int, float, int | None, int]) -> Any:
    """Make committed offsets: group, partition, second, offset, place in the log."""
    return table(
        spark,
        "offset_commits",
        *(
            {
                "group_id": group,
                "topic": "t",
                "partition": partition,
                "ts": at(second),
                "committed_offset": offset,
                "state": "committed",
                "src_partition": 3,
                "src_offset": place,
            }
            for group, partition, second, offset, place in rows
        ),
    )


def test_commits_are_summed_up_between_generations(spark: Any) -> None:
    generations = spark.createDataFrame(
        [("g", 0, 3, 10), ("g", 1, 3, 20)],
        "group_id string, seq bigint, src_partition int, src_offset bigint",
    )
    commits = commits_of(
        spark,
        ("g", 0, 1, 5, 9),
        ("g", 0, 2, 6, 11),
        ("g", 0, 3, 8, 12),
        ("g", 1, 3, 1, 13),
        ("g", 0, 4, None, 14),
        ("g", 0, 5, 9, 21),
        ("other", 0, 5, 9, 15),
    ).unionByName(commits_of(spark, ("g", 0, 6, 99, 22)).withColumn("state", f.lit("aborted")))
    spans = commits.transform(commit_parts).transform(commit_spans(generations))
    columns = ("group_id", "seq", "partition", "last_offset", "commits")
    assert plain(spans, *columns) == [
        ("g", -1, 0, 5, 1),
        ("g", 0, 0, 8, 2),
        ("g", 0, 1, 1, 1),
        ("g", 1, 0, 9, 1),
        ("other", -1, 0, 9, 1),
    ]


def test_a_move_tells_for_how_long_nobody_committed(spark: Any) -> None:
    def moved(seq: int, partition: int, before: str, after: str, from_seq: int) -> tuple[Any, ...]:
        clients = before[0], after[0]
        place = "g", seq, seq + 1, at(seq), "t", partition
        return "move", (*place, before, after, *clients, from_seq, 7, seq)

    followed = spark.createDataFrame(
        [moved(2, 1, "a1", "b1", 0), moved(3, 0, "a1", "a2", 2)],
        f"kind string, move {spark_type(MOVE)}",
    )
    spans = table(
        spark,
        "commit_spans",
        *(
            {
                "group_id": "g",
                "seq": s,
                "topic": "t",
                "partition": p,
                "first_commit_ts": at(a),
                "last_commit_ts": at(b),
            }
            for s, p, a, b in ((0, 1, 0, 2), (2, 1, 9.5, 10))
        ),
    )
    found = followed.transform(moves(spans))
    columns = ("partition", "from_member", "to_member", "idle_generations", "gap_ms", "same_client")
    assert plain(found, "seq", *columns) == [
        (2, 1, "a1", "b1", 1, 7_500, False),
        (3, 0, "a1", "a2", 0, None, True),
    ]


def generations_of(spark: Any, group: str, *seconds: float, cause: str = "join") -> Any:
    """Make generations at these seconds."""
    return table(
        spark,
        "generations",
        *(
            {
                "group_id": group,
                "seq": seq,
                "ts": at(second),
                "primary_cause": cause,
                "moved": 2,
                "commit_gap_ms": 10,
            }
            for seq, second in enumerate(seconds)
        ),
    )


def test_storms_are_many_generations_in_a_short_time(spark: Any) -> None:
    seconds = (0, 1000, 1001, 1002, 1009, 1010, 5000, 5001, 5002, 9000)
    made = generations_of(spark, "g", *seconds).unionByName(
        generations_of(spark, "calm", 0, 100, 200, 300)
    )
    stays = table(
        spark,
        "memberships",
        {
            "group_id": "g",
            "client_id": "flapping",
            "first_seq": 2,
            "last_seq": 3,
            "end_ts": at(1009),
        },
        {"group_id": "g", "client_id": "steady", "first_seq": 1, "last_seq": 9},
    )
    found = made.transform(storms(stays, generations=3, window_ms=10_000))
    columns = ("group_id", "first_seq", "last_seq", "generations", "moves", "downtime_ms")
    assert plain(found, *columns, "culprit_client", "culprit_changes") == [
        ("g", 1, 5, 5, 10, 50, "flapping", 2),
        ("g", 6, 8, 3, 6, 30, None, None),
    ]
    assert found.first().causes == {"join": 5}
    exact = generations_of(spark, "g", 0, 5, 10, 1000).transform(
        storms(stays, generations=3, window_ms=10_000)
    )
    assert exact.count() == 1
    assert (
        generations_of(spark, "g", 0, 5, 10.001, 1000)
        .transform(storms(stays, generations=3, window_ms=10_000))
        .isEmpty()
    )


def test_the_lag_is_at_least_what_others_have_committed(spark: Any) -> None:
    spans = table(
        spark,
        "commit_spans",
        {
            "group_id": "a",
            "seq": 0,
            "topic": "t",
            "partition": 0,
            "last_commit_ts": at(1),
            "last_offset": 5,
        },
        {
            "group_id": "b",
            "seq": 0,
            "topic": "t",
            "partition": 0,
            "last_commit_ts": at(2),
            "last_offset": 90,
        },
        {
            "group_id": "a",
            "seq": 1,
            "topic": "t",
            "partition": 0,
            "last_commit_ts": at(3),
            "last_offset": 30,
        },
    )
    assert plain(lower_bounds(spans), "group_id", "ts", "lag", "kind") == [
        ("a", at(1).replace(tzinfo=None), 0, "lower_bound"),
        ("a", at(3).replace(tzinfo=None), 60, "lower_bound"),
        ("b", at(2).replace(tzinfo=None), 0, "lower_bound"),
    ]


def test_lag_is_measured_against_samples_of_the_ends(spark: Any) -> None:
    commits = commits_of(spark, ("g", 0, 10, 100, 1), ("g", 0, 20, 150, 2))
    ends = spark.createDataFrame(
        [
            ("t", 0, at(second), end)
            for second, end in ((5, 90), (12, 110), (15, 150), (25, 200), (26, 150))
        ],
        "topic string, partition int, ts timestamp, end_offset bigint",
    )
    found = commits.transform(sampled(ends))
    rows = {
        row.ts.second: (row.committed_offset, row.lag, row.time_lag_ms) for row in found.collect()
    }
    assert rows == {
        12: (100, 10, 7_000),
        15: (100, 50, 10_000),
        # the end went back, as after an unclean election: how old a lag was before, nothing tells
        25: (150, 50, None),
        26: (150, 0, 0),
    }


def test_names_that_are_given_go_before_those_that_the_log_tells(spark: Any) -> None:
    followed = spark.createDataFrame(
        [("topic", ("id-1", "old")), ("topic", ("id-2", "two"))],
        "kind string, topic struct<topic_id: string, topic: string>",
    )
    commits = table(spark, "offset_commits", {"topic_id": "id-3", "topic": "three"})
    given = spark.createDataFrame([("id-1", "new")], "topic_id string, topic string")
    found = topics(followed, commits, given)
    assert plain(found, "topic_id", "topic") == [
        ("id-1", "new"),
        ("id-2", "two"),
        ("id-3", "three"),
    ]


def test_names_follow_from_what_groups_subscribe_to_and_commit(spark: Any) -> None:
    def member_of(group: str, *topics: str, pattern: str | None = None) -> Pair:
        value = ConsumerGroupMemberMetadataValue(
            None, None, "c", "/h", topics, pattern, 1, None, None
        )
        return write(ConsumerGroupMemberMetadataKey(group, "m"), value)

    def target_of(group: str, **counts: int) -> Pair:
        topics = tuple(
            TopicPartitions(IDS[name], tuple(range(count))) for name, count in counts.items()
        )
        value = ConsumerGroupTargetAssignmentMemberValue(topics)
        return write(ConsumerGroupTargetAssignmentMemberKey(group, "m"), value)

    pairs = [
        # one topic, and one that the log names already
        *((5, "one", member_of("one", "a")), (7, "one", target_of("one", a=3))),
        # two, of which the commits tell which is which
        *((5, "two", member_of("two", "b", "c")), (7, "two", target_of("two", b=2, c=9))),
        # two that are alike: nobody knows
        *((5, "alike", member_of("alike", "d", "e")), (7, "alike", target_of("alike", d=4, e=4))),
        # one of them is told by another group, whose only topic it is
        (5, "more", member_of("more", "f", "g")),
        (7, "more", target_of("more", f=4, g=4)),
        *((5, "less", member_of("less", "f")), (7, "less", target_of("less", f=4))),
        # any topic may be that of a pattern
        (5, "open", member_of("open", pattern="h.*")),
        *((5, "open", member_of("open", "i")), (7, "open", target_of("open", i=1))),
    ]
    rest = spark.createDataFrame(
        [(group, kind, *pair, None) for kind, group, pair in pairs],
        "group_id string, record_type smallint, key binary, value binary, reason string",
    )
    commits = commits_of(spark, ("two", 7, 1, 5, 9)).withColumn("topic", f.lit("c"))
    known = table(spark, "topics", {"topic_id": "known", "topic": "known"})
    found = known.transform(with_inferred(rest, commits))
    assert plain(found, "topic_id", "topic") == sorted(
        [
            ("known", "known"),
            *((topic_id_text_of(IDS[name]), name) for name in ("a", "b", "c", "f")),
        ],
        key=str,
    )


def test_what_is_damaged_unknown_or_missing_is_said_where_it_is(spark: Any, tmp_path: Path) -> None:
    with LogWriter(tmp_path, 5, batch_records=1) as log:
        log.append(1000, generation("g", 1, {"m": Seat("c", {"t": [0]})}))
        log.append(2000, generation("g", 4, {"m": Seat("c", {"t": [0]})}))
        log.append(2000, (b"\0\x63\0\1g", b"\0\0"))
        log.append(2000, (b"\0\2\0\1g", b"\0\x63"))
        log.append(2000, (b"\0\1\0\1g", b"\0\0"))
        log.append(2000, (b"\0\2\0\1h", b"\0\3"))
        log.append(3000, commit("g", "t", 0, 5))
        log.offset += 10
        log.append(3000, commit("g", "t", 0, 6))
    path = next(log.folder.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data) + b"\0\0\0\0\0\0\0\x11\0\0")
    rest = read_segments(spark, tmp_path, "rest")
    ends = outcomes(rest)
    commits = read_segments(spark, tmp_path, "commits").transform(offset_commits(ends)).cache()
    followed = events(rest).cache()
    made = followed.transform(of_kind(GENERATION)).cache()
    refused = rejects(rest, followed).cache()
    assert plain(made, "generation", "missing_before") == [(1, 0), (4, 2)]
    found = {(row.src_offset, row.record_type): row for row in refused.collect()}
    assert {place: row.lost for place, row in found.items()} == {
        (2, 99): 1,
        (3, 2): 1,
        (4, 1): 1,
        (5, 2): 1,
        (17, None): 1,
        (None, None): 0,
    }
    assert "checksum" in found[17, None].reason
    assert found[17, None].place.startswith(f"{path}:")
    assert "ends within a batch" in found[None, None].reason
    assert bytes(found[2, 99].key) == b"\0\x63\0\1g"
    (row,) = quality(commits, rest, refused, made).collect()
    assert (row.first_offset, row.last_offset, row.records, row.offset_gaps) == (0, 6, 7, 0)
    assert (row.bad_batches, row.undecodable, row.missing_generations) == (2, 3, 2)
    assert row.unknown_types == {99: 1}
    for frame in (commits, followed, made, refused):
        frame.unpersist()


def test_a_reason_is_that_of_the_generation_it_was_given_for(spark: Any, tmp_path: Path) -> None:
    with LogWriter(tmp_path, 5) as log:
        for start in (1000, 900_000):
            log.append(start, generation("g", 1, {"m": Seat("c", {"t": [0]})}, ts_ms=start))
            log.append(start + 5000, generation("g", 2, {}, ts_ms=start + 5000))
            log.append(start + 6000, deletion("g"))
    rest = read_segments(spark, tmp_path, "rest")
    followed = events(rest).localCheckpoint()
    counted = followed.transform(of_kind(GENERATION))
    spans, names, moved = (table(spark, name) for name in ("commit_spans", "topics", "moves"))

    def said(member: str, second: float, number: int, cause: str) -> tuple[Any, ...]:
        at_ = datetime.fromtimestamp(second, UTC)
        return "g", number, at_, f"of {member}", cause, [cause], member, at_, cause

    shape = (
        "group_id string, generation int, ts timestamp, reason string, cause string,"
        " compatible array<string>, member_id string, end_ts timestamp, end_reason string"
    )
    # of the first time that the group was there; the log of the second one is lost
    told = spark.createDataFrame([said("n", 0.5, 1, "join"), said("m", 5.5, 2, "expiry")], shape)
    ends = told.select("group_id", "member_id", told.end_ts.alias("ts"), told.cause.alias("reason"))
    gone = followed.transform(departures(names, spans, counted, told=ends)).localCheckpoint()
    made = followed.transform(generations(gone, moved, spans, told))
    assert plain(made.filter("gone > 0 or joined > 0"), "seq", "evidence", "primary_cause") == [
        (0, "broker_log", "join"),
        (1, "broker_log", "expiry"),
        (2, "log", "join"),
        (3, "log", "leave"),
    ]
    assert plain(gone, "seq", "reason", "confidence") == [(1, "expiry", 1.0), (3, "leave", 0.9)]


def test_an_aborted_transaction_is_seen_in_files(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    pair = commit("g", "t", 0, 5)
    data = build_batch([Record(0, 1000, *pair)], 0, 0, 77, 0, 0, transactional=True)
    end = build_marker(
        77, 0, committed=False, coordinator_epoch=0, timestamp_ms=2000, base_offset=1
    )
    (folder / f"{0:020}.log").write_bytes(data + end)
    table_ = read_segments(spark, tmp_path, "commits").transform(
        offset_commits(outcomes(read_segments(spark, tmp_path, "rest")))
    )
    assert plain(table_, "committed_offset", "state") == [(5, "aborted")]


def test_groups_are_followed_wherever_their_records_lie(spark: Any, tmp_path: Path) -> None:
    for partition in range(3):
        with LogWriter(tmp_path, partition, batch_records=2, segment_bytes=400) as log:
            for number in range(1, 6):
                seats = {"m": Seat("c", {"t": list(range(number))})}
                log.append(1000 * number, generation(f"g{partition}", number, seats))
            log.append(9000, deletion(f"g{partition}"))
    assert len(list(tmp_path.glob("*/*.log"))) > 6
    followed = events(read_segments(spark, tmp_path, "rest"))
    made = followed.transform(of_kind(GENERATION))
    expected = [(f"g{p}", seq, seq + 1, seq + 1) for p in range(3) for seq in range(5)]
    shape = "group_id string, seq bigint, generation int, n_partitions int"
    assertDataFrameEqual(
        made.select("group_id", "seq", "generation", "n_partitions"),
        spark.createDataFrame(expected, shape),
    )
    assert followed.transform(of_kind(ASSIGNMENT)).count() == 45
